"""Plugins on bad days: both sides log what is wrong, no call hangs, and the rest goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.actors.door.test_security import guarded
from tests.kafka.test_plugin import owning
from tests.models.actors.local_world import CLUSTER, LocalWorld
from tests.models.actors.secrets import Authority, Secrets, token_file
from tests.models.captured_logs import captured_logs
from tests.models.kafka.plugins import Plugins, log_level, started
from tierledger.actors.door.server import admission, feeding
from tierledger.actors.door.wire.feed import put_frame
from tierledger.actors.feed.frames import Change
from tierledger.benchmarks.kafka_broker import JARS
from tierledger.events.partition.decide import Limits

if TYPE_CHECKING:
    from tierledger.actors.door import door_pb2 as pb
    from tierledger.actors.feed.frames import Frame

REFUSED = "a client was not let in"


class Log:
    """Warnings and errors that the plugins of a test log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0

    async def has(self, text: str) -> str:
        """The log's new lines, as soon as `text` is in one of them."""
        while text not in (new := self.path.read_text()[self._read :]):  # noqa: ASYNC110 - It has no event.
            await asyncio.sleep(0.01)
        self._read += len(new)
        return new


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


@pytest.fixture
def plugins(log: Log, tmp_path: Path) -> Iterator[Plugins]:
    """Plugins on the classes of the newest Kafka."""
    with started(JARS, log_level(tmp_path, "warn"), log=log.path) as plugins:
        yield plugins


