"""A client's streams to hosts: one to each door."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from tierledger.actors.deadline import Attempt
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.client.trouble import trouble_with
from tierledger.actors.door.limits import (
    FRAME_BYTES,
    FRAME_ITEMS,
    KEEPALIVE_MS,
    KEEPALIVE_TIMEOUT_MS,
    METHOD,
    SERVICE,
)
from tierledger.actors.door.security.settings import ClientSecurity
from tierledger.actors.door.wire.calls import DEADLINE_MS
from tierledger.actors.door.wire.failures import error_of
from tierledger.actors.door.without_fork_handlers import grpc_process
from tierledger.events.errors import (
    InvalidArgument,
    NotAuthorized,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    RejectedError,
    RemoteStorageError,
)

_HEARS_THE_END = "_AioCall._handle_status_once_received"

OPEN_S = 3.0
"""How long a host may take to greet: a frozen one still accepts connections."""

CLOSE_S = 1.0
"""How long gRPC may take to end what is under way on a stream that is closed; it takes 1 ms."""

PING_AFTER_S = 1.0
"""A host that owes answers is pinged after so long without any frame from it."""

PING_TIMEOUT_S = 3.0
"""Timeout of such a ping. gRPC's keepalives do not show that a host's loop hangs, and a proxy
answers them for the hosts behind it."""

LATE_S = 0.5
"""If a ping's timeout fires so much too late, this process was too busy, and not the host."""

REOPEN_PAUSE_S = 0.1
"""Pause after a failed attempt to open a stream before the next one to that door."""

REFUSED_PAUSE_MAX_S = 5.0
"""The longest such pause after refusals in a row; it doubles with each."""

NO_SECURITY = ClientSecurity()

WAITING_MAX = 20_000
"""Calls that may be without an answer; the next is refused at once."""

OPTIONS = (
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", -1),  # Answers have no limit of their own.
    ("grpc.max_send_message_length", -1),  # `ask` keeps to the host's limit.
    ("grpc.use_local_subchannel_pool", 1),  # A stream that is replaced gets a new connection.
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # Direct connections, whatever the environment says.
)

BROKEN = (grpc.aio.AioRpcError, asyncio.InvalidStateError, ConnectionError)
"""Errors of an ended stream; gRPC raises the second one for calls after the first."""


