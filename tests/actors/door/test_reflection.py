"""A door's reflection, asked by gRPC's own client for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from tests.actors.door.clients import door_of
from tests.models.actors.local_world import LocalWorld, sqlite_in
from tests.models.actors.secrets import TOKENS, Secrets
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import HEALTH_SERVICE, SERVICE
from tierledger.actors.door.server import reflection
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.simulation.live.server import free_ports

T = TypeVar("T")

REFLECTION = "grpc.reflection.v1.ServerReflection"
OLDER = "grpc.reflection.v1alpha.ServerReflection"


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    return Secrets(tmp_path)


@pytest.fixture
async def guarded(tmp_path: Path, secrets: Secrets) -> AsyncIterator[LocalWorld]:
    """A host that tells clients apart by their tokens."""
    door = DoorSettings(f"127.0.0.1:{free_ports(1)}", security=secrets.door())
    async with LocalWorld(sqlite_in(tmp_path), door=door) as world:
        yield world


async def asking(channel: grpc.Channel, ask: Callable[[grpc.Channel], T]) -> T:
    """What `ask`, which blocks, has of a channel."""
    with channel:
        return await asyncio.to_thread(ask, channel)


def over_tls(door: str, secrets: Secrets, token: str | None) -> grpc.Channel:
    credentials = grpc.ssl_channel_credentials(secrets.authority.certificate.read_bytes())
    if token is not None:
        own = grpc.access_token_call_credentials(token)
        credentials = grpc.composite_channel_credentials(credentials, own)
    return grpc.secure_channel(door, credentials)


def services(channel: grpc.Channel) -> list[str]:
    return list(ProtoReflectionDescriptorDatabase(channel).get_services())


def found_serving(channel: grpc.Channel) -> str:
    """The answer to a health check whose messages are made of the reflection alone."""
    pool: Any = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    method = pool.FindServiceByName(HEALTH_SERVICE).FindMethodByName("Check")
    asked, answered = map(GetMessageClass, (method.input_type, method.output_type))
    check: Any = channel.unary_unary(
        f"/{HEALTH_SERVICE}/Check",
        request_serializer=asked.SerializeToString,
        response_deserializer=answered.FromString,
    )
    status = method.output_type.fields_by_name["status"].enum_type.values_by_number
    return str(status[check(asked(service=SERVICE), timeout=10).status].name)


def described(channel: grpc.Channel) -> FileDescriptorProto:
    database: Any = ProtoReflectionDescriptorDatabase(channel)
    found: FileDescriptorProto = database.FindFileContainingSymbol(SERVICE)
    return found


async def test_a_tool_without_the_protocol_learns_it_at_the_door(world: LocalWorld) -> None:
    door = await door_of(world)

    assert await asking(grpc.insecure_channel(door), services) == [
        HEALTH_SERVICE,
        REFLECTION,
        OLDER,
        SERVICE,
    ]
    own = FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb)
    assert await asking(grpc.insecure_channel(door), described) == own
    assert await asking(grpc.insecure_channel(door), found_serving) == "SERVING"


async def test_nothing_else_of_the_process_is_described(world: LocalWorld) -> None:
    def of_protobuf(channel: grpc.Channel) -> object:
        database = ProtoReflectionDescriptorDatabase(channel)
        return database.FindFileByName("google/protobuf/descriptor.proto")

    with pytest.raises(KeyError):
        await asking(grpc.insecure_channel(await door_of(world)), of_protobuf)


@pytest.mark.parametrize("token", [None, "a-token-nobody-knows-0123456789"])
async def test_a_stranger_is_told_nothing(
    guarded: LocalWorld, secrets: Secrets, token: str | None
) -> None:
    channel = over_tls(await door_of(guarded), secrets, token)

    with pytest.raises(grpc.RpcError) as refused:
        await asking(channel, services)

    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "bearer token" in str(refused.value.details())


async def test_who_is_let_in_may_ask_until_the_token_counts_no_more(
    guarded: LocalWorld, secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierledger.actors.door.server.admission.LOOK_S", 0.0)
    door = await door_of(guarded)
    assert SERVICE in await asking(over_tls(door, secrets, TOKENS["reader"]), services)

    credentials = grpc.ssl_channel_credentials(secrets.authority.certificate.read_bytes())
    async with grpc.aio.secure_channel(door, credentials) as channel:
        call = reflected(channel, authorization=f"Bearer {TOKENS['reader']}")
        await call.write(LISTING)
        assert SERVICE.encode() in await call.read()
        kept = [one for one in secrets.tokens.read_text().splitlines() if "reader" not in one]
        secrets.tokens.write_text("\n".join(kept))
        await call.write(LISTING)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()

    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


LISTING = b"\x3a\x00"
"""Field 7 of a request: list the services."""


def reflected(channel: grpc.aio.Channel, version: str = REFLECTION, **metadata: str) -> Any:  # noqa: ANN401 - gRPC's call.
    method: Any = channel.stream_stream(f"/{version}/ServerReflectionInfo")
    return method(metadata=tuple(metadata.items()))


async def test_those_who_ask_are_bounded_in_number_and_time(
    world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflection, "STREAMS_MAX", 1)
    async with grpc.aio.insecure_channel(await door_of(world)) as channel:
        first = reflected(channel)
        await first.write(LISTING)
        await first.read()
        with pytest.raises(grpc.aio.AioRpcError, match="1 clients ask already"):
            await reflected(channel).read()
        await first.done_writing()
        assert await first.code() is grpc.StatusCode.OK

        monkeypatch.setattr(reflection, "STREAM_S", 0.01)
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await reflected(channel, OLDER).read()
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED

        monkeypatch.setattr(reflection, "STREAM_S", 60.0)
        garbage = reflected(channel)
        await garbage.write(b"\xff")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await garbage.read()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
