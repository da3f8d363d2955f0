"""`forget` of segments that no broker deletes any more, with and without their data."""

import asyncio
import json
from pathlib import Path

import pytest
import pytest_asyncio
from typer.testing import Result

from tests.models.actors.local_world import (
    DELETING,
    LocalWorld,
    copy,
    eventually,
    moved,
    partition,
    segment,
    sqlite_in,
)
from tests.models.cli.command_line import refused, run
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Handover
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.remote_storage_manager import LogSegmentData

LEFT = partition(0)


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> LocalWorld:
    """Two segments, one of them half deleted, of a partition that nobody hosts any more."""
    world = LocalWorld(sqlite_in(tmp_path))
    async with world:
        broker = await world.leader(LEFT)
        await copy(broker, segment(0), segment(1))
        await broker.update_remote_log_segment_metadata(moved(segment(1), DELETING))
        await broker.on_stop_partitions([LEFT])
        await eventually(world.is_idle)
    return world


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


async def test_what_is_left_is_forgotten_if_that_is_said(
    world: LocalWorld, store: Path
) -> None:
    del world
    forget = ("forget", "orders", 0)
    refused(
        await there(store, *forget, "--yes"), "still holds 2 segments", "--tier or --leave-data"
    )

    tried = await there(store, *forget, "--leave-data", "--dry-run")
    assert tried.exit_code == 0, tried.output
    what = f"{LEFT}, its 7 events and 2 segments (20 B) whose data stays in the tier\n"
    assert tried.stdout == f"would forget {what}"
    shown = await there(store, "segments", "orders", 0, "--json")
    assert len(shown.stdout.splitlines()) == 2

    done = await there(store, *forget, "--leave-data", "--yes")
    assert (done.exit_code, done.stdout) == (0, f"forgot {what}")
    assert (await there(store, "verify")).exit_code == 0
    assert (await there(store, "describe", "orders", 0)).exit_code == 2


async def test_what_is_left_goes_with_its_data(
    world: LocalWorld, store: Path, tmp_path: Path
) -> None:
    del world
    tier = tmp_path / "tier"
    tier.mkdir()
    for number in (0, 1):
        await put(tier, segment(number), tmp_path)
    assert any(one.is_file() for one in tier.rglob("*"))
    given = ("forget", "orders", 0, "--yes", "--json", "--tier")

    # A tier that is only read here keeps everything.
    refused(await there(store, *given, f"local-tiered:{tier}"), "which is only read here")
    done = await there(store, *given, f"dir:{tier}")

    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["segments"]) == 2
    assert not any(one.is_file() for one in tier.rglob("*"))


async def test_what_a_broker_hosts_or_kafka_knows_is_not_forgotten(
    world: LocalWorld, store: Path
) -> None:
    given = ("forget", "orders", 0, "--leave-data", "--yes")
    async with world:
        await world.follower(LEFT, broker_id=2)
    refused(await there(store, *given), f"{LEFT} is hosted by brokers 2")
    async with world:
        broker = await world.broker(2)
        await broker.on_stop_partitions([LEFT])
        await world.service.coordinator.hand_over(Handover(Owner.KAFKA, Owner.NOBODY))
    refused(await there(store, *given), "Kafka's own manager knows its segments")


async def there(store: Path, *given: object) -> Result:
    """The command's result, beside the loop of the test."""
    return await asyncio.to_thread(run, store, *given)


async def put(tier: Path, metadata: RemoteLogSegmentMetadata, folder: Path) -> None:
    """Copy a segment of ten bytes to the tier."""
    file = folder / "segment"
    file.write_bytes(bytes(metadata.segment_size_in_bytes))
    data = LogSegmentData(file, file, file, None, b"", b"")
    async with open_tier(f"dir:{tier}") as storage:
        await storage.copy_log_segment_data(metadata, data)