class Stream:
    """One open stream: sends calls and reads answers; each frame holds all that is ready."""

    method = METHOD

    def __init__(self, door: str, channel: grpc.aio.Channel, call: Any) -> None:  # noqa: ANN401
        """Made by `opened`."""
        self.door = door
        self.greeting = pb.HostGreeting()
        self.host = ""
        """The address of the host that greeted."""
        self.ended: RemoteStorageError | None = None
        """Why the stream has ended; None while it is open."""
        self._channel = channel
        self._call = call
        self._call_bytes_max = 0
        self._last_id = 0
        self._waiting: deque[tuple[int, bytes, Attempt | None]] = deque()
        self._answers: dict[int, asyncio.Future[pb.Answer]] = {}
        self._cancelled: list[int] = []
        self._frames_read = 0
        """Frames that have arrived."""
        self._owed_since: float | None = None
        """Since when (s) answers are owed and no frame has come; None if none are owed. Calls
        whose callers have given up since the last frame count, too."""
        self._longest_ms = 0
        """The longest time that a call has left to its host until now."""
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []
        """The first two read and write."""

    @classmethod
    async def opened(
        cls, door: str, greeting: pb.ClientGreeting, security: ClientSecurity = NO_SECURITY
    ) -> Self:
        """A stream on which both sides have greeted; reads the files of `security` now.

        Raises:
            NotReady: No host answers there; nothing was asked.
            NotAuthorized: One side does not trust the other, or only one of them speaks TLS.
            InvalidArgument: A file of `security` is wrong.
            RemoteStorageError: The host's farewell.
        """
        metadata, channel = security.metadata(door), channel_to(door, security)
        converse: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
        converse = channel.stream_stream(f"/{SERVICE}/{cls.method}")
        try:
            return await cls.greeted(door, greeting, channel, converse(metadata=metadata))
        except NotReady as error:
            if error.__cause__ is None:
                raise  # A farewell gives its own reason.
            if (trouble := await trouble_with(door, security)) is not None:
                raise NotAuthorized(f"{door}: {trouble}") from error
            if UNKNOWN_AUTHORITY in str(error):  # gRPC has a list of authorities of its own.
                raise NotAuthorized(f"{error}; {NAME_AUTHORITY}") from error
            raise

    @classmethod
    async def greeted(
        cls,
        door: str,
        greeting: pb.ClientGreeting,
        channel: Any,  # noqa: ANN401 - As gRPC types neither of the two.
        call: Any,  # noqa: ANN401
    ) -> Self:
        """A stream over `call`, which is closed with its `channel`: gRPC's, or doubles of them.

        Raises:
            NotReady: No host answers there; nothing was asked.
            RemoteStorageError: The host's farewell.
        """
        stream = cls(door, channel, call)
        try:
            async with asyncio.timeout(OPEN_S):
                await stream._greet(greeting)
        except (*BROKEN, TimeoutError) as error:
            await stream.close()
            raise NotReady(f"{door}: {_reason(error)}") from error
        except BaseException:
            await stream.close()
            raise
        loop = asyncio.get_running_loop()
        work = (stream._read(), stream._write(), stream._watch())
        stream._tasks = [loop.create_task(one) for one in work]
        return stream

    async def _greet(self, greeting: pb.ClientGreeting) -> None:
        # Begin to read before writing: a host that refuses the client may end the stream while
        # the greeting is written, and after a failed write gRPC returns no farewell.
        frame = pb.ClientFrame(greeting=greeting).SerializeToString()
        hearing = asyncio.ensure_future(self._call.read())
        writing = asyncio.ensure_future(self._call.write(frame))
        self._tasks = [hearing, writing]
        with contextlib.suppress(*BROKEN):
            await asyncio.shield(writing)
        heard = frame_in(await asyncio.shield(hearing))
        if heard.HasField("farewell"):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await self._call.code()  # The host ends the call.
            raise error_of(heard.farewell)
        if not heard.HasField("greeting"):
            raise ConnectionError("the server there does not greet as a host does")
        self.greeting, self.host = heard.greeting, heard.greeting.host
        self._call_bytes_max = heard.greeting.frame_bytes_max - 16

    async def ask(self, message: pb.Call, attempt: Attempt | None = None) -> pb.Answer:
        """The answer to a call, which gets its id here; `attempt` notes when it is sent.

        Raises:
            NotReady: The stream had ended; the call was not sent.
            Overloaded: Too many calls wait on this stream; the call was not sent.
            InvalidArgument: The call is longer than the host accepts.
            OutcomeUnknown: The stream ended before the answer came.
        """
        if self.ended is not None:
            raise NotReady(str(self.ended))
        if len(self._answers) >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} calls wait for {self.door}; try again later")
        number = self._last_id = self._last_id + 1
        message.id = number
        packed = message.SerializeToString()
        if len(packed) > self._call_bytes_max:
            raise InvalidArgument(
                f"expected a call of at most {self._call_bytes_max} bytes, "
                f"got one of {len(packed)}"
            )
        future: asyncio.Future[pb.Answer] = asyncio.get_running_loop().create_future()
        self._answers[number] = future
        self._waiting.append((number, packed, attempt))
        if self._owed_since is None:
            self._owed_since = asyncio.get_running_loop().time()
        self._longest_ms = max(self._longest_ms, message.deadline_ms or DEADLINE_MS)
        self._wake.set()
        try:
            return await future
        except asyncio.CancelledError:
            if self._answers.pop(number, None) is not None:
                self._cancelled.append(number)
                self._wake.set()
            raise

    async def _watch(self) -> None:
        """Ping a silent host; end the stream when the host is frozen or unreachable.

        Its open calls are in doubt then. Callers retry them on the host that serves by then.
        """
        loop = asyncio.get_running_loop()
        while self.ended is None:
            before, due = self._frames_read, loop.time() + PING_AFTER_S
            await asyncio.sleep(PING_AFTER_S)
            is_late = loop.time() - due > LATE_S  # So frames may have come that nobody read.
            if self._frames_read > before or self._owed_since is None or is_late:
                continue
            if self._is_full():
                # It has read these calls, and answers each by its deadline.
                patience_s = self._longest_ms / 1000 + PING_TIMEOUT_S
                if loop.time() - self._owed_since > patience_s:
                    await self._leave(patience_s)
                continue
            deadline = loop.time() + PING_TIMEOUT_S
            with contextlib.suppress(RemoteStorageError):
                try:
                    async with asyncio.timeout_at(deadline):
                        await self.ask(ping_of(self.greeting.host))
                except TimeoutError:
                    is_late = loop.time() - deadline > LATE_S
                    # Calls that were sent before the ping may have filled the host meanwhile.
                    if self._frames_read == before and not is_late and not self._is_full():
                        await self._leave(PING_TIMEOUT_S)

    async def _leave(self, silent_s: float) -> None:
        await self._end(ConnectionError(f"the host has sent nothing for {silent_s:g} s"))
        self._call.cancel()

    def _is_full(self) -> bool:
        """Whether the host owes so many answers that it reads no further, not even pings."""
        unsent = sum(number in self._answers for number, _, _ in self._waiting)
        return len(self._answers) - unsent >= self.greeting.calls_max

    async def _write(self) -> None:
        try:
            while self.ended is None:
                await self._wake.wait()
                self._wake.clear()
                while self._waiting or self._cancelled:
                    await self._call.write(self._next_frame())
        except BROKEN as error:
            await self._end(error)

    def _next_frame(self) -> bytes:
        """The next frame, of waiting calls; calls cancelled before that are left out."""
        parts: list[bytes] = []
        size = 0
        cancelled, self._cancelled = set(self._cancelled), []
        while self._waiting and len(parts) < 2 * FRAME_ITEMS:
            number, packed, attempt = self._waiting[0]
            if parts and size + len(packed) > FRAME_BYTES:
                break
            self._waiting.popleft()
            if number in cancelled:
                cancelled.discard(number)
                continue
            if number not in self._answers:
                continue
            if attempt is not None:
                attempt.is_sent = True
            size += len(packed)
            parts += (_head(len(packed)), packed)
        if cancelled:
            parts.append(pb.ClientFrame(cancelled=cancelled).SerializeToString())
        return b"".join(parts)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                frame = frame_in(await self._call.read())
                self._frames_read += 1
                for answer in frame.answers:
                    future = self._answers.pop(answer.id, None)
                    if future is not None and not future.done():
                        future.set_result(answer)
                self._owed_since = loop.time() if self._answers else None
                if frame.HasField("farewell"):
                    await self._end(error_of(frame.farewell))
                    return
        except BROKEN as error:
            await self._end(error)

    async def _end(self, error: Exception) -> None:
        if self.ended is not None:
            return
        if isinstance(error, asyncio.InvalidStateError) and self._call.done():
            reason = f"{self.door}: {await self._call.details() or error}"
        else:
            reason = f"{self.door}: {_reason(error)}"
        self.ended = NotReady(reason)
        unsent = {number for number, _, _ in self._waiting}
        self._waiting.clear()
        self._cancelled.clear()
        answers, self._answers = self._answers, {}
        for number, future in answers.items():
            if not future.done():
                kind = NotReady if number in unsent else OutcomeUnknown
                future.set_exception(kind(reason))

    async def close(self) -> None:
        """End the stream; calls that were sent and have no answer are in doubt."""
        # What has begun ends by the call's end: gRPC would report the end of what is cancelled
        # here to the loop, which may be closed by then.
        begun = [*self._tasks[:2], *_hearing_the_end_of(self._call)]
        self._call.cancel()
        await self._end(ConnectionError("the connection was closed"))
        self._wake.set()
        if begun:
            await asyncio.wait(begun, timeout=CLOSE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close()


def _hearing_the_end_of(call: Any) -> list[asyncio.Task[Any]]:  # noqa: ANN401 - See `greeted`.
    """The task in which gRPC hears how `call` ends; after a cancel nothing else waits for it.

    No interface of gRPC names the task, so it is found by what its coroutine refers to.
    """
    core = getattr(call, "_cython_call", None)
    if core is None:  # A double of gRPC's, or another gRPC.
        return []
    return [
        task
        for task in asyncio.all_tasks()
        if getattr(task.get_coro(), "__qualname__", "") == _HEARS_THE_END
        and any(
            held is core
            for scope in gc.get_referents(task.get_coro())
            for held in gc.get_referents(scope)
        )
    ]


def channel_to(door: str, security: ClientSecurity) -> grpc.aio.Channel:
    """A channel to a door; reads the files of `security` now.

    Raises:
        InvalidArgument: A file is wrong, or gRPC works in the process that forked this one.
    """
    grpc_process().check()
    credentials = security.credentials()
    if credentials is None:
        return grpc.aio.insecure_channel(door, options=OPTIONS)
    return grpc.aio.secure_channel(door, credentials, options=OPTIONS)


def ping_of(host: str) -> pb.Call:
    """A ping: the query for a host's own counts, which no other host answers."""
    asked = pb.StatusQuestion(of=pb.StatusQuestion.HOST)
    return pb.Call(deadline_ms=int(PING_TIMEOUT_S * 1000), host=host, status=asked)


def _head(size: int) -> bytes:
    """The bytes before a call in a `ClientFrame`: the tag of field 2, then the call's size."""
    if size < 0x80:
        return bytes((0x12, size))
    if size < 0x4000:
        return bytes((0x12, size & 0x7F | 0x80, size >> 7))
    head = bytearray(b"\x12")
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head)


