"""Damage of every kind is found, named and counted; what is right passes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.storage.flipped_bits import flipped
from tests.models.storage.stored_partitions import (
    SERDE,
    TIME_MS,
    TRACES,
    StoredPartition,
    finished,
    import_trace,
    segment_id,
    updated,
)
from tierledger.events import log_events as log
from tierledger.events.tables.segment_rows import SIZE, pack_row, unpack_row
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.partition.checkpoint import CheckpointStore
from tierledger.storage.partition.event_log import encode_batch
from tierledger.storage.partition.verification import FindingKind, VerificationReport, verify


@pytest.fixture
async def partition() -> StoredPartition:
    partition = await StoredPartition.led()
    await partition.fill(range(20))
    await partition.append([updated(3, 2), updated(3, 3)])
    await partition.checkpoint()
    await partition.append(finished(20))
    return partition


@pytest.mark.parametrize("trace", ["one-broker", "three-brokers-churn", "topic-deletion"])
async def test_what_was_written_passes(trace: str, tmp_path: Path) -> None:
    backend = await SqliteBackend.open(tmp_path / "store.sqlite")
    partitions = await import_trace(backend, TRACES / trace)

    reports = [await verify(partition.reader()) for partition in partitions]

    assert [report.findings for report in reports] == [()] * len(partitions)
    assert all(report.checkpoint_position is not None for report in reports)
    await backend.close()


def flip(partition: StoredPartition, key: str) -> None:
    partition.values[key] = flipped(partition.values[key])


def page(one: StoredPartition, table: str) -> str:
    return one.keys.leader_epoch_page(one.tip, 0, table, 0)


def row(one: StoredPartition, number: int = 7) -> str:
    return one.keys.segment(one.tip, segment_id(number))


def put_row(one: StoredPartition, number: int, field: int, value: object) -> None:
    """The row of segment 7, with one field changed, as the row of segment `number`."""
    fields = unpack_row(one.state.rows.get(segment_id(7)) or b"")
    fields[field] = value
    one.values[row(one, number)] = SERDE.serialize_row(pack_row(fields))


DAMAGES: dict[str, Callable[[StoredPartition], object]] = {
    "a row with another size": lambda one: put_row(one, 7, SIZE, 1001),
    "a row that is gone": lambda one: one.values.pop(row(one)),
    "a row too many": lambda one: put_row(one, 99, 0, segment_id(99)),
    "a flipped row": lambda one: flip(one, row(one)),
    "a flipped page": lambda one: flip(one, page(one, "referenced")),
    "a page that is gone": lambda one: one.values.pop(page(one, "tombstones")),
    "a flipped epoch": lambda one: flip(one, one.keys.leader_epoch(one.tip, 0)),
    "a flipped partition value": lambda one: flip(one, one.keys.partition(one.tip)),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_checkpoint_is_found(partition: StoredPartition, damage: str) -> None:
    DAMAGES[damage](partition)

    report = await verify(partition.reader())

    assert {finding.kind for finding in report.findings} == {FindingKind.CHECKPOINT}
    assert report.events == partition.state.next_position


async def test_a_checkpoint_of_another_history_is_found_down_to_the_segment(
    partition: StoredPartition,
) -> None:
    other = await StoredPartition.led()
    await other.fill([*range(7), 70, *range(8, 20)])
    await other.append([updated(3, 2), updated(3, 3)])
    # Honest in itself, with proofs and a digest, but not of this log.
    other.partition_value = partition.partition_value
    store = CheckpointStore(partition.backend, partition.keys, SERDE, partition.tip)
    draft = store.freeze(other.state, other.next_batch, whole=True)
    plan = await store.plan_in_slices(draft, partition.partition_value)
    await partition.backend.execute_atomically(plan.operations)

    report = await verify(partition.reader())

    text = " ".join(finding.message for finding in report.findings)
    assert not report.passed
    assert "chain hash" in text
    assert "1 segments are missing or differ" in text
    assert "1 segments should not be there" in text
    assert "referenced" in text


@pytest.mark.parametrize("batch", [0, 1, 9])
async def test_a_damaged_batch_is_found_and_the_events_before_are_counted(
    partition: StoredPartition, batch: int
) -> None:
    await partition.flip(batch)

    report = await verify(partition.reader())

    assert report.findings[0].kind == FindingKind.LOG
    assert report.batches == batch


async def test_a_batch_of_another_partition_is_found(partition: StoredPartition) -> None:
    other = StoredPartition(MemoryBackend(), cluster="another")
    await other.open()
    await other.fill(range(6))
    partition.values[partition.batch_key(5)] = await other.batch(5)

    report = await verify(partition.reader())

    assert report.findings[0].kind == FindingKind.LOG
    assert "predecessor" in report.findings[0].message


async def commit(
    partition: StoredPartition, session: int, time_ms: int, body: log.Body
) -> None:
    position = partition.state.next_position
    await partition.commit([log.Event(position, session, time_ms, 1, None, body)])


async def test_events_that_go_back_in_time_or_session_are_found() -> None:
    partition = await StoredPartition.led()
    await partition.open()
    await commit(partition, 2, TIME_MS - 1, finished(0)[0])
    await commit(partition, 1, TIME_MS, finished(1)[0])

    report = await verify(partition.reader())

    found = [(finding.kind, finding.position) for finding in report.findings]
    assert found == [(FindingKind.TIME, 2), (FindingKind.REPLAY, 3)]


async def test_an_event_that_nothing_can_apply_is_found() -> None:
    partition = await StoredPartition.led()
    stray = log.Event(1, 1, TIME_MS, 1, None, updated(1, 1))
    batch = encode_batch(SERDE, [stray], partition.state.chain_hash)
    await partition.backend.create(partition.batch_key(1), batch.value)

    report = await verify(partition.reader())

    assert [finding.kind for finding in report.findings] == [FindingKind.LOG]
    assert "unknown" in report.findings[0].message


async def test_verifying_while_a_writer_renews_the_checkpoint_finds_nothing(
    partition: StoredPartition,
) -> None:
    reports: list[VerificationReport] = []

    for number in range(30, 40):
        await partition.append(finished(number))
        if number % 3 == 0:
            await partition.checkpoint()
        reports.append(await verify(partition.reader()))

    assert all(report.passed for report in reports)
