"""One client's stream, from the host's side: calls in, answers out as they are ready.

One task reads and begins calls, another writes the answers that are ready since its last frame.
Back-pressure: a client with too many calls without a written answer, as one that does not read,
is read no further. Pages of lists are made when there is room for them. So a client that does
not read costs others neither time nor memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc.aio
from google.protobuf.message import DecodeError

from tierledger.actors.calls import Answered
from tierledger.actors.deadline import AlarmClock
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import FRAME_BYTES, FRAME_ITEMS, DoorLimits
from tierledger.actors.door.security.identity import check_allowed
from tierledger.actors.door.server.admission import Context, Credential
from tierledger.actors.door.server.call_record import CallRecord
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.server.outcomes import CANCELLED, outcome_of
from tierledger.actors.door.wire.answers import put_result
from tierledger.actors.door.wire.calls import DEADLINE_MS, check_named
from tierledger.actors.door.wire.failures import failure_message
from tierledger.actors.slices import Slices
from tierledger.events.errors import (
    InvalidArgument,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    RemoteStorageError,
)
from tierledger.storage.process_log import ProcessLog

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Span

FAREWELL_S = 1.0
"""How long a client may take to read the farewell, which says why the stream ends."""

CALLS_AT_ONCE = 32
"""Calls that are begun before other tasks may run, at least: about a millisecond."""

CHANGES = ("write", "register", "announce")
"""Calls that are in doubt when their time is over."""

WINDOW_BYTES = 1024 * 1024
"""Unread bytes of a stream from which no further page of a list is made for it."""

ANSWER_BYTES = 64
"""Bytes that an answer without rows counts for."""

_log = ProcessLog("tierledger.door")


class Unread:
    """Bounds the bytes of answers that clients have not read, of all streams of a host."""

    def __init__(self, limits: DoorLimits) -> None:
        self._bytes_max = limits.unread_bytes_max
        self._bytes = 0
        self._streams: dict[Conversation, None] = {}

    def count(self, stream: Conversation, added: int) -> None:
        """Count `added` bytes; if all are too many, end the stream that has the most."""
        self._streams[stream] = None
        self._bytes += added
        if self._bytes > self._bytes_max and added > 0:
            most = max(self._streams, key=lambda one: one.unread_bytes)
            most.end(Overloaded(f"{most.unread_bytes} bytes of answers were not read"))

    def left(self, stream: Conversation) -> None:
        """The stream has ended, and with it its answers."""
        if self._streams.pop(stream, 0) is None:
            self._bytes -= stream.unread_bytes


class _OpenCall:
    """A call that has no answer yet."""

    __slots__ = ("answering", "begun_s", "message", "span")

    def __init__(self, message: pb.Call, begun_s: float, span: Span | None) -> None:
        self.message = message
        self.begun_s = begun_s
        self.span = span
        self.answering: int | asyncio.Task[object] | None = None
        """What to pass to `Desk.give_up`."""


class Conversation:
    """One stream, made after the greetings; `run` returns when either side has ended it."""

    def __init__(
        self,
        desk: Desk,
        limits: DoorLimits,
        context: Context,
        credential: Credential,
        unread: Unread | None = None,
        record: CallRecord | None = None,
    ) -> None:
        """`context`: gRPC's end of the stream; `credential`: the client's.

        `unread` counts unread bytes and `record` calls, for all streams of the host.
        """
        self.making = asyncio.Lock()
        self.heard: Callable[[], None] | None = None
        """Called for each frame with calls."""
        self._unread = unread or Unread(limits)
        self._record = record or CallRecord(desk)
        self._desk = desk
        self._credential = credential
        self._limits = limits
        self._context = context
        self._last_id = 0
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, _OpenCall] = {}
        self._patience: AlarmClock[int] = AlarmClock(self._expire)
        """The calls' deadlines, by call number."""
        self._frames: deque[tuple[pb.HostFrame, int]] = deque()
        """Frames to write, each with about its size in bytes; the last one still grows."""
        self._unread_bytes = 0
        self._unwritten = 0
        """Calls that were begun, without those whose answers are in written frames."""
        self._has_answers = asyncio.Event()
        self._is_readable = asyncio.Event()
        self._has_read = asyncio.Event()
        self._farewell: asyncio.Future[RemoteStorageError | None] = (
            asyncio.get_running_loop().create_future()
        )

    def end(self, error: RemoteStorageError | None) -> None:
        """End the stream; with an `error`, a farewell tells the client why."""
        if not self._farewell.done():
            self._farewell.set_result(error)
            self._has_answers.set()  # Wakes the writer.
            self._has_read.set()

    @property
    def name(self) -> str:
        """The client's connection, whose streams share their turns at the host."""
        return self._context.peer()

    @property
    def unread_bytes(self) -> int:
        """About the bytes of answers that are made and not written."""
        return self._unread_bytes

    async def room(self) -> None:
        """Return once the client has read most of its answers, or the stream ends."""
        while self._unread_bytes >= WINDOW_BYTES and not self._farewell.done():
            self._has_read.clear()
            await self._has_read.wait()

    async def run(self) -> None:
        """Read and answer calls until the client has left, or `end` was called."""
        loop = asyncio.get_running_loop()
        reading = loop.create_task(self._guarded(self._read))
        writing = loop.create_task(self._guarded(self._write))
        try:
            error = await asyncio.shield(self._farewell)
            self._give_up_all()
            # Let a write that is under way finish: gRPC would take no farewell after half a
            # frame.
            await asyncio.wait([writing], timeout=FAREWELL_S)
        finally:
            for task in (reading, writing):
                task.cancel()
            self._give_up_all()
            self._patience.stop()
            await asyncio.gather(reading, writing, return_exceptions=True)
            self._frames.clear()
            self._unread.left(self)
        if error is not None:
            with contextlib.suppress(TimeoutError):  # The client does not read.
                await self._end_with(error)

    def _give_up_all(self) -> None:
        for number in list(self._open):
            self._note(self._give_up(number), CANCELLED)

    async def _end_with(self, error: RemoteStorageError) -> None:
        async with asyncio.timeout(FAREWELL_S):
            frame = pb.HostFrame(farewell=failure_message(error))
            await self._context.write(frame.SerializeToString())

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run the reader or the writer; its end, however it comes, ends the stream."""
        try:
            await work()
        except RemoteStorageError as error:
            self.end(error)
        except (grpc.aio.AioRpcError, grpc.aio.InternalError, asyncio.InvalidStateError):
            pass  # The client is gone.
        except Exception as error:  # noqa: BLE001 - The client must not wait for ever.
            _log.exception("a conversation failed")
            self.end(OutcomeUnknown(f"{type(error).__name__}: {error}"))
        finally:
            self.end(None)  # If a library cancels the task, too.

    # Calls.

    async def _read(self) -> None:
        slices = Slices()
        while True:
            await self._until_readable()
            frame = await next_frame(self._context)
            if frame is None:
                return
            if frame.HasField("greeting"):
                raise InvalidArgument("expected a greeting in the first frame only")
            if frame.subscribed or frame.expected or frame.unsubscribed:
                raise InvalidArgument("expected subscriptions on a stream of Feed only")
            if self.heard is not None and frame.calls:
                self.heard()
            for message in frame.calls:
                if self._unwritten >= self._limits.calls_max:
                    await self._until_readable()
                self._begin(message)
                if not self._last_id % CALLS_AT_ONCE:
                    await slices.yield_if_due()
            for number in frame.cancelled:
                self._cancel(number)

    async def _until_readable(self) -> None:
        """Return once the client has few enough calls without a written answer."""
        while self._unwritten >= self._limits.calls_max:
            self._is_readable.clear()
            await self._is_readable.wait()

    def _begin(self, message: pb.Call) -> None:
        # A client whose token is not valid any more gets a farewell in place of answers.
        identity = self._credential.identity()
        number = message.id
        if number <= self._last_id:
            raise InvalidArgument(f"expected an id above {self._last_id}, got {number}")
        self._last_id = number
        self._unwritten += 1
        # Noted before `answer`, which may answer at once.
        now_s = self._loop.time()
        one = self._open[number] = _OpenCall(message, now_s, self._record.begun(message))
        try:
            check_named(message)
            check_allowed(identity, message)
            one.answering = self._desk.answer(message, partial(self._answered, number), self)
        except RemoteStorageError as error:
            self._answered(number, error)
        if number in self._open:
            seconds = (message.deadline_ms or DEADLINE_MS) / 1000
            self._patience.enter(number, now_s + seconds)

    def _cancel(self, number: int) -> None:
        if number in self._open:
            self._note(self._give_up(number), CANCELLED)
            self._unwritten -= 1
            self._is_readable.set()

    def _give_up(self, number: int) -> _OpenCall:
        """Drop a call, which the desk answers no more; returns it."""
        one = self._open.pop(number)
        self._patience.take_out(number)
        if one.answering is not None:
            self._desk.give_up(one.answering)
        return one

    def _expire(self, number: int) -> None:
        one = self._give_up(number)
        kind = OutcomeUnknown if one.message.WhichOneof("ask") in CHANGES else NotReady
        self._put(number, kind("no answer within the call's time"), one)

    def _note(self, one: _OpenCall, outcome: str, result: object = None) -> None:
        now_s = self._loop.time()
        self._record.ended(one.message, outcome, now_s - one.begun_s, result, self.name)
        if one.span is not None:
            times_s = (one.begun_s, now_s)
            self._record.traced(one.span, one.message, outcome, times_s, result)

    # Answers.

    def _answered(self, number: int, result: object) -> None:
        one = self._open.pop(number, None)
        if one is not None:  # Else the call was dropped.
            self._patience.take_out(number)
            self._put(number, result, one)

    def _put(self, number: int, result: object, one: _OpenCall) -> None:
        self._note(one, outcome_of(result), result)
        if self._farewell.done():
            return  # Nothing is written any more.
        frame, size = self._frames[-1] if self._frames else (pb.HostFrame(), FRAME_BYTES)
        if size >= FRAME_BYTES or len(frame.answers) >= FRAME_ITEMS:
            frame, size = pb.HostFrame(), 0
            self._frames.append((frame, size))
        answer = frame.answers.add()
        added = ANSWER_BYTES
        if type(result) is int:  # A write's position, the most frequent answer.
            answer.written.position = result
        elif isinstance(result, pb.Answer):
            answer.CopyFrom(result)
            added = result.ByteSize()
        else:
            put_result(result, answer)
            added = _bytes(result)
        if answer.HasField("failure") and not answer.failure.request_id:
            answer.failure.request_id = self._desk.named(one.message)
        answer.id = number
        self._frames[-1] = (frame, size + added)
        self._count(added)
        self._has_answers.set()

    def _count(self, added: int) -> None:
        """Count bytes that are made, or (negative) that were read."""
        self._unread_bytes += added
        self._unread.count(self, added)

    async def _write(self) -> None:
        while not self._farewell.done():
            await self._has_answers.wait()
            self._has_answers.clear()
            while self._frames and not self._farewell.done():
                frame, size = self._frames.popleft()
                await self._send(frame)
                self._count(-size)
                self._has_read.set()
                self._unwritten -= len(frame.answers)
                self._is_readable.set()

    async def _send(self, frame: pb.HostFrame) -> None:
        try:
            async with asyncio.timeout(self._limits.reading_s):
                await self._context.write(frame.SerializeToString())
        except TimeoutError:
            raise Overloaded(f"nothing was read for {self._limits.reading_s:g} s") from None


async def next_frame(context: Context) -> pb.ClientFrame | None:
    """The client's next frame; None if the client has left.

    Raises:
        InvalidArgument: The bytes are no frame.
    """
    data: Any = await context.read()
    if data is grpc.aio.EOF:
        return None
    try:
        return pb.ClientFrame.FromString(data)
    except DecodeError as error:
        raise InvalidArgument(f"expected a ClientFrame: {error}") from error


def _bytes(result: object) -> int:
    """About how many bytes an answer has."""
    if isinstance(result, Answered):
        value = result.value
        if type(value) is list:
            return ANSWER_BYTES + sum(map(len, value))
        if type(value) is bytes:
            return ANSWER_BYTES + len(value)
    return ANSWER_BYTES
