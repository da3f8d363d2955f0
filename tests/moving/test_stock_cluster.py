"""A cluster that Kafka's own manager has tiered for is moved to tierledger, and back.

The broker is a stock one, on Kafka's own manager throughout; its plugin is a program that
attends. What brokers do with the owner is tried in tests/kafka/test_moving.py.
"""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import (  # type: ignore[import-untyped] # It has no types.
    AIOKafkaConsumer,
    TopicPartition,
)
from aiokafka.errors import (  # type: ignore[import-untyped] # As above.
    OffsetOutOfRangeError,
)
from typer.testing import Result

from tests.kafka.test_one_broker import TOPIC, until
from tests.models.actors.local_world import lead
from tests.models.cli.command_line import invoke
from tests.models.kafka.attending_plugin import AttendingPlugin, attending
from tests.models.kafka.clients import WAIT_S, create_topic, produced
from tests.models.kafka.tiered_broker import STOCK, TIERED, TieredBroker
from tests.ray.test_serve import COMMAND, served
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.coordinator.ownership import PluginMode
from tierledger.actors.discovery.connecting import connect
from tierledger.actors.host_settings import ServiceSettings
from tierledger.benchmarks.kafka_broker import CLUSTER_ID
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.commands import ImportedRecord
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from tierledger.moving.procedure import AS_BEFORE
from tierledger.moving.telling import SUCCEEDED
from tierledger.simulation.live.server import free_ports

PARTITION = TopicPartition(TOPIC, 0)

pytestmark = pytest.mark.ray


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TieredBroker]:
    with TieredBroker("none", tmp_path / "tier", STOCK) as broker:
        yield broker


class Ledger:
    """A service that follows the broker, and the commands on it."""

    def __init__(
        self,
        store: str,
        door: str,
        kafka: str,
        restart: Callable[[], None] = lambda: None,
    ) -> None:
        """`kafka`: the brokers.

        `restart`: ends the service, and starts another on the store.
        """
        self.store = store
        self.restart = restart
        self.settings = ServiceSettings(
            CLUSTER_ID, {"metadata.storage.url": f"tierledger://{door}"}
        )
        self._kafka = kafka

    async def hand_over(self, *options: str) -> Result:
        return await asyncio.to_thread(invoke, *self.handover(*options))

    def handing_over(self, *options: str) -> subprocess.Popen[str]:
        """The same in a process of its own, while it runs."""
        command = [*COMMAND, *self.handover(*options)]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def handover(self, *options: str) -> list[str]:
        """The command's arguments."""
        return ["handover", *options, "--kafka", self._kafka, "--store", self.store]

    async def moved(self, to: str) -> None:
        done = await self.hand_over("--to", to)
        assert done.exit_code == ExitStatus.WELL, done.stderr

    async def attended(self, modes: Mapping[int, str], owner_epoch: int) -> None:
        """Return once these plugins, and no others, follow that owner epoch, without trouble.

        `modes`: by broker.
        """

        async def is_so() -> bool:
            seen = (await self.status())["coordinator"]["attending"]
            found = {
                one["broker_id"]: (one["mode"], one["owner_epoch"], one["trouble"])
                for one in seen
            }
            return found == {
                broker: (mode, owner_epoch, None) for broker, mode in modes.items()
            }

        await eventually(is_so)

    async def status(self) -> dict[str, Any]:
        done = await asyncio.to_thread(invoke, "status", "--store", self.store, "--json")
        status: dict[str, Any] = json.loads(done.stdout)
        return status

    async def partition(self) -> TopicIdPartition:
        """The topic's."""
        done = await asyncio.to_thread(invoke, "ls", "--store", self.store, "--json")
        return TopicIdPartition(Uuid.parse(json.loads(done.stdout)["topic_id"]), 0, TOPIC)

    async def segments(self) -> list[dict[str, Any]]:
        """Those of the topic's partition that tierledger knows."""
        given = ["segments", TOPIC, 0, "--store", self.store, "--json"]
        done = await asyncio.to_thread(invoke, *given)
        return [json.loads(line) for line in done.stdout.splitlines()]

    async def finished(self) -> int:
        known = await self.segments()
        return sum(one["state"] == "COPY_SEGMENT_FINISHED" for one in known)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[ServiceConnection]:
        connection = await connect(self.settings)
        try:
            yield connection
        finally:
            await connection.close()


@pytest.fixture
def ledger(tmp_path: Path, broker: TieredBroker) -> Iterator[Ledger]:
    store, door = f"sqlite:{tmp_path / 'ledger.sqlite'}", f"127.0.0.1:{free_ports()}"
    options = ["--cluster", CLUSTER_ID, "--listen", door, "--kafka", broker.address]
    with ExitStack() as services:
        running: list[subprocess.Popen[str]] = []

        def restart() -> None:
            for process in running:
                process.terminate()
                assert process.wait(WAIT_S) == ExitStatus.WELL
            running[:] = [services.enter_context(served(store, *options))]

        restart()
        yield Ledger(store, door, broker.address, restart)