async def test_who_is_not_let_in_hears_why(
    tmp_path: Path, plugins: Plugins, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = plugins.ask
    secrets = Secrets(tmp_path)
    strangers = Authority(tmp_path, "stranger").certificate
    unknown = tmp_path / "unknown"
    unknown.write_text("token-of-nobody-0123456789\n")
    ca: dict[str, object] = {"tierledger.ssl.ca.location": secrets.authority.certificate}
    token: dict[str, object] = {"tierledger.token.location": token_file(tmp_path, "broker:1")}

    async def refused(
        url: str, given: Mapping[str, object], *, cluster: str = CLUSTER
    ) -> tuple[str, str]:
        """The logs of a plugin and of its host."""
        with captured_logs() as logged:
            await plugins.open(1, cluster, url, **given)
            await ask("1 lead 1")
            line = await log.has("No host of tierledger answers; the last: ")
            assert await ask("1 lookup 1 5") == "ReplicaNotAvailableException"
            assert await ask("1 add 1 0") == "ReplicaNotAvailableException"
            assert await ask("1 close") == "done"
        return line, " ".join(one["error"] for one in logged if one["event"] == REFUSED)

    async with guarded(tmp_path, secrets.door()) as world:
        url = await world.service.url()
        for given, why in [
            (ca, "expected one bearer token in the stream's metadata, got none"),
            (
                {**ca, "tierledger.token.location": unknown},
                "this bearer token is not known here",
            ),
        ]:
            here, there = await refused(url, given)
            assert f"NOT_AUTHORIZED: {why}" in here
            assert why in there
        # gRPC itself refuses these, and logs it.
        here, _ = await refused(url, {"tierledger.ssl.ca.location": strangers, **token})
        assert "the TLS handshake with the host failed: " in here
        assert "expected a host of tierledger that speaks TLS" in here
        here, _ = await refused(url.replace("tierledgers", "tierledger"), token)
        assert "the host is not reached, or has closed the connection" in here
        assert "expected a host of tierledger that speaks without TLS" in here

        here, there = await refused(url, {**ca, **token}, cluster="another")
        assert f"this host serves cluster '{CLUSTER}', not 'another'" in here
        assert f"this host serves cluster '{CLUSTER}', not 'another'" in there
        monkeypatch.setattr(admission, "VERSION_MIN", 2)
        monkeypatch.setattr(admission, "VERSION_MAX", 3)
        here, there = await refused(url, {**ca, **token})
        assert "this host speaks the protocol versions 2 to 3, the client 1 to 1" in here
        assert "this host speaks the protocol versions 2 to 3, the client 1 to 1" in there
    assert await ask("1 threads") == "none"


async def test_what_is_too_large_is_refused_and_nothing_else_is(
    tmp_path: Path, plugins: Plugins
) -> None:
    ask, limit = plugins.ask, Limits().custom_metadata_bytes_max
    async with owning(tmp_path / "store.sqlite") as world:
        await plugins.open(1, CLUSTER, await world.service.url())
        await ask("1 lead 1")
        assert await ask("1 ready 1") == "ready"
        assert await ask("1 add 1 0") == "done"
        with captured_logs() as lines:
            over = await ask(f"1 move 1 0 COPY_SEGMENT_FINISHED {limit + 1}")
        assert over == "RemoteStorageException"
        (refused,) = [one for one in lines if "request" in one]
        assert (refused["operation"], refused["outcome"]) == ("update", "rejected")
        assert len(bytes.fromhex(refused["request"])) == 16, "the plugin's own"
        assert await ask("1 lookup 1 5") == "none"
        assert await world.alarms() == {"CustomMetadataSizeLimitExceeded": 1}
        # With these bytes a broker cleans up.
        for state in ("DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"):
            assert await ask(f"1 move 1 0 {state} {limit + 1}") == "done"
        assert await ask("1 add 1 1") == "done"
        huge = await ask(f"1 move 1 1 DELETE_SEGMENT_STARTED {17 << 20}")
        assert huge == "RemoteStorageException"
        assert await ask(f"1 move 1 1 COPY_SEGMENT_FINISHED {limit}") == "done"
        assert await ask("1 list 1") == "10"
        assert await ask("1 metric Reconnects") == "0"
        assert await ask("1 close") == "done"


async def test_what_does_not_add_up_is_dropped_fetched_again_and_counted(
    tmp_path: Path, plugins: Plugins, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, damage = plugins.ask, list[bool]()

    def put(frame: Frame, into: pb.Fed) -> None:
        put_frame(frame, into)
        if damage and isinstance(frame, Change):
            damage.clear()
            into.change.checksum = bytes(len(into.change.checksum))

    monkeypatch.setattr(feeding, "put_frame", put)
    async with owning(tmp_path / "store.sqlite") as world:
        await plugins.open(1, CLUSTER, await world.service.url())
        await ask("1 lead 1")
        assert await ask("1 ready 1") == "ready"
        for turn in range(3):
            snapshots = int(await ask("1 metric Snapshots"))
            damage.append(True)
            assert await ask("1 copy 1 1") == "done"
            assert await ask("1 ready 1") == "ready"
            assert await ask("1 list 1") == ",".join(str(10 * one) for one in range(turn + 1))
            assert await ask("1 metric ReplicasDropped") == str(turn + 1)
            assert int(await ask("1 metric Snapshots")) == snapshots + 1
            assert "The replica of " in await log.has(" is dropped: ")
        assert await ask("1 close") == "done"


async def test_a_plugin_that_another_has_displaced_registers_again(
    tmp_path: Path, plugins: Plugins, log: Log
) -> None:
    ask = plugins.ask
    async with owning(tmp_path / "store.sqlite") as world:
        register = world.service.coordinator.register

        async def newest() -> int:
            return (await register(1, b"asks, with no number after", -1)).incarnation

        await plugins.open(1, CLUSTER, await world.service.url())
        await ask("1 lead 1")
        assert await ask("1 ready 1") == "ready"
        before = await newest()
        other = await register(1, b"a second process", before)
        assert other.is_given
        assert other.incarnation == before + 1
        await log.has("Another plugin speaks for broker 1")  # It hears it when it attends.
        while await newest() == other.incarnation:  # noqa: ASYNC110 - It has no event.
            await asyncio.sleep(0.01)
        assert await ask("1 ready 1") == "ready"
        assert await ask("1 copy 1 3") == "done"
        assert await ask("1 close") == "done"


async def test_an_empty_ledger_is_another_until_an_operator_takes_it(
    tmp_path: Path, plugins: Plugins, log: Log
) -> None:
    ask, known = plugins.ask, tmp_path / "tierledger.positions"

    async def opened(world: LocalWorld) -> None:
        url = await world.service.url()
        assert await plugins.open(1, CLUSTER, url, **{"log.dir": tmp_path}) == "done"
        await ask("1 lead 1")

    async with owning(tmp_path / "first.sqlite") as world:
        await opened(world)
        assert await ask("1 ready 1") == "ready"
        assert await ask("1 copy 1 3") == "done"
        assert await ask("1 close") == "done"
    async with owning(tmp_path / "second.sqlite") as world:
        await opened(world)
        line = await log.has("is not read any more")
        assert str(known) in line
        assert await ask("1 metric PartitionsOfAnotherLedger") == "1"
        assert await ask("1 is-ready 1") == "false"
        assert await ask("1 list 1") == "ReplicaNotAvailableException"
        assert await ask("1 add 1 0") == "ReplicaNotAvailableException"
        while not (found := await other_logs(world)):  # noqa: ASYNC110 - It has no event.
            await asyncio.sleep(0.01)
        assert found == ["orders-1"]
        assert await ask("1 close") == "done"

        known.unlink()
        await opened(world)
        assert await ask("1 ready 1") == "ready"
        assert await ask("1 list 1") == ""
        assert await ask("1 close") == "done"


async def other_logs(world: LocalWorld) -> list[str]:
    """The partitions of which broker 1 has seen another log than the service's."""
    (plugin,) = (await world.service.coordinator.status())["attending"]
    found: list[str] = plugin["other_logs"]
    return found
