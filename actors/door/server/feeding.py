"""One client's stream of feeds, from the host's side.

A frame is filled with items of subscriptions, one of each in turn. The next frame is filled
once gRPC has taken this one. So a client that reads slowly costs one frame and a place in each
feed's ring, a snapshot delays changes of other partitions by one item at most, and the loop is
free after each frame.
"""

from __future__ import annotations

import asyncio
from functools import partial

from typing_extensions import override

from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import FRAME_ITEMS, DoorLimits
from tierledger.actors.door.security.identity import check_fed
from tierledger.actors.door.server.admission import Context, Credential
from tierledger.actors.door.server.call_record import CallRecord
from tierledger.actors.door.server.conversation import Conversation, Unread, next_frame
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.wire.failures import failure_message
from tierledger.actors.door.wire.feed import claim_in, put_frame, subscription_of
from tierledger.actors.feed.frames import FRAME_BYTES, Change, Frame, Head, Slice, Subscription
from tierledger.actors.host.feeds import FeedSubscriber
from tierledger.actors.host.heads import WatchedHead
from tierledger.actors.slices import Slices
from tierledger.events.errors import (
    InvalidArgument,
    NotAuthorized,
    NotLeader,
    NotReady,
    Overloaded,
    RemoteStorageError,
)

ITEM_BYTES = 128
"""Bytes that an item without rows counts for."""

SLICES_PAUSE_S = 0.002
"""Pause after a frame with slices while a caller waits for an answer of this host. Such a frame
takes the loop for about a millisecond, and calls are to get more of its time than snapshots."""

HEADS_PAUSE_S = 0.01
"""Pause after a frame with heads. Each head costs a follower a read, which under load covers
several batches thanks to the pause."""

_PAUSES_S = {Slice: SLICES_PAUSE_S, Head: HEADS_PAUSE_S}

ELSEWHERE_S = 5.0
"""How long the coordinator may take to name another host that feeds a partition."""