def frame_in(data: Any) -> pb.HostFrame:  # noqa: ANN401 - Bytes, or gRPC's own end.
    if data is grpc.aio.EOF:
        raise ConnectionError("the host ended the conversation")
    try:
        return pb.HostFrame.FromString(data)
    except DecodeError as error:
        raise ConnectionError(f"the server there is no host: {error}") from error


UNKNOWN_AUTHORITY = "the host's certificate is not one of a known authority"
NAME_AUTHORITY = "name its file: `door.ssl.ca.location`, or for a command TIERLEDGER_CA"

_CAUSES = {
    "Connection refused": "nothing listens there",
    "DNS resolution failed": "the host's name is not known",
    "Name or service not known": "the host's name is not known",
    "No route to host": "there is no route to the host",
    "CERTIFICATE_VERIFY_FAILED": UNKNOWN_AUTHORITY,
    "no sign of life": "the host gives no sign of life",
    "keepalive watchdog timeout": "the host gives no sign of life",
    "handshake failed": "the TLS handshake with the host failed",
}
"""What a caller is told, by a part of gRPC's words for a connection that cannot be made."""

_STATUSES = {
    grpc.StatusCode.UNAVAILABLE: "the host is not reached, or has closed the connection",
    grpc.StatusCode.UNKNOWN: "the host failed in the middle of the conversation",
    grpc.StatusCode.INTERNAL: "the conversation with the host broke off",
    grpc.StatusCode.UNIMPLEMENTED: "the server there is no host",
    grpc.StatusCode.CANCELLED: "the conversation with the host was cancelled",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "the host or this process has no room for the message",
    grpc.StatusCode.DEADLINE_EXCEEDED: "the host did not answer in time",
}


