"""Damage of every kind is found, named and counted; what is right passes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.stored_partitions import (
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


async def written() -> tuple[MemoryBackend, StoredPartition]:
    backend = MemoryBackend()
    partition = StoredPartition(backend)
    await partition.open()
    for number in range(20):
        await partition.append(finished(number))
    await partition.append([updated(3, 2), updated(3, 3)])
    await partition.checkpoint()
    await partition.append(finished(20))
    return backend, partition


@pytest.mark.parametrize("trace", ["one-broker", "three-brokers-churn", "topic-deletion"])
async def test_what_was_written_passes(trace: str, tmp_path: Path) -> None:
    backend = await SqliteBackend.open(tmp_path / "store.sqlite")
    partitions = await import_trace(backend, TRACES / trace)
    counted: list[int] = []

    reports = [await verify(partition.reader(), counted.append) for partition in partitions]

    assert [report.findings for report in reports] == [()] * len(partitions)
    assert sum(counted) == sum(report.events for report in reports)
    assert all(report.checkpoint_position is not None for report in reports)
    await backend.close()


def flip(backend: MemoryBackend, key: str) -> None:
    damaged = bytearray(backend.values[key])
    damaged[-1] ^= 1
    backend.values[key] = bytes(damaged)


def page(partition: StoredPartition, table: str, epoch: int = 0) -> str:
    return partition.keys.leader_epoch_page(partition.tip, epoch, table, 0)


def other_row(partition: StoredPartition) -> bytes:
    row = partition.state.rows.get(segment_id(7))
    assert row is not None
    fields = unpack_row(row)
    fields[SIZE] += 1
    return SERDE.serialize_row(pack_row(fields))


DAMAGES: dict[str, Callable[[MemoryBackend, StoredPartition], object]] = {
    "a row with another size": lambda backend, partition: backend.values.update(
        {partition.keys.segment(partition.tip, segment_id(7)): other_row(partition)}
    ),
    "a row that is gone": lambda backend, partition: backend.values.pop(
        partition.keys.segment(partition.tip, segment_id(7))
    ),
    "a row too many": lambda backend, partition: backend.values.update(
        {
            partition.keys.segment(partition.tip, segment_id(99)): SERDE.serialize_row(
                pack_row(
                    [
                        segment_id(99),
                        *unpack_row(partition.state.rows.get(segment_id(7)) or b"")[1:],
                    ]
                )
            )
        }
    ),
    "a flipped row": lambda backend, partition: flip(
        backend, partition.keys.segment(partition.tip, segment_id(7))
    ),
    "a flipped page": lambda backend, partition: flip(backend, page(partition, "referenced")),
    "a page that is gone": lambda backend, partition: backend.values.pop(
        page(partition, "tombstones")
    ),
    "a flipped epoch": lambda backend, partition: flip(
        backend, partition.keys.leader_epoch(partition.tip, 0)
    ),
    "a flipped partition value": lambda backend, partition: flip(
        backend, partition.keys.partition(partition.tip)
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_checkpoint_is_found(damage: str) -> None:
    backend, partition = await written()
    DAMAGES[damage](backend, partition)

    report = await verify(partition.reader())

    assert {finding.kind for finding in report.findings} == {FindingKind.CHECKPOINT}
    assert report.events == partition.state.next_position


async def test_a_checkpoint_of_another_history_is_found_down_to_the_segment() -> None:
    backend, partition = await written()
    other = StoredPartition(MemoryBackend())
    await other.open()
    for number in range(20):
        await other.append(finished(number if number != 7 else 70))
    await other.append([updated(3, 2), updated(3, 3)])
    # Honest in itself, with proofs and a digest, but not of this log.
    other.partition_value = partition.partition_value
    store = CheckpointStore(backend, partition.keys, SERDE, partition.tip)
    draft = store.freeze(other.state, other.next_batch, whole=True)
    plan = await store.plan_in_slices(draft, partition.partition_value)
    await backend.execute_atomically(plan.operations)

    report = await verify(partition.reader())

    text = " ".join(finding.message for finding in report.findings)
    assert not report.passed
    assert "chain hash" in text
    assert "1 segments are missing or differ" in text
    assert "1 segments should not be there" in text
    assert "referenced" in text


@pytest.mark.parametrize("batch", [0, 1, 9])
async def test_a_damaged_batch_is_found_and_the_events_before_are_counted(batch: int) -> None:
    backend, partition = await written()
    flip(backend, partition.keys.log_batch(partition.tip, batch))

    report = await verify(partition.reader())

    assert report.findings[0].kind == FindingKind.LOG
    assert report.batches == batch


async def test_a_missing_batch_is_found() -> None:
    backend, partition = await written()
    del backend.values[partition.keys.log_batch(partition.tip, 5)]

    report = await verify(partition.reader())

    assert [finding.kind for finding in report.findings] == [FindingKind.LOG]


async def test_a_batch_of_another_partition_is_found() -> None:
    backend, partition = await written()
    other_backend = MemoryBackend()
    other = StoredPartition(other_backend, cluster="another")
    await other.open()
    for number in range(6):
        await other.append(finished(number))
    backend.values[partition.keys.log_batch(partition.tip, 5)] = other_backend.values[
        other.keys.log_batch(other.tip, 5)
    ]

    report = await verify(partition.reader())

    assert report.findings[0].kind == FindingKind.LOG
    assert "predecessor" in report.findings[0].message


async def test_a_checkpoint_beyond_the_log_is_found() -> None:
    backend, partition = await written()
    for number in range(partition.next_batch - 3, partition.next_batch):
        del backend.values[partition.keys.log_batch(partition.tip, number)]

    report = await verify(partition.reader())

    assert [finding.kind for finding in report.findings] == [FindingKind.LOG]
    assert f"batch {partition.next_batch - 3} is missing" in report.findings[0].message


async def commit(
    partition: StoredPartition, session: int, time_ms: int, body: log.Body
) -> None:
    position = partition.state.next_position
    await partition.commit([log.Event(position, session, time_ms, 1, None, body)])


async def test_events_that_go_back_in_time_or_session_are_found() -> None:
    partition = StoredPartition(MemoryBackend())
    await partition.open()
    await partition.open()
    await commit(partition, 2, TIME_MS - 1, finished(0)[0])
    await commit(partition, 1, TIME_MS, finished(1)[0])

    report = await verify(partition.reader())

    found = [(finding.kind, finding.position) for finding in report.findings]
    assert found == [(FindingKind.TIME, 2), (FindingKind.REPLAY, 3)]


async def test_an_event_that_nothing_can_apply_is_found() -> None:
    partition = StoredPartition(MemoryBackend())
    await partition.open()
    stray = updated(1, 1)
    value = log.Event(1, 1, TIME_MS, 1, None, stray)
    await append_unapplied(partition, value)

    report = await verify(partition.reader())

    assert [finding.kind for finding in report.findings] == [FindingKind.LOG]
    assert "unknown" in report.findings[0].message


async def append_unapplied(partition: StoredPartition, event: log.Event) -> None:
    batch = encode_batch(SERDE, [event], partition.state.chain_hash)
    await partition.backend.create(
        partition.keys.log_batch(partition.tip, partition.next_batch), batch.value
    )


async def test_verifying_while_a_writer_renews_the_checkpoint_finds_nothing() -> None:
    _, partition = await written()
    reports: list[VerificationReport] = []

    for number in range(30, 40):
        await partition.append(finished(number))
        if number % 3 == 0:
            await partition.checkpoint()
        reports.append(await verify(partition.reader()))

    assert all(report.passed for report in reports)
