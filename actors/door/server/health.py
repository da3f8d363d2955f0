"""gRPC's standard health service (`grpc.health.v1.Health`) on a door.

Balancers, orchestrators and other hosts ask it whether the host serves. It needs no token, and
tells nothing else.
"""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from tierledger.actors.door.limits import HEALTH_SERVICE, SERVICE, SERVING
from tierledger.actors.door.server.admission import Context

NOT_SERVING = Int32Value(value=2).SerializeToString()
SERVICE_UNKNOWN = Int32Value(value=3).SerializeToString()
"""Further answers. On the wire the two messages, of one field each, are these wrappers."""

WATCHES_MAX = 64
"""Clients of one host that may wait for a change; the next is refused."""


class Health:
    """Says `SERVING` until `close` is called."""

    def __init__(self) -> None:
        self._closing = asyncio.Event()
        self._watches = 0

    @property
    def handlers(self) -> grpc.GenericRpcHandler:
        """The service's two methods, for a gRPC server."""
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Check": grpc.unary_unary_rpc_method_handler(self.check),
            "Watch": grpc.unary_stream_rpc_method_handler(self.watch),
        }
        return grpc.method_handlers_generic_handler(HEALTH_SERVICE, methods)

    async def check(self, request: bytes, context: Context) -> bytes:
        """The status now; gRPC's `NOT_FOUND` for a service that the host does not have."""
        status = self._status(await _service_in(request, context))
        if status == SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "the host has no such service")
        return status

    async def watch(self, request: bytes, context: Context) -> None:
        """Send the status, and again when it changes."""
        if self._watches >= WATCHES_MAX:
            refusal = f"{self._watches} clients watch already"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, refusal)
        self._watches += 1
        try:
            service = await _service_in(request, context)
            await context.write(self._status(service))
            await self._closing.wait()
            await context.write(self._status(service))
        finally:
            self._watches -= 1

    def close(self) -> None:
        """Say `NOT_SERVING` from now on."""
        self._closing.set()

    def _status(self, service: str) -> bytes:
        if service not in {"", SERVICE}:
            return SERVICE_UNKNOWN
        return NOT_SERVING if self._closing.is_set() else SERVING


async def _service_in(request: bytes, context: Context) -> str:
    """The service that is asked about; empty: the host as a whole."""
    try:
        return StringValue.FromString(request).value
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "expected a HealthCheckRequest")
        raise