async def tiered(broker: TieredBroker) -> list[bytes]:
    """Fill a topic, and return its records once they are tiered."""
    await create_topic(broker.address, TOPIC, settings=TIERED)
    sent = await produced(broker.address, TOPIC, 0, 120)
    await until(lambda: broker.is_tiered(TOPIC))
    return sent


async def eventually(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await is_so():  # noqa: ASYNC110 - Other processes do it.
            await asyncio.sleep(0.2)


@pytest.mark.long  # tests/kafka/test_moving.py goes the same way, with the plugin.
async def test_a_cluster_moves_to_tierledger_and_back(
    broker: TieredBroker, ledger: Ledger
) -> None:
    sent = await tiered(broker)
    done = await ledger.hand_over("--to", "kafka")
    assert done.exit_code == ExitStatus.WELL, done.stderr
    assert done.stdout == f"kafka owns the remote log metadata of the cluster {CLUSTER_ID}\n"
    count = len(broker.tiered_logs())
    await eventually(lambda: is_count(ledger, count))

    # The import follows the topic.
    sent += await produced(broker.address, TOPIC, 120, 160)
    await until(lambda: broker.is_tiered(TOPIC))
    await eventually(lambda: is_count(ledger, len(broker.tiered_logs())))
    await asyncio.to_thread(retain, broker, every_ms=3_600_000)
    await eventually(lambda: is_doing(ledger, "import"))

    # Nobody attends yet.
    refused = await ledger.hand_over("--to", "tierledger")
    assert refused.exit_code == ExitStatus.USAGE
    assert "broker 1 does not attend" in refused.stderr
    async with ledger.connection() as connection:
        coordinator = connection.coordinator
        async with attending(coordinator, 1, PluginMode.SHADOW) as shadow:
            await eventually(lambda: hears(shadow, "kafka"))
            refused = await ledger.hand_over("--to", "tierledger")
            assert refused.exit_code == ExitStatus.USAGE
            assert "broker 1 runs in shadow" in refused.stderr
            assert shadow.followed == [shadow.ownership], "nothing was begun"

        async with attending(coordinator, 1) as plugin:
            done = await ledger.hand_over("--to", "tierledger")
            assert done.exit_code == ExitStatus.WELL, done.stderr
            await eventually(lambda: hears(plugin, "tierledger"))
            owners = [one.owner for one in plugin.followed]
            assert owners == ["kafka", "moving", "moving", "tierledger"]

        # A broker on tierledger removes the first segment of the log.
        removed = await remove_first(ledger)
        assert await task(ledger) == ("mirror", None)

    # The next service goes on where the topic says that its mirror was.
    await asyncio.to_thread(ledger.restart)
    async with ledger.connection() as connection:
        coordinator = connection.coordinator
        await eventually(lambda: is_doing(ledger, "mirror"))
        async with attending(coordinator, 1) as plugin:
            done = await ledger.hand_over("--to", "kafka")
            assert done.exit_code == ExitStatus.WELL, done.stderr
            await eventually(lambda: hears(plugin, "kafka"))
            owners = [one.owner for one in plugin.followed]
            assert owners == ["tierledger", "moving", "moving", "kafka"]
            status = (await ledger.status())["coordinator"]
            assert (status["owner"], status["owner_epoch"]) == ("kafka", 7)
            assert (status["move"]["to"], status["move"]["outcome"]) == ("kafka", SUCCEEDED)

    # Kafka's own manager reads what was mirrored: the removed segment is gone for it, too.
    await asyncio.to_thread(retain, broker, every_ms=300)
    with pytest.raises(OffsetOutOfRangeError):
        await consumed_from(broker, 0)
    assert await consumed_from(broker, removed) == sent[removed:]


@pytest.mark.long  # Of every line of the move, tests/moving/test_procedure.py has this.
async def test_a_difference_and_a_broker_that_writes_on_stop_a_move(
    broker: TieredBroker, ledger: Ledger
) -> None:
    await tiered(broker)
    # The topic's id is learnt by an import; then a segment is planted that Kafka does not know.
    assert (await ledger.hand_over("--to", "kafka")).exit_code == ExitStatus.WELL
    await eventually(lambda: is_count(ledger, len(broker.tiered_logs())))
    tip = await ledger.partition()
    planted = Uuid(bytes(range(16)))
    await plant(ledger, tip, planted)

    async with ledger.connection() as connection, attending(connection.coordinator, 1) as one:
        refused = await ledger.hand_over("--to", "tierledger")
        assert refused.exit_code == ExitStatus.USAGE
        assert f"{tip}, segment {planted}: by Kafka's metadata topic none" in refused.stderr
        assert [followed.owner for followed in one.followed] == ["kafka"], "nothing was begun"
        told = (await ledger.status())["coordinator"]["move"]
        assert str(planted) in told["differences"][0]
        assert told["outcome"].endswith(AS_BEFORE)

        one.is_busy = True
        await interrupted_while_moving(ledger, one)
        await eventually(lambda: hears(one, "kafka"))
        one.followed.clear()

        given_up = await ledger.hand_over("--to", "tierledger", "--accept-losses")
        assert given_up.exit_code == ExitStatus.USAGE
        assert "brokers 1 are not idle" in given_up.stderr
        await eventually(lambda: hears(one, "kafka"))
        assert [followed.owner for followed in one.followed] == ["moving", "kafka"]

        one.is_busy = False
        moved = await ledger.hand_over("--to", "tierledger", "--accept-losses")
        assert moved.exit_code == ExitStatus.WELL, moved.stderr
        assert str(planted) in moved.stderr


async def interrupted_while_moving(ledger: Ledger, plugin: AttendingPlugin) -> None:
    """Ctrl-C gives back what has begun."""
    process = ledger.handing_over("--to", "tierledger", "--accept-losses")
    try:
        await eventually(lambda: hears(plugin, "moving"))
        process.send_signal(signal.SIGINT)
        _, errors = await asyncio.to_thread(process.communicate, timeout=WAIT_S)
    finally:
        process.kill()
    assert process.returncode in {ExitStatus.USAGE, ExitStatus.INTERRUPTED}, errors
    assert "it was interrupted; the owner is as before" in errors


async def task(ledger: Ledger) -> tuple[str, str | None]:
    """The follower of Kafka's topic as `status` reports it, with its trouble."""
    report = (await ledger.status())["coordinator"]["kafka"]
    return report["task"], report["trouble"]


async def is_doing(ledger: Ledger, what: str) -> bool:
    return await task(ledger) == (what, None)


def retain(broker: TieredBroker, *, every_ms: int) -> None:
    """Start the broker again, to apply retention to the tier that often.

    A stock broker finishes a deletion that it finds begun, and writes so itself. Between the
    two records of a mirrored deletion it must not look, as a broker on tierledger does not.
    """
    broker.settings["remote.log.manager.task.interval.ms"] = every_ms
    broker.configure()
    broker.restart(signal.SIGTERM)


async def plant(ledger: Ledger, tip: TopicIdPartition, segment_id: Uuid) -> None:
    """Import a record that is in no topic."""
    async with AsyncRemoteLogMetadataManager() as manager:
        await manager.configure(
            {**ledger.settings.storage, "cluster.id": CLUSTER_ID, "broker.id": 7}
        )
        await manager.announce_import({tip: 1_795_000_000_000}, [], "another cluster")
        await manager.when_ready([tip])
        added = RemoteLogSegmentMetadata(
            remote_log_segment_id=RemoteLogSegmentId(tip, segment_id),
            start_offset=5000,
            end_offset=5009,
            max_timestamp_ms=1,
            broker_id=1,
            event_timestamp_ms=1,
            segment_size_in_bytes=100,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            segment_leader_epochs={0: 5000},
        )
        record = ImportedRecord(0, 0, 1_795_000_000_000, KafkaRecord(added))
        await manager.import_records(tip, [record])


async def is_count(ledger: Ledger, count: int) -> bool:
    return await ledger.finished() == count


async def hears(plugin: Any, owner: str) -> bool:  # noqa: ANN401
    return bool(plugin.ownership.owner == owner)


async def remove_first(ledger: Ledger) -> int:
    """Let broker 1 remove the first segment by tierledger; the offset behind it."""
    first = min(await ledger.segments(), key=lambda one: int(one["start_offset"]))
    tip = await ledger.partition()
    segment = RemoteLogSegmentId(tip, Uuid.parse(first["id"]))
    async with AsyncRemoteLogMetadataManager() as manager:
        await manager.configure(
            {**ledger.settings.storage, "cluster.id": CLUSTER_ID, "broker.id": 1}
        )
        await lead(manager, tip)
        for state in (
            RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
            RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
        ):
            await manager.update_remote_log_segment_metadata(
                RemoteLogSegmentMetadataUpdate(segment, 1_795_000_000_000, state, broker_id=1)
            )
    return int(first["end_offset"]) + 1


async def consumed_from(broker: TieredBroker, offset: int) -> list[bytes]:
    """All values from that offset on."""
    values: list[bytes] = []
    async with AIOKafkaConsumer(
        bootstrap_servers=broker.address, auto_offset_reset="none"
    ) as consumer:
        consumer.assign([PARTITION])
        end = (await consumer.end_offsets([PARTITION]))[PARTITION]
        consumer.seek(PARTITION, offset)
        async with asyncio.timeout(WAIT_S):
            while len(values) < end - offset:
                values.append((await consumer.getone()).value)
    return values
