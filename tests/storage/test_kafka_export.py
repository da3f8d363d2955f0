"""An export has the records that Kafka would have written: they give the same answers."""

from pathlib import Path

import pytest

from tests.models.events.recorded_answers import answer_all
from tests.models.storage.stored_partitions import (
    TRACES,
    StoredPartition,
    finished,
    import_trace,
)
from tierledger.conformance.answers import read_answers, read_questions
from tierledger.conformance.trace import TraceRecord, answers_path, read_records
from tierledger.conformance.verdicts import check
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.codec import decode
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.kafka_export import exported_records


async def exported(
    partitions: list[StoredPartition], partition_count: int
) -> list[TraceRecord]:
    readers = [partition.reader() for partition in partitions]
    return [
        TraceRecord(record.partition, record.offset, record.timestamp_ms, record.value)
        async for record in exported_records(readers, partition_count)
    ]


@pytest.mark.parametrize(
    "trace",
    [path.parent for path in sorted(TRACES.rglob("records.jsonl.gz"))],
    ids=lambda path: str(path.relative_to(TRACES)),
)
async def test_an_imported_trace_gives_kafkas_answers_again(trace: Path) -> None:
    partitions = await import_trace(MemoryBackend(), trace, batch=100)

    records = await exported(partitions, 50)

    questions = [one for one in read_questions(answers_path(trace)) if one.after is None]
    kafka = [one for one in read_answers(answers_path(trace)) if one.question.after is None]
    ours = list(answer_all(records, questions))
    report = check(list(read_records(trace)), kafka, ours)
    assert report.findings == ()
    assert report.passed or not questions


@pytest.mark.parametrize(
    ("trace", "partition_count"),
    [("one-broker", 3), ("custom-metadata", 3), ("topic-deletion", 3), ("large", 8)],
)
async def test_a_trace_of_which_nothing_was_dropped_comes_back_byte_by_byte(
    trace: str, partition_count: int
) -> None:
    partitions = await import_trace(MemoryBackend(), TRACES / trace, batch=100)
    assert not any(partition.state.dropped for partition in partitions)

    records = await exported(partitions, partition_count)

    assert [one._replace(timestamp_ms=0) for one in records] == [
        one._replace(timestamp_ms=0) for one in read_records(TRACES / trace)
    ]


async def test_offsets_are_dense_and_logs_are_merged_in_the_order_of_their_time() -> None:
    backend = MemoryBackend()
    partitions = []
    for number in range(7):
        tip = TopicIdPartition(Uuid(bytes([number]) * 16), number, f"topic-{number}")
        partition = await StoredPartition.led(backend, tip)
        await partition.fill(range(3), step_ms=number + 1)
        partitions.append(partition)

    records = await exported(partitions, 2)

    for at in (0, 1):
        mine = [record for record in records if record.partition == at]
        assert [record.offset for record in mine] == list(range(len(mine)))
        assert [record.timestamp_ms for record in mine] == sorted(
            record.timestamp_ms for record in mine
        )
    assert len(records) == 7 * 6
    assert [record.partition for record in records] == sorted(
        record.partition for record in records
    )


async def test_sessions_are_not_kafkas() -> None:
    partition = await StoredPartition.led()
    await partition.append(finished(0))
    await partition.close()

    records = await exported([partition], 50)

    kinds = [type(decode(record.value or b"").value).__name__ for record in records]
    assert kinds == ["RemoteLogSegmentMetadata", "RemoteLogSegmentMetadataUpdate"]
