"""One client's stream, from the host's side: calls in, answers out as they are ready.

One task reads and begins calls, one writes whatever has been answered since its last frame.
Who has too many calls without an answer, or does not read, is read no further; so one client's
haste is its own affair.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine
from functools import partial
from typing import Any

import grpc.aio
import structlog
from google.protobuf.message import DecodeError

from tierledger.actors.calls import Answered
from tierledger.actors.deadline import AlarmClock
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import FRAME_BYTES, FRAME_ITEMS, DoorLimits
from tierledger.actors.door.security.identity import check_allowed
from tierledger.actors.door.server.admission import Context, Credential
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.wire.answers import put_result
from tierledger.actors.door.wire.calls import DEADLINE_MS
from tierledger.actors.door.wire.failures import failure_message
from tierledger.actors.slices import Slices
from tierledger.events.errors import (
    InvalidArgument,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    RemoteStorageError,
)

FAREWELL_S = 1.0
"""How long a client may take to hear why it is sent away."""

CALLS_AT_ONCE = 32
"""Calls that are begun before others may run, at least: a millisecond's."""

CHANGES = ("write", "register", "announce")
"""Calls that may have happened when their time is over."""

ANSWER_BYTES = 64
"""What an answer without rows counts for."""

_log = structlog.get_logger("tierledger.door")


class _Open:
    """A call that has no answer yet."""

    __slots__ = ("answering", "message")

    def __init__(self, message: pb.Call) -> None:
        self.message = message
        self.answering: int | asyncio.Task[object] | None = None
        """What gives it up."""


