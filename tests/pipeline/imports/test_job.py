"""Recorded metadata into logs: what they answer, event for event, once and again."""

import asyncio
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.models.actors.local_world import CLUSTER
from tests.models.pipeline.imported_logs import (
    RECORDED,
    assert_answers,
    import_now,
    lines_of,
    logs_in,
    stored_batches,
)
from tests.models.storage.stored_partitions import TRACES, StoredPartition, import_trace
from tests.models.tiering.raw_batches import fields, raw_batch
from tierledger.conformance.trace import read_records
from tierledger.events import log_events as log
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.connector import URL_SETTING, load_connector

ALL_TRACES = sorted(path.parent for path in TRACES.rglob("records.jsonl.gz"))
CHURN = TRACES / "three-brokers-churn"
HISTORIES = [one for one in ALL_TRACES if one.parent.name == "histories"]
FEW_TRACES = sorted({*ALL_TRACES} - {*HISTORIES, CHURN, TRACES / "large"} | {*HISTORIES[::5]})


@pytest.mark.parametrize(
    "traces", [FEW_TRACES, pytest.param(ALL_TRACES, marks=pytest.mark.long)], ids=len
)
def test_logs_of_many_traces_answer_as_kafka_does(
    spark: SparkSession, sqlite_url: str, tmp_path: Path, traces: list[Path]
) -> None:
    # No partition is in two of them, so one import takes all.
    everything = tmp_path / "everything.jsonl"
    everything.write_bytes(b"".join(lines_of(traces)))

    found = import_now(spark, everything, sqlite_url)

    assert len(traces) > 10
    assert not [one for one in found if one.trouble or one.refused]
    assert sum(one.imported for one in found) == sum(1 for _ in lines_of(traces))
    assert_answers(sqlite_url, traces)


def test_logs_in_postgresql_answer_as_kafka_does(
    spark: SparkSession, postgres_url: str
) -> None:
    import_now(spark, CHURN, postgres_url)

    assert_answers(postgres_url, [CHURN])


async def test_events_are_those_that_a_leader_imports_and_a_second_import_adds_none(
    spark: SparkSession, sqlite_url: str
) -> None:
    trace = TRACES / "topic-deletion"
    first = await asyncio.to_thread(import_now, spark, trace, sqlite_url)
    stored = await asyncio.to_thread(stored_batches, sqlite_url)
    logs = await asyncio.to_thread(logs_in, sqlite_url)

    again = await asyncio.to_thread(import_now, spark, trace, sqlite_url)

    expected = {}
    for partition in await import_trace(MemoryBackend(), trace):
        expected[partition.tip] = [event.body async for event in partition.reader().events()][
            1:
        ]  # Without the session, which another broker opened.
    assert {tip: [one.body for one in events][1:-1] for tip, events in logs.items()} == expected
    for events in logs.values():
        opened, closed = events[0], events[-1]
        assert isinstance(opened.body, log.SessionOpened)
        assert opened.body.import_cluster == RECORDED
        assert opened.log_time_ms <= events[1].log_time_ms
        assert isinstance(closed.body, log.SessionClosed)
    assert sum(one.dropped for one in first) == sum(
        isinstance(one, log.ImportRecordDropped)
        for bodies in expected.values()
        for one in bodies
    )
    assert {one.imported + one.batches for one in again} == {0}
    assert [one.repeated for one in again] == [one.records for one in first]
    assert await asyncio.to_thread(stored_batches, sqlite_url) == stored


async def test_a_log_that_has_moved_on_is_refused_and_the_others_go_on(
    spark: SparkSession, sqlite_url: str
) -> None:
    trace = TRACES / "one-broker"
    lines = list(lines_of([trace]))
    half = Path(sqlite_url.removeprefix("sqlite:")).with_name("half.jsonl")
    half.write_bytes(b"".join(line for line in lines if json.loads(line)["offset"] < 20))
    await asyncio.to_thread(import_now, spark, half, sqlite_url)
    before = await asyncio.to_thread(logs_in, sqlite_url)
    victim = min(before, key=str)
    await lead(sqlite_url, victim)
    led = await asyncio.to_thread(logs_in, sqlite_url)

    found = await asyncio.to_thread(import_now, spark, trace, sqlite_url)

    after = await asyncio.to_thread(logs_in, sqlite_url)
    (refused,) = [one for one in found if one.trouble]
    assert refused.name == str(victim)
    assert str(refused.trouble).startswith("moved on: session 2 has opened, of broker 1")
    assert after[victim] == led[victim]
    assert all(len(after[tip]) > len(before[tip]) for tip in before if tip != victim)


