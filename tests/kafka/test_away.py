"""A broker's plugin while no host of the service answers, or with wrong settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.models.kafka.plugins import EACH_KAFKA, KAFKAS, Plugins, started
from tierledger.simulation.live.server import free_ports

AWAY = "ReplicaNotAvailableException"
NOBODY = "127.0.0.1:1"
SHORT = {"tierledger.write.timeout.ms": 1000, "tierledger.finish.timeout.ms": 1500}


@pytest.fixture(params=EACH_KAFKA)
def plugins(request: pytest.FixtureRequest) -> Iterator[Plugins]:
    with started(KAFKAS[request.param]) as plugins:
        yield plugins


SPEAKERS = {
    "who listens hangs up": b"",
    "who listens is a web server": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    "who listens says too much": b"\0\0\0\4\0\0\0\0\0" + b"\xff\xff\xff\0\0\0\0\0\1",
}
"""The last: 16 MiB in one frame."""


@pytest_asyncio.fixture(params=["nobody listens", "who listens says nothing", *SPEAKERS])
async def door(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    says = SPEAKERS.get(request.param)

    clients = list[asyncio.StreamWriter]()

    async def greet(_: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        clients.append(client)
        if says is not None:
            client.write(says)
            client.close()

    if request.param == "nobody listens":
        yield f"127.0.0.1:{free_ports()}"
        return
    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for client in clients:
            client.transport.abort()


async def test_a_service_that_is_away(plugins: Plugins, door: str) -> None:
    ask = plugins.ask
    assert await plugins.open(1, "c", door, **SHORT) == "done"
    await ask("1 lead 0")
    assert await ask("1 is-ready 0") == "false"
    assert await ask("1 lookup 0 5") == AWAY
    assert await ask("1 list 0") == AWAY
    # The first may begin before it is known that nobody answers; then they are refused.
    refused = None
    while refused != await ask("1 metric NotReadyAnswers"):
        before = int(await ask("1 metric NotReadyAnswers"))
        refused = str(before + 1)
        assert await ask("1 add 0 0") == AWAY
    assert await ask("1 metric ServiceAway") == "true"
    failed = int(await ask("1 metric WritesFailed"))
    assert await ask("1 move 0 0 COPY_SEGMENT_FINISHED") == AWAY
    assert await ask("1 metric NotReadyAnswers") == refused, (
        "it was not refused, but waited for"
    )
    assert await ask("1 metric WritesFailed") == str(failed + 1)
    await ask("1 stop 0")
    assert await ask("1 list 0") == "RemoteResourceNotFoundException"
    for _ in range(2):
        assert await ask("1 close") == "done"
    for question in ("list 0", "add 0 0"):
        assert await ask(f"1 {question}") == "IllegalStateException"
    assert await ask("1 is-ready 0") == "false"
    assert await ask("1 metric Partitions") == "NoSuchElementException"
    assert await ask("1 threads") == "none"


async def test_a_wrong_setting_is_named(plugins: Plugins) -> None:
    wrong = [
        *[("tierledger.bootstrap", one) for one in ("", "host", "host:0", "host:99999", ":2")],
        *[("tierledger.write.timeout.ms", one) for one in ("soon", "999")],
        ("tierledger.finish.timeout.ms", "0"),
        ("tierledger.mode", "both"),
        ("cluster.id", ""),
        ("broker.id", "-1"),
        ("tierledger.token.without.tls", "perhaps"),
        ("tierledger.ssl.ca.location", "ca.pem"),
        ("tierledger.ssl.key.location", "key.pem"),
    ]
    for key, value in wrong:
        answer = await plugins.open(1, "c", NOBODY, **{key: value})
        assert answer.startswith("failed ConfigException "), (key, value, answer)
        assert key in answer
        assert value in answer
        assert await plugins.ask("1 list 0") == "IllegalStateException"
    for mode in ("shadow", "handover"):
        answer = await plugins.open(1, "c", NOBODY, **{"tierledger.mode": mode})
        assert "remote.log.metadata.manager.listener.name" in answer
    assert await plugins.ask("1 threads") == "none"
