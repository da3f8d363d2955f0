"""A leader whose kept segments are not in memory stores and reads what any other does."""

import pytest

from tests.models.storage.stored_partitions import (
    StoredPartition,
    finished,
    segment_id,
    updated,
)
from tierledger.events.lifecycle import DeletionCause
from tierledger.events.log_events import (
    UNTIL_RELEASED_MS,
    SegmentKept,
    SegmentPurged,
    SegmentPurgeStarted,
)
from tierledger.events.partition.invariants import check
from tierledger.events.tables import paged_map
from tierledger.events.tables.spilled_map import SpilledMap
from tierledger.simulation.service.spill import small_spill
from tierledger.storage.partition.checkpoint import CheckpointWriter, Standing
from tierledger.storage.partition.loading import Loading
from tierledger.storage.partition.reader import PartitionReader
from tierledger.storage.partition.verification import verify

SEGMENTS = 30


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged_map, "PAGE_ENTRIES_MAX", 4)


async def test_what_is_kept_goes_through_checkpoints_and_purges_without_memory() -> None:
    partition = await StoredPartition.led()
    for number in range(SEGMENTS):
        await partition.append(finished(number))
        until_ms = UNTIL_RELEASED_MS if number == 7 else 1000
        kept = SegmentKept(
            segment_id(number), until_ms, DeletionCause.RETENTION, 7, 5, f"why {number}"
        )
        await partition.append([updated(number, 2), kept])
    await partition.checkpoint()
    plain = partition.reader()
    for number in (3, 4, 5, 6, 7, 20):
        started = SegmentPurgeStarted(segment_id(number), 2000)
        ends = [] if number == 20 else [SegmentPurged(segment_id(number))]
        await partition.append([started, *ends])
    reader = PartitionReader(
        partition.backend,
        plain.keys,
        plain.serde,
        partition.cluster,
        partition.tip,
        small_spill(),
    )
    loading = Loading(reader, tracks_changes=True)

    loaded = await loading.state()
    state, next_batch = await reader._fold(loaded)

    assert isinstance(state.kept.by_position, SpilledMap)
    assert sum(page.packed is None for page in state.kept.by_position.pages) == 1
    check(state)
    assert state.digest() == partition.state.digest()
    assert (len(state.kept), len(state.kept.unreleased)) == (SEGMENTS - 5, 0)
    first, purging = state.kept.first(), state.kept.get(segment_id(20))
    assert first is not None
    assert purging is not None
    assert (first.reason, purging.lease_until_ms) == ("why 0", 2000)

    writer = CheckpointWriter(reader.checkpoints)
    writer.stored = loading.stored
    plan = await writer.plan(writer.freeze(state, next_batch))
    assert await writer.write(plan) is Standing.OURS
    again = await partition.reader().state()
    assert again.state.digest() == state.digest()
    assert [*again.state.kept.all()] == [*state.kept.all()]
    assert (await verify(partition.reader())).passed
