"""A log with a hole, or that ends before its checkpoint, is damaged; never a short log."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.models.storage.stored_partitions import (
    CLUSTER,
    SERDE,
    StoredPartition,
    finished,
    segment_id,
)
from tierledger.events.errors import CorruptLog
from tierledger.events.log_events import Event
from tierledger.events.partition.answers import lookup
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.catalog import Catalog
from tierledger.storage.partition.event_log import EventLog
from tierledger.storage.partition.point_reads import ask
from tierledger.storage.partition.reader import PartitionReader, planned_ends
from tierledger.storage.partition.verification import FindingKind, verify

CHECKPOINT, END = 12, 17
"""The batches that the checkpoint covers, and that the log has."""

T = TypeVar("T")


@pytest.fixture(params=["memory", "sqlite"])
async def backend(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[MetadataStorageBackend]:
    made: MetadataStorageBackend = MemoryBackend()
    if request.param == "sqlite":
        made = await SqliteBackend.open(tmp_path / "store.sqlite")
    yield made
    await made.close()


@pytest.fixture
async def partition(backend: MetadataStorageBackend) -> StoredPartition:
    partition = await StoredPartition.led(backend)
    while partition.next_batch < END:
        await partition.append(finished(partition.next_batch))
        if partition.next_batch == CHECKPOINT:
            await partition.checkpoint()
    return partition


async def test_a_read_that_is_full_may_not_be_the_last(partition: StoredPartition) -> None:
    log = EventLog(partition.backend, partition.keys, partition.tip)

    assert [(await log.page(0, limit)).is_end for limit in (END - 1, END, END + 1)] == [
        False, False, True,
    ]  # fmt: skip


async def events(reader: PartitionReader, position: int = 0) -> list[Event]:
    return [event async for event in reader.events(position)]


async def named(work: Awaitable[T], batch: int) -> None:
    """The error of `work` names the missing batch."""
    with pytest.raises(CorruptLog, match=f"batch {batch} is missing"):
        await work


READERS: dict[str, Callable[[PartitionReader], Awaitable[object]]] = {
    "the newest state": lambda reader: reader.state(),
    "a single answer": lambda reader: ask(reader, lambda state: lookup(state, 0, 25)),
    "the events": events,
    "events from the checkpoint on": lambda reader: events(reader, 40),
    "as of the end": lambda reader: reader.state_as_of(time_ms=2**62),
    "as of a position that is gone": lambda reader: reader.state_as_of(position=2 * END - 3),
}
BY_CHECKPOINT = READERS.keys() - {"the events"}


@pytest.mark.parametrize("batch", range(END - 1))
async def test_every_reader_names_the_batch_that_is_missing(
    partition: StoredPartition, batch: int
) -> None:
    await partition.lose(batch)

    for name, read in READERS.items():
        if batch < CHECKPOINT - 1 and name in BY_CHECKPOINT:
            await read(partition.reader())  # The checkpoint proves what stood there.
        else:
            await named(read(partition.reader()), batch)
    assert await planned_ends([partition.reader()]) == [END]
    report = await verify(partition.reader())
    assert [finding.kind for finding in report.findings] == [FindingKind.LOG]
    assert f"batch {batch} is missing" in report.findings[0].message
    assert report.batches == batch
    assert report.findings[0].position == max(2 * batch - 1, 0)


@pytest.mark.parametrize("batch", range(CHECKPOINT))
async def test_no_end_before_the_checkpoint_is_believed(
    partition: StoredPartition, batch: int
) -> None:
    await partition.lose(*range(batch, END))

    for name, read in READERS.items():
        missing = CHECKPOINT - 1 if name in BY_CHECKPOINT else batch
        await named(read(partition.reader()), missing)
    assert await planned_ends([partition.reader()]) == [CHECKPOINT]
    report = await verify(partition.reader())
    assert [finding.kind for finding in report.findings] == [FindingKind.LOG]
    catalog = Catalog(partition.backend, partition.keys, SERDE, CLUSTER)
    assert [one.topic_id_partition.topic async for one in catalog.partitions()] == ["orders"]


async def test_a_log_that_ends_behind_its_checkpoint_is_believed(
    partition: StoredPartition,
) -> None:
    await partition.lose(*range(CHECKPOINT, END))

    state, next_batch = await partition.reader().state()

    assert next_batch == CHECKPOINT
    assert segment_id(CHECKPOINT - 1) in [row[3:19] for row in state.rows]
    assert (await verify(partition.reader())).passed
