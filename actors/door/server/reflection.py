"""gRPC's server reflection on a door: what calls and messages its services have.

Tools as grpcurl ask for it, so that nobody has to bring the `.proto` files. It is told to those
alone who could also call: who is let in by a token or certificate, as any identity.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2 as messages
from grpc_reflection.v1alpha.reflection import ReflectionServicer

from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import HEALTH_SERVICE, SERVICE
from tierledger.actors.door.server.admission import Admission, Context
from tierledger.events.errors import NotAuthorized
from tierledger.storage.process_log import ProcessLog

STREAMS_MAX = 64
"""Clients of one host that may ask at a time; the next is refused."""

STREAM_S = 60.0
"""How long one of them may stay."""

VERSIONS = ("v1", "v1alpha")
"""Of gRPC's service, whose messages are the same in both. Older tools know only the second."""

_HEALTH = """
name: "grpc/health/v1/health.proto" package: "grpc.health.v1" syntax: "proto3"
message_type { name: "HealthCheckRequest"
  field { name: "service" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING } }
message_type { name: "HealthCheckResponse"
  field { name: "status" number: 1 label: LABEL_OPTIONAL type: TYPE_ENUM
    type_name: ".grpc.health.v1.HealthCheckResponse.ServingStatus" }
  enum_type { name: "ServingStatus"
    value { name: "UNKNOWN" number: 0 } value { name: "SERVING" number: 1 }
    value { name: "NOT_SERVING" number: 2 } value { name: "SERVICE_UNKNOWN" number: 3 } } }
service { name: "Health"
  method { name: "Check" input_type: ".grpc.health.v1.HealthCheckRequest"
    output_type: ".grpc.health.v1.HealthCheckResponse" }
  method { name: "Watch" input_type: ".grpc.health.v1.HealthCheckRequest"
    output_type: ".grpc.health.v1.HealthCheckResponse" server_streaming: true } }
"""
"""gRPC's description of what `health.py` answers without its package."""

_log = ProcessLog("tierledger.door")


class Reflection:
    """Answers clients that `admission` lets in."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._streams = 0
        names = [f"grpc.reflection.{version}.ServerReflection" for version in VERSIONS]
        # A pool of its own: this process's has what other libraries describe in it.
        self._servicer = ReflectionServicer((SERVICE, HEALTH_SERVICE, *names), _pool())
        self.handlers = [
            grpc.method_handlers_generic_handler(
                name,
                {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(self.reflect)},
            )
            for name in names
        ]
        """The service's method in each version, for a gRPC server."""

    async def reflect(self, _: object, context: Context) -> None:
        """Answer each question of a stream; gRPC's status says why it ends before."""
        if self._streams >= STREAMS_MAX:
            refusal = f"{self._streams} clients ask already"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, refusal)
        self._streams += 1
        try:
            async with asyncio.timeout(STREAM_S):
                await self._answer(context)
        except NotAuthorized as error:
            _log.warning("a client was not let in", peer=context.peer(), error=str(error))
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"{STREAM_S:g} s are over")
        except DecodeError:
            why = "expected a ServerReflectionRequest"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, why)
        finally:
            self._streams -= 1

    async def _answer(self, context: Context) -> None:
        credential = self._admission.credential(context)
        while (data := await _next(context)) is not None:
            credential.identity()  # Its token may have been removed since.
            asked = messages.ServerReflectionRequest.FromString(data)
            for answer in self._servicer.ServerReflectionInfo(iter([asked]), context):
                await context.write(answer.SerializeToString())


async def _next(context: Context) -> bytes | None:
    """The client's next message; None if it has no more."""
    data: Any = await context.read()
    return None if data is grpc.aio.EOF else data


def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    pool.AddSerializedFile(pb.DESCRIPTOR.serialized_pb)
    text = str(FileDescriptorProto.FromString(messages.DESCRIPTOR.serialized_pb))
    for described in (_HEALTH, *(text.replace("v1alpha", version) for version in VERSIONS)):
        pool.Add(text_format.Parse(described, FileDescriptorProto()))
    return pool
