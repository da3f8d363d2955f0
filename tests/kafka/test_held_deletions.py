"""A stock broker that no seal stops raises log starts; back on the plugin, nothing goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped] # It has no types.
from aiokafka.admin import (  # type: ignore[import-untyped] # It has no types.
    RecordsToDelete,
)

from tests.kafka.test_moving import Cluster
from tests.kafka.test_one_broker import TOPIC, settings_of
from tests.kafka.test_seal import PARTITIONS, earliest, has_gone_round
from tests.models.kafka.clients import administered, create_topic
from tests.models.kafka.tiered_broker import TieredBroker
from tests.moving.test_stock_cluster import Ledger, eventually
from tests.ray.test_serve import served
from tierledger.benchmarks.kafka_broker import CLUSTER_ID
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.errors import StorageUnavailable
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.simulation.live.server import free_ports

pytestmark = [pytest.mark.ray, pytest.mark.long]

CONFIRM = "--confirm-deletions"


async def test_what_a_stock_broker_has_made_unreadable_stays_in_the_tier_until_it_is_confirmed(
    tmp_path: Path,
) -> None:
    door = f"127.0.0.1:{free_ports()}"
    store = f"sqlite:{tmp_path / 'ledger.sqlite'}"
    with TieredBroker(door, tmp_path / "tier", PARTITIONS) as broker:
        given = ["--cluster", CLUSTER_ID, "--listen", door, "--kafka", broker.address]
        with served(store, *given):
            ledger = Ledger(store, door, broker.address)
            one = Cluster(broker, ledger)
            done = await ledger.hand_over("--fresh", "--metadata-partitions", "3")
            assert done.exit_code == ExitStatus.WELL, done.stderr
            assert await has_gone_round(ledger, "seal")
            await create_topic(broker.address, TOPIC, settings=settings_of(broker))
            await one.grow(80)
            await one.attends("tierledger", 1)
            tiered = sorted(broker.tiered_logs())

            await unseal(broker)
            await one.become(None)
            await eventually(lambda: has_risen(broker))
            await eventually(lambda: is_held(ledger))
            refused = await ledger.hand_over(CONFIRM)
            assert refused.exit_code == ExitStatus.USAGE
            assert "brokers 1 run without the plugin" in refused.stderr
            # It may have tiered again what is on its disk.
            assert {*tiered} <= {*broker.tiered_logs()}

            await one.become("tierledger")
            await one.attends("tierledger", 1)
            await eventually(lambda: was_refused(ledger))
            assert "deletions of finished segments are held" in broker.log()
            assert await has_risen(broker), "for good, as Kafka never lowers a log start"
            assert {*tiered} <= {*broker.tiered_logs()}
            shown = await ledger.hand_over(CONFIRM, "--dry-run")
            assert shown.exit_code == ExitStatus.WELL, shown.stderr
            assert f"{TOPIC}-0: log start " in shown.stderr
            assert f"{len(tiered)} finished segments below it, offsets 0 to " in shown.stderr
            assert await is_held(ledger)

            done = await ledger.hand_over(CONFIRM)
            assert done.exit_code == ExitStatus.WELL, done.stderr
            await eventually(lambda: is_empty(broker, tiered))
            assert not await is_held(ledger)


async def unseal(broker: TieredBroker) -> None:
    """Delete all records of Kafka's metadata topic, as somebody may who finds the seals."""
    async with administered(broker.address) as admin:
        every = {
            TopicPartition(METADATA_TOPIC, number): RecordsToDelete(before_offset=-1)
            for number in range(3)
        }
        await admin.delete_records(every)


async def has_risen(broker: TieredBroker) -> bool:
    """Whether consumers cannot read any more what only the tier has."""
    try:
        return await earliest(broker) > 0
    except StorageUnavailable:
        return False  # It has just started, and does not lead all its partitions yet.


async def is_held(ledger: Ledger) -> bool:
    """Whether `status` has the trouble that deletions are held."""
    troubles = (await ledger.status())["troubles"]
    return any(one["code"] == "deletions-held" for one in troubles)


async def was_refused(ledger: Ledger) -> bool:
    """Whether the broker has tried to delete."""
    hosts = (await ledger.status())["hosts"]
    return any(one["alarms"].get("deletion-held") for one in hosts)


async def is_empty(broker: TieredBroker, tiered: list[Path]) -> bool:
    return not {*tiered} & {*broker.tiered_logs()}