class Conversation:
    """Made after the greetings; `run` until either side has had enough."""

    def __init__(
        self, desk: Desk, limits: DoorLimits, context: Context, credential: Credential
    ) -> None:
        """`context`: gRPC's end of the stream; `credential`: whose it is."""
        self._desk = desk
        self._credential = credential
        self._limits = limits
        self._context = context
        self._last_id = 0
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, _Open] = {}
        self._patience: AlarmClock[int] = AlarmClock(self._expire)
        """Of the callers, by the calls' numbers."""
        self._frames: deque[tuple[pb.HostFrame, int]] = deque()
        """What is to be written, each frame with its bytes, about; the last one still grows."""
        self._unread_bytes = 0
        self._unwritten = 0
        """Calls that were begun and whose answers are in no frame that was written."""
        self._has_answers = asyncio.Event()
        self._has_room = asyncio.Event()
        self._farewell: asyncio.Future[RemoteStorageError | None] = (
            asyncio.get_running_loop().create_future()
        )

    def end(self, error: RemoteStorageError | None) -> None:
        """End the conversation, with a farewell if there is a reason to tell."""
        if not self._farewell.done():
            self._farewell.set_result(error)
            self._has_answers.set()  # The writer looks up.

    async def run(self) -> None:
        """Talk until the client has left, or is told farewell."""
        loop = asyncio.get_running_loop()
        reading = loop.create_task(self._guarded(self._read()))
        writing = loop.create_task(self._guarded(self._write()))
        try:
            error = await asyncio.shield(self._farewell)
            # A frame that is being written is not broken off: gRPC would take no other.
            await asyncio.wait([writing], timeout=FAREWELL_S)
        finally:
            for task in (reading, writing):
                task.cancel()
            for number in list(self._open):
                self._give_up(number)
            self._patience.stop()
            await asyncio.gather(reading, writing, return_exceptions=True)
        if error is not None:
            with contextlib.suppress(TimeoutError):  # It reads nothing; its loss.
                await self._say(error)

    async def _say(self, error: RemoteStorageError) -> None:
        async with asyncio.timeout(FAREWELL_S):
            frame = pb.HostFrame(farewell=failure_message(error))
            await self._context.write(frame.SerializeToString())

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Whatever ends the reader or the writer ends the conversation, and is told."""
        try:
            await work
            self.end(None)
        except RemoteStorageError as error:
            self.end(error)
        except (grpc.aio.AioRpcError, grpc.aio.InternalError, asyncio.InvalidStateError):
            self.end(None)  # The client is gone.
        except Exception as error:  # noqa: BLE001 - The client must not wait for ever.
            _log.exception("a conversation failed")
            self.end(OutcomeUnknown(f"{type(error).__name__}: {error}"))

    # In.

    async def _read(self) -> None:
        slices = Slices()
        while True:
            await self._room()
            frame = await next_frame(self._context)
            if frame is None:
                return
            if frame.HasField("greeting"):
                raise InvalidArgument("expected a greeting in the first frame only")
            if frame.subscribed or frame.expected or frame.unsubscribed:
                raise InvalidArgument("expected subscriptions on a stream of Feed only")
            for message in frame.calls:
                if self._unwritten >= self._limits.calls_max:
                    await self._room()
                self._begin(message)
                if not self._last_id % CALLS_AT_ONCE:
                    await slices.yield_if_due()
            for number in frame.cancelled:
                self._cancel(number)

    async def _room(self) -> None:
        while self._unwritten >= self._limits.calls_max:
            self._has_room.clear()
            await self._has_room.wait()

    def _begin(self, message: pb.Call) -> None:
        # Who is not known any more gets no answer, but is told to come in again.
        identity = self._credential.identity()
        number = message.id
        if number <= self._last_id:
            raise InvalidArgument(f"expected an id above {self._last_id}, got {number}")
        self._last_id = number
        self._unwritten += 1
        # Before it is answered, which may be at once.
        one = self._open[number] = _Open(message)
        try:
            check_allowed(identity, message)
            one.answering = self._desk.answer(message, partial(self._answered, number))
        except RemoteStorageError as error:
            self._answered(number, error)
        if number in self._open:
            seconds = (message.deadline_ms or DEADLINE_MS) / 1000
            self._patience.enter(number, self._loop.time() + seconds)

    def _cancel(self, number: int) -> None:
        if number in self._open:
            self._give_up(number)
            self._unwritten -= 1
            self._has_room.set()

    def _give_up(self, number: int) -> pb.Call:
        """Have nothing further done for a call, which gets no answer."""
        one = self._open.pop(number)
        self._patience.take_out(number)
        if one.answering is not None:
            self._desk.give_up(one.answering)
        return one.message

    def _expire(self, number: int) -> None:
        is_change = self._give_up(number).WhichOneof("ask") in CHANGES
        kind = OutcomeUnknown if is_change else NotReady
        self._put(number, kind("no answer within the call's time"))

    # Out.

    def _answered(self, number: int, result: object) -> None:
        if self._open.pop(number, None) is not None:  # Else nobody waits for it any more.
            self._patience.take_out(number)
            self._put(number, result)

    def _put(self, number: int, result: object) -> None:
        frame, size = self._frames[-1] if self._frames else (pb.HostFrame(), FRAME_BYTES)
        if size >= FRAME_BYTES or len(frame.answers) >= FRAME_ITEMS:
            frame, size = pb.HostFrame(), 0
            self._frames.append((frame, size))
        answer = frame.answers.add()
        added = ANSWER_BYTES
        if type(result) is int:  # Of a write, as most are.
            answer.written.position = result
        elif isinstance(result, pb.Answer):
            answer.CopyFrom(result)
            added = result.ByteSize()
        else:
            put_result(result, answer)
            added = _bytes(result)
        answer.id = number
        self._frames[-1] = (frame, size + added)
        self._unread_bytes += added
        if self._unread_bytes > self._limits.unread_bytes_max:
            self.end(Overloaded(f"{self._unread_bytes} bytes of answers were not read"))
        self._has_answers.set()

    async def _write(self) -> None:
        while not self._farewell.done():
            await self._has_answers.wait()
            self._has_answers.clear()
            while self._frames and not self._farewell.done():
                frame, size = self._frames.popleft()
                await self._send(frame)
                self._unread_bytes -= size
                self._unwritten -= len(frame.answers)
                self._has_room.set()

    async def _send(self, frame: pb.HostFrame) -> None:
        try:
            async with asyncio.timeout(self._limits.reading_s):
                await self._context.write(frame.SerializeToString())
        except TimeoutError:
            raise Overloaded(f"nothing was read for {self._limits.reading_s:g} s") from None


async def next_frame(context: Context) -> pb.ClientFrame | None:
    """What a client says next; none if it has left.

    Raises:
        InvalidArgument: It is no frame.
    """
    data: Any = await context.read()
    if data is grpc.aio.EOF:
        return None
    try:
        return pb.ClientFrame.FromString(data)
    except DecodeError as error:
        raise InvalidArgument(f"expected a ClientFrame: {error}") from error


def _bytes(result: object) -> int:
    """About how long an answer is."""
    if isinstance(result, Answered):
        value = result.value
        if type(value) is list:
            return ANSWER_BYTES + sum(map(len, value))
        if type(value) is bytes:
            return ANSWER_BYTES + len(value)
    return ANSWER_BYTES
