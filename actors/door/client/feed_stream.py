"""One stream of feeds from a host, from the client's side."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol

import grpc.aio
from typing_extensions import override

from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.streams import BROKEN, Stream, Streams, frame_in
from tierledger.actors.door.limits import FEED_METHOD
from tierledger.actors.door.wire.failures import error_of
from tierledger.actors.door.wire.feed import expect_message, subscribe_message
from tierledger.actors.feed.frames import Subscription
from tierledger.actors.slices import Slices
from tierledger.events.commands import Claim


class Taker(Protocol):
    """The owner of a subscription."""

    def given(self, item: pb.Fed) -> bool:
        """Take the next item; returns whether the subscription is to go on."""


class _Subscribed(NamedTuple):
    taker: Taker
    ended: asyncio.Future[pb.FeedEnded]


class FeedStream(Stream):
    """An open stream: sends subscriptions and reads items, each taken before the next."""

    method = FEED_METHOD

    def __init__(self, door: str, channel: grpc.aio.Channel, call: Any) -> None:  # noqa: ANN401
        """Made by `opened`."""
        super().__init__(door, channel, call)
        self._subscribed: dict[int, _Subscribed] = {}
        self._outgoing = pb.ClientFrame()

    async def feed(self, subscription: Subscription, taker: Taker) -> pb.FeedEnded:
        """Pass the host's items to `taker`; returns when either ends the subscription.

        Raises:
            NotReady: The stream has ended.
        """
        number, ended = self.begin(subscription, taker)
        try:
            return await ended
        finally:
            self.drop(number)

    def begin(
        self, subscription: Subscription, taker: Taker
    ) -> tuple[int, asyncio.Future[pb.FeedEnded]]:
        """The number of a new subscription, and its end; like `feed`, but it needs no task.

        Raises:
            NotReady: The stream has ended.
        """
        if self.ended is not None:
            raise self.ended
        self._last_id += 1
        number = self._last_id
        ended: asyncio.Future[pb.FeedEnded] = asyncio.get_running_loop().create_future()
        self._subscribed[number] = _Subscribed(taker, ended)
        self._outgoing.subscribed.append(subscribe_message(number, subscription))
        self._wake.set()
        return number, ended

    def drop(self, number: int) -> None:
        """End a subscription; does nothing if it has ended already."""
        if self._subscribed.pop(number, None) is not None:
            self._outgoing.unsubscribed.append(number)
            self._wake.set()

    def expect(self, taker: Taker, claim: Claim | None) -> None:
        """The broker of `taker` announced itself anew, under `claim`."""
        for number, one in self._subscribed.items():
            if one.taker is taker:
                self._outgoing.expected.append(expect_message(number, claim))
                self._wake.set()

    @override
    async def _write(self) -> None:
        try:
            while self.ended is None:
                await self._wake.wait()
                self._wake.clear()
                outgoing, self._outgoing = self._outgoing, pb.ClientFrame()
                await self._call.write(outgoing.SerializeToString())
        except BROKEN as error:
            await self._end(error)

    @override
    async def _read(self) -> None:
        slices = Slices()
        try:
            while True:
                frame = frame_in(await self._call.read())
                for item in frame.fed:
                    self._give(item)
                    await slices.yield_if_due()
                if frame.HasField("farewell"):
                    await self._end(error_of(frame.farewell))
                    return
        except BROKEN as error:
            await self._end(error)

    def _give(self, item: pb.Fed) -> None:
        one = self._subscribed.get(item.id)
        if one is None or one.ended.done():
            return
        if item.HasField("ended"):
            del self._subscribed[item.id]
            one.ended.set_result(item.ended)
        elif not one.taker.given(item):
            one.ended.set_result(pb.FeedEnded())

    @override
    async def _end(self, error: Exception) -> None:
        await super()._end(error)
        assert self.ended is not None, "it has ended"
        subscribed, self._subscribed = self._subscribed, {}
        for one in subscribed.values():
            if not one.ended.done():
                one.ended.set_exception(self.ended)


class FeedStreams(Streams):
    """The feed streams of one client, each opened when it is needed."""

    kind: type[Stream] = FeedStream

    async def feeding(self, door: str, host: str | None = None) -> FeedStream:
        """The feed stream to a door; see `to`."""
        stream = await self.to(door, host)
        assert isinstance(stream, FeedStream), "all of them are"
        return stream
