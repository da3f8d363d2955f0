"""gRPC's standard health checks on a host's door, and knocking at it."""

import asyncio
import socket
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.actors.door.clients import door_of
from tests.models.actors.local_world import LocalWorld
from tierledger.actors.door.client.knocking import opens
from tierledger.actors.door.limits import SERVICE
from tierledger.actors.door.server.health import WATCHES_MAX

HEALTH = "/grpc.health.v1.Health"

# By the definition of grpc.health.v1: field 1 of a request is the service's name, of an answer
# the status.
SERVING, NOT_SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"
THE_DOOR = b"\x0a" + bytes([len(SERVICE)]) + SERVICE.encode()
ANOTHER = b"\x0a\x04kept"


async def checked(door: str, request: bytes) -> bytes:
    async with grpc.aio.insecure_channel(door) as channel:
        check: Any = channel.unary_unary(f"{HEALTH}/Check")
        answer: bytes = await check(request, timeout=10)
        return answer


def watching(channel: grpc.aio.Channel, request: bytes = b"") -> Any:  # noqa: ANN401 - gRPC's call.
    watch: Any = channel.unary_stream(f"{HEALTH}/Watch")
    return watch(request)


@pytest.mark.parametrize("request_", [b"", THE_DOOR], ids=["the host", "its door"])
async def test_a_host_that_serves_says_so_to_a_health_check(
    world: LocalWorld, request_: bytes
) -> None:
    assert await checked(await door_of(world), request_) == SERVING


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ANOTHER, grpc.StatusCode.NOT_FOUND),
        (b"\xff", grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_a_health_check_of_something_else_is_refused(
    world: LocalWorld, request_: bytes, code: grpc.StatusCode
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await checked(await door_of(world), request_)

    assert refused.value.code() == code


@pytest.mark.parametrize(
    ("request_", "statuses"),
    [(b"", [SERVING, NOT_SERVING]), (ANOTHER, [SERVICE_UNKNOWN, SERVICE_UNKNOWN])],
)
async def test_who_watches_hears_that_the_host_closes(
    world: LocalWorld, request_: bytes, statuses: list[bytes]
) -> None:
    async with grpc.aio.insecure_channel(await door_of(world)) as channel:
        watched = watching(channel, request_)
        heard = [await watched.read()]
        await world.service.host("host-0").close()
        heard.append(await watched.read())

    assert heard == statuses


async def test_watches_of_one_host_are_bounded_and_end_with_their_clients(
    world: LocalWorld,
) -> None:
    door = await door_of(world)
    options = (("grpc.use_local_subchannel_pool", 1),)
    channels = [grpc.aio.insecure_channel(door, options=options) for _ in range(5)]
    watches: list[Any] = [watching(one) for one in channels[:-1] for _ in range(16)]
    assert len(watches) == WATCHES_MAX
    assert {await one.read() for one in watches} == {SERVING}

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await watching(channels[-1]).read()
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    watches[0].cancel()
    async with asyncio.timeout(10):
        while True:
            try:
                assert await watching(channels[-1]).read() == SERVING
                break
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.01)
    for channel in channels:
        await channel.close()


async def test_who_knocks_learns_whether_the_door_opens(world: LocalWorld) -> None:
    door = await door_of(world)
    assert await opens(door)

    await world.service.host("host-0").shut_door()

    assert not await opens(door)


async def test_a_door_behind_which_nobody_answers_does_not_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # It accepts, as a frozen host does.
        assert not await opens(f"127.0.0.1:{silent.getsockname()[1]}")