def _reason(error: BaseException) -> str:
    """Why a stream failed, in our own words: gRPC's are for its developers."""
    if isinstance(error, grpc.aio.AioRpcError):
        details = error.details() or ""
        known = next((said for part, said in _CAUSES.items() if part in details), None)
        return known or _STATUSES.get(
            error.code(), f"the conversation ended with gRPC's status {error.code().name}"
        )
    if isinstance(error, TimeoutError):
        return f"no greeting within {OPEN_S:g} s"
    return str(error)


Opened: TypeAlias = (
    "Callable[[str, pb.ClientGreeting, ClientSecurity], Coroutine[Any, Any, Stream]]"
)
"""`Stream.opened`, or a replacement."""


class Streams:
    """The streams of one client, each opened when it is needed."""

    kind: type[Stream] = Stream

    def __init__(
        self,
        greeting: pb.ClientGreeting,
        security: ClientSecurity = NO_SECURITY,
        opened: Opened | None = None,
    ) -> None:
        """`security`: how client and hosts prove their identities to each other.

        `opened`: makes a stream; by default over gRPC.
        """
        self._opened_by = opened
        self._greeting = greeting
        self._security = security
        self._refusals: dict[str, int] = {}
        """By door: refusals in a row, by either side; a short wait does not cure them."""
        self._open: dict[str, asyncio.Task[Stream]] = {}
        self._closed_until: dict[str, tuple[float, RemoteStorageError]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def at_hand(self, door: str, host: str) -> Stream | None:
        """The stream to a door if it is open and the door belongs to `host`; else None."""
        opening = self._open.get(door)
        if opening is None or not opening.done() or opening.cancelled():
            return None
        if opening.exception() is not None:
            return None
        stream = opening.result()
        return stream if stream.ended is None and stream.host == host else None

    async def to(self, door: str, host: str | None = None) -> Stream:
        """The stream to a door, opened if it is not.

        Raises:
            NotReady: It cannot be opened, or another host than `host` has the door by now.
            RemoteStorageError: The host's farewell.
        """
        opening = self._open.get(door)
        if opening is not None and opening.done() and opening.result().ended is not None:
            self._let_go(opening.result())
            del self._open[door]
            opening = None
        if opening is None:
            opening = self._opening(door)
        stream = await asyncio.shield(opening)
        if host is not None and stream.host != host:
            raise NotReady(f"{door} is the door of {stream.host} by now, not {host}")
        return stream

    def _opening(self, door: str) -> asyncio.Task[Stream]:
        loop = asyncio.get_running_loop()
        until, error = self._closed_until.get(door, (0.0, None))
        if error is not None and loop.time() < until:
            raise error
        task = self._open[door] = loop.create_task(
            (self._opened_by or self.kind.opened)(door, self._greeting, self._security)
        )
        task.add_done_callback(lambda _: self._opened(door, task))
        return task

    def _opened(self, door: str, task: asyncio.Task[Stream]) -> None:
        if task.cancelled():
            self._open.pop(door, None)
            return
        error = task.exception()
        if error is None:
            self._closed_until.pop(door, None)
            self._refusals.pop(door, None)
            return
        self._open.pop(door, None)
        if isinstance(error, RemoteStorageError):
            pause_s = REOPEN_PAUSE_S
            if isinstance(error, RejectedError):
                refusals = self._refusals[door] = self._refusals.get(door, 0) + 1
                pause_s = min(pause_s * 2 ** min(refusals, 16), REFUSED_PAUSE_MAX_S)
            until = asyncio.get_running_loop().time() + pause_s
            self._closed_until[door] = (until, error)

    def _let_go(self, stream: Stream) -> None:
        task = asyncio.get_running_loop().create_task(stream.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @property
    def doors(self) -> list[str]:
        """Doors to which a stream is open."""
        return [
            door
            for door, task in self._open.items()
            if task.done() and not task.cancelled() and task.result().ended is None
        ]

    async def close(self) -> None:
        """End all streams."""
        opening, self._open = list(self._open.values()), {}
        for task in opening:
            if not task.done():
                task.cancel()
        made = await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.gather(*(one.close() for one in made if isinstance(one, Stream)))
        await asyncio.gather(*self._closing, return_exceptions=True)