async def lead(url: str, tip: TopicIdPartition) -> None:
    """Open a session as a leader does."""
    connector = load_connector({URL_SETTING: url})
    backend = await connector.backend(read_only=False)
    try:
        leader = await StoredPartition.resumed(backend, tip, CLUSTER)
        await leader.open()
    finally:
        await backend.close()


BAD = '{"partition":0,"offset":%d,"timestamp_ms":5,"key_hex":null,"value_hex":%s}\n'


def test_what_cannot_be_decoded_is_named_and_nothing_else_waits_for_it(
    spark: SparkSession, sqlite_url: str, tmp_path: Path
) -> None:
    lines = [json.loads(line) for line in lines_of([TRACES / "one-broker"])]
    spoiled = lines[7]
    spoiled["value_hex"] = spoiled["value_hex"][:-4]
    bad = tmp_path / "bad.jsonl"
    last = max(line["offset"] for line in lines if line["partition"] == 0)
    with bad.open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        file.write(BAD % (last + 1, "null"))
        file.write(BAD % (last + 4, '"ff"'))
        file.write(BAD % (last + 5, f'"010001{spoiled["value_hex"][6:]}"'))
        file.write("not JSON: a line\n")

    found = import_now(spark, bad, sqlite_url)

    strays = found.pop()
    named = {where: why for one in found for where, why in one.refused_records.items()}
    place = f"metadata partition {spoiled['partition']}, offset {spoiled['offset']}"
    assert list(named) == [place]
    assert sum(one.imported for one in found) == len(lines) - 1
    assert strays.topic_id is None
    assert (strays.records, strays.refused, strays.dropped) == (4, 3, 1)
    places = list(strays.refused_records)
    assert strays.dropped_by_reason == {"a null value": 1}  # A compacted topic forgets a key.
    newer = strays.refused_records[f"metadata partition 0, offset {last + 5}"]
    assert newer == "position 2: expected version of api key 0 0, found 1"
    assert any(str(bad) in one and ", byte " in one for one in places)
    assert strays.missing == {"metadata partition 0": 2}


def test_in_segment_files_what_compaction_removed_is_missing_and_the_undecodable_is_named(
    spark: SparkSession, sqlite_url: str, tmp_path: Path
) -> None:
    values = [one.value for one in read_records(TRACES / "one-broker") if one.partition == 0][
        :8
    ]
    records = [fields(at if at < 3 else at + 2, value=value) for at, value in enumerate(values)]
    log = raw_batch(0, records, last_delta=11) + raw_batch(12, [], last_delta=2)
    bad = raw_batch(15, [fields(0), fields(1)], codec=4, compress=lambda _: b"no zstd")
    folder = tmp_path / "topic" / "__remote_log_metadata-0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000000.log").write_bytes(log + bad)

    found = import_now(spark, tmp_path / "topic", sqlite_url)

    strays = found.pop()
    assert sum(one.imported for one in found) == len(values)
    # 3, 4 and 10, 11 within the first batch; then an emptied batch, which kept its offsets.
    assert strays.missing == {"metadata partition 0": 2 + 2 + 3}
    (named,) = strays.refused_records
    assert named == "metadata partition 0, offset 15"
    assert "the records from offset 15 to 16" in strays.refused_records[named]


def test_a_partition_that_two_metadata_partitions_hold_is_refused_with_both_named(
    spark: SparkSession, sqlite_url: str, tmp_path: Path
) -> None:
    lines = [json.loads(line) for line in lines_of([TRACES / "one-broker"])]
    moved = {**lines[-1], "partition": 40, "offset": 3}
    twice = tmp_path / "twice.jsonl"
    twice.write_text("".join(json.dumps(line) + "\n" for line in [*lines, moved]))

    found = import_now(spark, twice, sqlite_url)

    (refused,) = [one for one in found if one.trouble]
    assert f"partitions {lines[-1]['partition']} and 40 both" in str(refused.trouble)
    assert refused.imported == 0
    assert len(found) > 1
    assert {str(tip) for tip in logs_in(sqlite_url)} == {
        one.name for one in found if one is not refused
    }


def test_a_torn_recording_writes_nothing(
    spark: SparkSession, sqlite_url: str, tmp_path: Path
) -> None:
    torn = tmp_path / "records.jsonl.gz"
    torn.write_bytes((CHURN / "records.jsonl.gz").read_bytes()[:-2000])

    with pytest.raises(Exception, match="expected a whole gzip stream"):
        import_now(spark, torn, sqlite_url)

    assert stored_batches(sqlite_url) == {}
