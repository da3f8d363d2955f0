"""Subscribes a host's followers to hints, from the hosts that lead, that their logs have grown.

One stream to each leading host carries positions. The coordinator's routes name these hosts; a
route that turns out wrong is asked for again, and the log is polled meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.feed.frames import Subscription
from tierledger.actors.host.heads import Hints
from tierledger.actors.host.host import Host
from tierledger.events.errors import RemoteStorageError
from tierledger.storage.process_log import ProcessLog

if TYPE_CHECKING:
    from tierledger.actors.door import door_pb2 as pb
    from tierledger.actors.door.client.feed_stream import FeedStream, FeedStreams
    from tierledger.actors.door.server.desk import Desk

LOOK_S = 0.5
LOOK_MAX_S = 4.0
"""Shortest and longest pause between two searches for followers that get no hints. It doubles
while they are the same ones, as where no broker leads."""

ROUTES_AT_ONCE = 500

_log = ProcessLog("tierledger.host")


class _HintTaker:
    """Passes the hints about one partition on to `Hints`."""

    def __init__(self, hints: Hints, key: PartitionKey) -> None:
        self._hints = hints
        self._key = key

    def given(self, item: pb.Fed) -> bool:
        if item.HasField("head"):
            self._hints.arrived(self._key, item.head.position)
        return True


class _HintSubscription(NamedTuple):
    stream: FeedStream
    number: int


class Hinting:
    """The subscriptions of one host to heads at other hosts."""

    def __init__(self, host: Host, desk: Desk, streams: FeedStreams) -> None:
        """`desk` knows which host leads; `streams` go to the doors of other hosts."""
        self._host = host
        self._desk = desk
        self._streams = streams
        self._subscribed: dict[PartitionKey, _HintSubscription] = {}

    async def run(self) -> None:
        """Subscribe until cancelled, and again if a subscription ended or brings no hints."""
        pause_s = LOOK_S
        unheard: set[PartitionKey] = set()
        asked: set[PartitionKey] = set()
        try:
            while True:
                await asyncio.sleep(pause_s)
                for key in [*self._subscribed]:
                    if not self._host.serves(key, FOLLOWER):
                        self._drop(key)
                former, unheard = unheard, self._host.hints.unheard()
                # A subscription counts as lost after two searches: a hint may be on its way.
                lost = {key for key in unheard if key not in self._subscribed or key in former}
                pause_s = min(2 * pause_s, LOOK_MAX_S) if lost and lost == asked else LOOK_S
                asked, keys = lost, sorted(lost)
                for first in range(0, len(keys), ROUTES_AT_ONCE):
                    await self._subscribe(keys[first : first + ROUTES_AT_ONCE])
        finally:
            await self._streams.close()

    async def _subscribe(self, keys: Sequence[PartitionKey]) -> None:
        for key in keys:
            self._drop(key)
        try:
            places = await self._desk.led_from(keys)
        except Exception as error:  # noqa: BLE001 - Whatever keeps the coordinator from answering.
            _log.debug("it is not known who leads", error=repr(error))
            return
        led: dict[tuple[str, str], list[PartitionKey]] = {}
        for key, (address, door) in zip(keys, places, strict=True):
            if door and address != self._desk.address:
                led.setdefault((address, door), []).append(key)
        await asyncio.gather(*(self._at(*place, some) for place, some in led.items()))

    async def _at(self, address: str, door: str, keys: Sequence[PartitionKey]) -> None:
        try:
            stream = await self._streams.feeding(door, address)
        except RemoteStorageError as error:
            _log.debug("a leader's host sends no hints", address=address, error=str(error))
            return
        for key in keys:
            number, ended = stream.begin(
                Subscription(key, LEADER, head_only=True), _HintTaker(self._host.hints, key)
            )
            one = self._subscribed[key] = _HintSubscription(stream, number)
            ended.add_done_callback(partial(self._ended, key, one))

    def _ended(
        self, key: PartitionKey, one: _HintSubscription, ended: asyncio.Future[pb.FeedEnded]
    ) -> None:
        ended.exception()  # Marked as seen: the next search subscribes again.
        if self._subscribed.get(key) is one:
            self._drop(key)

    def _drop(self, key: PartitionKey) -> None:
        one = self._subscribed.pop(key, None)
        if one is not None:
            one.stream.drop(one.number)
            self._host.hints.end(key)
