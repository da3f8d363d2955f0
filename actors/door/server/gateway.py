"""The door of a host: listens, admits clients, and keeps each of them within its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.addresses import DoorAddress
from tierledger.actors.door.limits import (
    FEED_METHOD,
    KEEPALIVE_MS,
    KEEPALIVE_TIMEOUT_MS,
    METHOD,
    SERVICE,
    SOFTWARE,
    DoorLimits,
)
from tierledger.actors.door.server.admission import Admission, Context, Guest
from tierledger.actors.door.server.call_record import CallRecord
from tierledger.actors.door.server.conversation import Conversation, Unread, next_frame
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.door.server.feeding import FeedConversation
from tierledger.actors.door.server.health import Health
from tierledger.actors.door.wire.failures import failure_message
from tierledger.actors.host.call_times import DoorTimes
from tierledger.events.errors import (
    InvalidArgument,
    NotReady,
    Overloaded,
    RemoteStorageError,
)
from tierledger.storage.process_log import ProcessLog

if TYPE_CHECKING:
    from tierledger.actors.door.server.tracing import Tracing

FAREWELL_S = 2.0
"""How long the streams of a door that closes may take to end."""

_log = ProcessLog("tierledger.door")


class Gateway:
    """One listening port. Make it on a running loop."""

    def __init__(
        self,
        desk: Desk,
        cluster_id: str,
        limits: DoorLimits | None = None,
        admission: Admission | None = None,
        heard: Callable[[], None] | None = None,
        times: DoorTimes | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """`desk` answers calls. Clients of other clusters than `cluster_id` are refused.

        `admission` decides about all other clients; without it all of them are admitted.
        `heard` is called whenever a broker's client has sent calls. `times` counts all calls,
        and `tracing` makes spans of them.
        """
        self._desk = desk
        self._cluster_id = cluster_id
        self._limits = limits or DoorLimits()
        self._admission = admission or Admission(cluster_id)
        self._hear = heard
        self.record = CallRecord(desk, times, tracing)
        self._health = Health()
        self._server: grpc.aio.Server | None = None
        self._connections = 0
        self._conversations: dict[Conversation, None] = {}
        self._unread = Unread(self._limits)

    async def start(self, listen: DoorAddress) -> DoorAddress:
        """Listen at an address whose port may be 0; returns the address with the bound port.

        If the admission has TLS credentials, the port speaks only TLS.

        Raises:
            NotReady: The port is taken, or the address is not this machine's.
        """
        limit = self._limits.frame_bytes_max
        server = grpc.aio.server(
            options=(
                # With SO_REUSEPORT a hanging process would get half of its successor's
                # connections.
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", 16),
                ("grpc.server_handshake_timeout_ms", int(self._limits.greeting_s * 1000)),
                ("grpc.keepalive_time_ms", KEEPALIVE_MS),
                ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
            )
        )
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            METHOD: grpc.stream_stream_rpc_method_handler(self.converse),
            FEED_METHOD: grpc.stream_stream_rpc_method_handler(self.feed),
        }
        # The simulator has doors without ports, and installations without this package.
        from tierledger.actors.door.server.reflection import Reflection  # noqa: PLC0415

        handlers = grpc.method_handlers_generic_handler(SERVICE, methods)
        reflection = Reflection(self._admission)
        server.add_generic_rpc_handlers((handlers, self._health.handlers, *reflection.handlers))
        try:
            credentials = self._admission.credentials
            if credentials is None:
                port = server.add_insecure_port(str(listen))
            else:
                port = server.add_secure_port(str(listen), credentials)
        except RuntimeError as error:
            raise NotReady(
                f"{listen} cannot be listened on: the port is taken, or the address is not "
                "this machine's"
            ) from error
        await server.start()
        self._server = server
        return listen._replace(port=port)

    async def converse(self, _: object, context: Context) -> None:
        await self._stream(Conversation, context)

    async def feed(self, _: object, context: Context) -> None:
        await self._stream(FeedConversation, context)

    async def _stream(self, kind: type[Conversation], context: Context) -> None:
        """One stream, from its greeting to its end."""
        if self._connections >= self._limits.connections_max:
            await _refuse(context, Overloaded(f"{self._connections} connections are open"))
            return
        self._connections += 1
        try:
            try:
                # Read the whole greeting before any check: a client that is still writing when
                # its stream ends does not read the farewell.
                greeting = await self._greeted(context)
                if greeting is None:
                    return
                credential = self._admission.credential(context)
                guest = self._admission.admitted(greeting, context.peer(), credential)
            except RemoteStorageError as error:
                _log.warning("a client was not let in", peer=context.peer(), error=str(error))
                await _refuse(context, error)
                return
            await self._talk(
                guest,
                context,
                kind(self._desk, self._limits, context, credential, self._unread, self.record),
            )
        except (grpc.aio.AioRpcError, grpc.aio.InternalError, asyncio.InvalidStateError):
            pass  # The client is gone.
        finally:
            self._connections -= 1

    async def _greeted(self, context: Context) -> pb.ClientGreeting | None:
        """The client's greeting; None if the client left without one."""
        try:
            async with asyncio.timeout(self._limits.greeting_s):
                frame = await next_frame(context)
        except TimeoutError:
            raise InvalidArgument(
                f"expected a greeting within {self._limits.greeting_s:g} s"
            ) from None
        if frame is None:
            return None
        if not frame.HasField("greeting"):
            raise InvalidArgument("expected a greeting in the first frame")
        if frame.calls or frame.cancelled:
            raise InvalidArgument("expected nothing beside the greeting in the first frame")
        return frame.greeting

    async def _talk(self, guest: Guest, context: Context, conversation: Conversation) -> None:
        greeting = pb.HostGreeting(
            version=guest.version,
            cluster_id=self._cluster_id,
            host=self._desk.address,
            software=SOFTWARE,
            frame_bytes_max=self._limits.frame_bytes_max,
            calls_max=self._limits.calls_max,
        )
        await context.write(pb.HostFrame(greeting=greeting).SerializeToString())
        _log.debug("a client was let in", **guest._asdict())
        if guest.broker_id is not None:
            conversation.heard = self._hear
        self._conversations[conversation] = None
        try:
            await conversation.run()
        finally:
            self._conversations.pop(conversation, None)

    async def close(self) -> None:
        """Send a farewell to all clients and stop listening."""
        self._health.close()
        for conversation in list(self._conversations):
            conversation.end(NotReady("the host is closing"))
        await self._end(FAREWELL_S)

    async def abandon(self) -> None:
        """Stop listening and cut all streams at once, as a crash does."""
        await self._end(None)

    async def _end(self, grace_s: float | None) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace_s)
        await self._desk.close()
        if self.record.tracing is not None:
            await self.record.tracing.close()


async def _refuse(context: Context, error: RemoteStorageError) -> None:
    await context.write(pb.HostFrame(farewell=failure_message(error)).SerializeToString())