class _FeedSubscription:
    """A subscription of this stream."""

    __slots__ = ("fed", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.fed: FeedSubscriber | WatchedHead | None = None
        """None while another host that feeds the partition is searched for."""


class FeedConversation(Conversation):
    """A stream of feeds, made after the greetings; `run` returns when a side has ended it."""

    def __init__(
        self,
        desk: Desk,
        limits: DoorLimits,
        context: Context,
        credential: Credential,
        unread: Unread | None = None,
        record: CallRecord | None = None,
    ) -> None:
        super().__init__(desk, limits, context, credential, unread, record)
        self._subscribed: dict[int, _FeedSubscription] = {}
        self._due: dict[int, None] = {}
        """Subscriptions that may have an item, in the order in which they are asked."""
        self._ended: dict[int, pb.FeedEnded] = {}
        self._searches: dict[asyncio.Task[None], None] = {}

    @override
    async def run(self) -> None:
        try:
            await super().run()
        finally:
            for one in self._subscribed.values():
                if one.fed is not None:
                    one.fed.close()
            self._subscribed.clear()
            for search in self._searches:
                search.cancel()

    # Subscriptions.

    @override
    async def _read(self) -> None:
        slices = Slices()
        while True:
            frame = await next_frame(self._context)
            if frame is None:
                return
            if frame.HasField("greeting") or frame.calls or frame.cancelled:
                raise InvalidArgument("expected subscriptions only on a stream of Feed")
            for message in frame.subscribed:
                await self._until_readable()
                self._subscribe(message)
                await slices.yield_if_due()
            for expected in frame.expected:
                self._expect(expected)
                await slices.yield_if_due()
            for number in frame.unsubscribed:
                self._unsubscribe(number)

    @override
    async def _until_readable(self) -> None:
        while len(self._ended) + len(self._searches) >= self._limits.calls_max:
            self._is_readable.clear()
            await self._is_readable.wait()

    def _subscribe(self, message: pb.Subscribe) -> None:
        identity, number = self._credential.identity(), message.id
        if number <= self._last_id:
            raise InvalidArgument(f"expected an id above {self._last_id}, got {number}")
        self._last_id = number
        try:
            check_fed(identity, "subscribed", message)
            subscription = subscription_of(message)
            if len(self._subscribed) >= self._limits.subscriptions_max:
                raise Overloaded(
                    f"{self._limits.subscriptions_max} subscriptions are on this stream already"
                )
        except RemoteStorageError as error:
            self._end_one(number, error)
            return
        one = self._subscribed[number] = _FeedSubscription(subscription)
        try:
            wake = partial(self._wake, number)
            if subscription.head_only:
                one.fed = self._desk.heads.watch(subscription.key, wake)
            else:
                one.fed = self._desk.feeds.subscribe(subscription, wake)
        except NotLeader as error:
            self._search(number, error)
        except RemoteStorageError as error:
            self._end_one(number, error)
        else:
            self._wake(number)

    def _expect(self, message: pb.Expect) -> None:
        one = self._subscribed.get(message.id)
        if one is None:
            return
        try:
            check_fed(self._credential.identity(), "expected", message)
        except NotAuthorized as error:
            self._end_one(message.id, error)
            return
        claim = claim_in(message)
        one.subscription = one.subscription._replace(claim=claim)
        if one.fed is not None:
            one.fed.expect(claim)

    def _unsubscribe(self, number: int) -> None:
        one = self._subscribed.pop(number, None)
        if one is not None and one.fed is not None:
            one.fed.close()
        self._ended.pop(number, None)

    def _wake(self, number: int) -> None:
        self._due[number] = None
        self._has_answers.set()

    # Ends.

    def _end_one(self, number: int, error: RemoteStorageError, better_door: str = "") -> None:
        self._unsubscribe(number)
        failure = failure_message(error)
        self._ended[number] = pb.FeedEnded(failure=failure, better_door=better_door)
        self._has_answers.set()

    def _search(self, number: int, error: NotLeader) -> None:
        """End a subscription that is not fed here, with the door of the host that feeds it."""
        one = self._subscribed[number]
        if one.subscription.head_only:
            self._end_one(number, error)  # Such subscribers ask for many routes at once.
            return
        if one.fed is not None:
            one.fed.close()
            one.fed = None
        work = self._find(number, one.subscription, error)
        search = asyncio.get_running_loop().create_task(work)
        self._searches[search] = None
        search.add_done_callback(self._searched)

    def _searched(self, search: asyncio.Task[None]) -> None:
        self._searches.pop(search, None)
        self._is_readable.set()

    async def _find(
        self, number: int, subscription: Subscription, error: RemoteStorageError
    ) -> None:
        door = ""
        try:
            async with asyncio.timeout(ELSEWHERE_S):
                door = await self._desk.fed_elsewhere(subscription)
        except RemoteStorageError as nowhere:
            error = nowhere
        except Exception as trouble:  # noqa: BLE001 - Whatever keeps the coordinator from answering.
            error = NotReady(f"it is not known where it is fed: {type(trouble).__name__}")
        if number in self._subscribed:
            self._end_one(number, error, door)

    # Frames.

    @override
    async def _write(self) -> None:
        while not self._farewell.done():
            await self._has_answers.wait()
            self._has_answers.clear()
            while (self._ended or self._due) and not self._farewell.done():
                self._credential.identity()  # Ends the stream if the token is not valid now.
                frame, pause_s = self._filled()
                if not frame.fed:
                    await asyncio.sleep(0)
                    continue
                await self._send(frame)
                if pause_s:
                    is_free = pause_s == SLICES_PAUSE_S and not self._desk.is_asked
                    await asyncio.sleep(0 if is_free else pause_s)

    def _filled(self) -> tuple[pb.HostFrame, float]:
        """A frame with as many items as it takes, and the pause (s) to make after it."""
        frame, size, pause_s = pb.HostFrame(), 0, 0.0
        while self._ended and len(frame.fed) < FRAME_ITEMS:
            number = next(iter(self._ended))
            frame.fed.add(id=number, ended=self._ended.pop(number))
            self._is_readable.set()
        looks = FRAME_ITEMS - len(frame.fed)
        while self._due and size < FRAME_BYTES and looks:
            looks -= 1
            number = next(iter(self._due))
            del self._due[number]
            one = self._subscribed.get(number)
            if one is None or one.fed is None:
                continue
            try:
                given = one.fed.take()
            except NotLeader as error:
                self._search(number, error)
            except RemoteStorageError as error:
                self._end_one(number, error)
            else:
                if given is not None:
                    put_frame(given, frame.fed.add(id=number))
                    size += _bytes(given)
                    pause_s = max(pause_s, _PAUSES_S.get(type(given), 0.0))
                    if one.fed.has_more:
                        self._due[number] = None
        return frame, pause_s


def _bytes(frame: Frame | Head) -> int:
    """About how many bytes an item has."""
    if not isinstance(frame, (Slice, Change)):
        return ITEM_BYTES
    rows, *others = frame.contents
    return ITEM_BYTES + sum(map(len, rows)) + sum(map(len, others)) * ITEM_BYTES // 4
