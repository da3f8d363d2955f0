"""A live topic, a broker's own segments, an import that is killed, and the command itself."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from tests.models.actors.local_world import CLUSTER, LocalWorld
from tests.models.cli.command_line import invoke
from tests.models.pipeline.imported_logs import assert_answers, import_now, stored_batches
from tests.models.storage.stored_partitions import TRACES
from tierledger.benchmarks.kafka_broker import KafkaBroker
from tierledger.conformance.answering import partition_of
from tierledger.conformance.answers import QueryResult, read_answers
from tierledger.conformance.trace import TraceRecord, answers_path, read_records
from tierledger.events.errors import InvalidArgument
from tierledger.moving.topic import reading
from tierledger.pipeline.imports.source import METADATA_TOPIC
from tierledger.pipeline.imports.topic import offsets_of, records_of
from tierledger.pipeline.imports.units import TopicRange
from tierledger.storage.connector import URL_SETTING
from tierledger.storage.kafka_brokers import KafkaBrokers

TRACE = TRACES / "three-brokers-churn"
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """A broker whose metadata topic holds a trace, in batches of all codecs, with markers."""
    with KafkaBroker() as started:
        asyncio.run(produce(started.address, list(read_records(TRACE))))
        yield started


CODECS = (None, "gzip", "snappy", "lz4", "zstd")


async def produce(address: str, records: list[TraceRecord]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    count = 1 + max(record.partition for record in records)
    await admin.create_topics([NewTopic(METADATA_TOPIC, count, 1)])
    await admin.close()
    fifth = -(-len(records) // len(CODECS))
    for number, codec in enumerate(CODECS):
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            compression_type=codec,
            # A transaction leaves a marker behind it: an offset without a record.
            transactional_id="recorder" if codec is None else None,
        )
        await producer.start()
        if codec is None:
            await producer.begin_transaction()
        for record in records[number * fifth : (number + 1) * fifth]:
            await producer.send(
                METADATA_TOPIC,
                record.value,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
        if codec is None:
            await producer.commit_transaction()
        await producer.stop()


def test_a_live_topic_is_imported_up_to_its_end_and_what_comes_later_the_next_time(
    spark: SparkSession, sqlite_url: str, broker: KafkaBroker
) -> None:
    found = import_now(spark, f"kafka:{broker.address}", sqlite_url)

    assert not [one for one in found if one.trouble or one.refused or one.missing]
    assert sum(one.imported for one in found) == sum(1 for _ in read_records(TRACE))
    assert_answers(sqlite_url, [TRACE], at_end=True)

    again = import_now(spark, f"kafka:{broker.address}", sqlite_url)
    assert sum(one.imported + one.batches for one in again) == 0


async def test_a_topic_that_ends_before_what_was_planned_is_refused(
    broker: KafkaBroker,
) -> None:
    brokers = KafkaBrokers(broker.address)
    _, end = (await offsets_of(brokers, METADATA_TOPIC))[0]
    lost = f"offset {end + 5}, and it ends at {end} by now"

    with pytest.raises(InvalidArgument, match=lost):
        async for _ in records_of(TopicRange(brokers, METADATA_TOPIC, 0, 0, end + 5)):
            pass
    async with reading(brokers) as reader:
        with pytest.raises(InvalidArgument, match=lost):
            async for _ in reader.read({0: end + 5}):
                pass


def test_segments_of_a_real_broker_make_the_same_logs_as_its_live_topic(
    spark: SparkSession, sqlite_url: str, postgres_url: str, broker: KafkaBroker
) -> None:
    import_now(spark, broker.logs, sqlite_url)
    import_now(spark, f"kafka:{broker.address}", postgres_url)

    assert_answers(sqlite_url, [TRACE], at_end=True)
    assert stored_batches(sqlite_url) == stored_batches(postgres_url)


@pytest.mark.long  # test_runs.py kills one in this process.
def test_an_import_that_is_killed_ends_as_one_that_was_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    trace = TRACES / "large"
    killed, whole = (f"sqlite:{tmp_path / name}" for name in ("killed", "whole"))
    import_now(spark, trace, whole)
    held = stored_before_the_end(killed, trace)

    found = import_now(spark, trace, killed)

    expected = stored_batches(whole)
    assert 0 < held < len(expected)
    assert 0 < sum(one.imported for one in found) < sum(one.records for one in found)
    assert stored_batches(killed) == expected


def stored_before_the_end(url: str, trace: Path) -> int:
    """Import in a process that is killed after its first step; batches that are stored then."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.pipeline.killing_connector", url, str(trace)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return len(stored_batches(url))


async def test_a_service_leads_what_was_imported(spark: SparkSession, sqlite_url: str) -> None:
    trace = TRACES / "one-broker"
    await asyncio.to_thread(import_now, spark, trace, sqlite_url)
    asked = [
        one
        for one in read_answers(answers_path(trace))
        if one.question.query == "list" and one.question.after is None
    ]
    world = LocalWorld({URL_SETTING: sqlite_url})
    await world.start()
    try:
        for one in asked:
            assert isinstance(one.outcome, QueryResult)
            manager = await world.leader(partition_of(one.question))
            listed = manager.list_remote_log_segments(partition_of(one.question))
            ids = {str(segment.remote_log_segment_id.id) async for segment in listed}
            assert ids == {segment["id"] for segment in one.outcome.value}
    finally:
        await world.stop()
    assert (
        sum(len(one.outcome.value) for one in asked if isinstance(one.outcome, QueryResult))
        > 10
    )


def test_the_command_imports_and_says_what_it_refused(
    spark: SparkSession, sqlite_url: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    lines = [
        {"partition": r.partition, "offset": r.offset, "timestamp_ms": r.timestamp_ms}
        | {"value_hex": (r.value or b"").hex()}
        for r in read_records(TRACES / "one-broker")
    ]
    lines[3]["value_hex"] = "00"
    bad.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "out"
    arguments = ["jobs", "import", str(bad), "--store", sqlite_url, "--cluster", CLUSTER]

    result = invoke(*arguments, "--json", "--out", out, "--format", "csv")

    assert result.exit_code == 3, result.output
    report = json.loads(result.stdout)
    assert report["imported"] == len(lines) - 1
    assert report["records_refused"] == 1
    ((place, _),) = report["refused_records"]
    assert place == f"metadata partition {lines[3]['partition']}, offset {lines[3]['offset']}"
    assert place in result.stderr
    table = spark.read.option("header", "true").csv(str(out))
    assert table.count() == report["partitions"] + 1
