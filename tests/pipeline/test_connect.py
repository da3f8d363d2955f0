"""Spark Connect: a server does what a Spark in this process does, by the same calls."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from enum import StrEnum
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.models.cli.command_line import invoke, orders, write
from tests.models.pipeline.folded_tables import plan, rows_of
from tests.models.pipeline.imported_logs import assert_answers, import_now
from tests.models.spark.rows import read, read_here, rows
from tests.models.spark.tier import BROKERS_TIER, import_metadata
from tests.models.storage.stored_partitions import TRACES
from tests.pipeline.test_engines import JOBS, asked, damaged, rows_in, told
from tierledger.cli.commands.jobs.groups import EVENTS
from tierledger.events.errors import NoSuchStore, NotReady
from tierledger.pipeline import frames
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.session import CONNECT_MODE, check_master, own_session
from tierledger.pipeline.source.schema import DEFAULT_SCHEMA, EVENT_SCHEMA
from tierledger.pipeline.spark_tasks import cores_of, followed
from tierledger.pipeline.tables.plan import TABLES

TRACE = TRACES / "topic-deletion"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The store of a tier, as its broker wrote both."""
    url = f"sqlite:{tmp_path_factory.mktemp('connect') / 'store'}"
    asyncio.run(import_metadata(url))
    return url


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of many kinds, one of them damaged."""
    path = tmp_path_factory.mktemp("connect") / "damaged"
    write(path, orders, damaged)
    return path


def test_events_are_read_in_batches(connected: SparkSession, url: str) -> None:
    found = read(connected, url, rows_per_task="20")

    assert found.schema == DEFAULT_SCHEMA
    expected = read_here(url)
    for row in expected:  # Spark has maps as such.
        row["leader_epochs"] = row["leader_epochs"] and dict(row["leader_epochs"])
    assert (
        rows(frames.events(connected, url, columns=EVENT_SCHEMA.fieldNames()).collect())
        == expected
    )
    assert found.count() == len(expected)


def test_events_are_read_as_a_stream(connected: SparkSession, url: str, tmp_path: Path) -> None:
    for _ in range(2):
        stream = connected.readStream.format("tierledger").option("store", url).load()
        writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = (
            writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    delivered = connected.read.parquet(str(tmp_path / "out"))
    assert delivered.count() == len(read_here(url))


def test_records_are_read_from_the_tier(connected: SparkSession, url: str) -> None:
    reading = connected.read.format("tierledger.records").options(store=url, tier=BROKERS_TIER)

    found = reading.option("topic", "codec-none").load()

    of_one = found.where("partition = 0").selectExpr("min(offset)", "count(DISTINCT offset)")
    (first, count) = of_one.collect()[0]
    assert first == 0
    assert count > 100


def test_tables_are_folded_and_name_what_is_damaged(
    connected: SparkSession, store: Path
) -> None:
    damage = frames.Damage(connected)

    made = {
        name: getattr(frames, name)(connected, f"sqlite:{store}", damage=damage)
        for name in TABLES
    }

    for name, frame in made.items():
        expected = rows_of(plan(name, JobStore.of(f"sqlite:{store}")), [])
        found = [row.asDict() for row in frame.collect()]
        assert rows_as_text(found) == rows_as_text(expected)
    assert [one.topic for one in damage.logs()] == ["damaged"]


def rows_as_text(found: list[dict[str, object]]) -> list[str]:
    """Rows without their order."""
    return sorted(
        str({name: str(one) if isinstance(one, StrEnum) else one for name, one in row.items()})
        for row in found
    )


def test_what_tasks_report_is_one_text_as_servers_of_spark_4_0_send_no_array(
    connected: SparkSession, store: Path
) -> None:
    damage = frames.Damage(connected)

    frames.segments(connected, f"sqlite:{store}", damage=damage).count()

    (seen,) = damage._observed
    assert {type(one) for one in seen.get.values()} == {str}
    assert [one.topic for one in damage.logs()] == ["damaged"]


def test_a_damaged_log_fails_a_table_that_does_not_collect_damage(
    connected: SparkSession, store: Path
) -> None:
    with pytest.raises(PySparkException, match="CorruptLog"):
        frames.segments(connected, f"sqlite:{store}").count()


def test_an_import_leaves_logs_that_answer_as_kafka_does(
    connected: SparkSession, sqlite_url: str
) -> None:
    import_now(connected, TRACE, sqlite_url)

    assert_answers(sqlite_url, [TRACE])


def test_the_server_tells_its_cores_and_how_far_it_is(
    connected: SparkSession, url: str
) -> None:
    done: list[int] = []

    with followed(connected, done.append):
        read(connected, url, rows_per_task="20").count()

    assert cores_of(connected) == 2
    assert sum(done) > 1


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    "name",
    ["audit", *(pytest.param(one, marks=pytest.mark.long) for one in (EVENTS, "coverage"))],
)
def test_a_command_says_and_writes_what_it_does_on_this_machine(
    connect_url: str, store: Path, tmp_path: Path, name: str
) -> None:
    more = JOBS.get(name, [])
    here, out = asked(store, tmp_path, name, "local", *more)

    there, theirs = asked(store, tmp_path, name, "spark", "--master", connect_url, *more)

    assert here.exit_code == there.exit_code == 3, here.output + there.output
    assert told(here) == told(there)
    assert here.stderr == there.stderr
    assert rows_in(out, "parquet") == rows_in(theirs, "parquet")


def test_the_command_imports_in_a_process_without_java(
    connect_url: str, sqlite_url: str, tmp_path: Path
) -> None:
    asked = ["--master", connect_url, "--store", sqlite_url, "--cluster", "walk", "--json"]
    command = [sys.executable, "-m", "tierledger.cli.main", "jobs", "import", str(TRACE)]
    done = subprocess.run(
        [*command, *asked],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert json.loads(done.stdout)["imported"] > 0


def test_the_documented_commands_run_as_they_stand(
    connect_url: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
    commands = re.findall(r"(?m)^tierledger ((?:tables|jobs) .* --master sc://\S+)$", text)
    (tmp_path / "ledger.sqlite").symlink_to(url.removeprefix("sqlite:"))
    monkeypatch.chdir(tmp_path)

    for command in commands:
        here = command.replace("sc://localhost:15002", connect_url)
        result = invoke(*shlex.split(here.replace("$PWD", str(tmp_path))))
        assert result.exit_code == 0, result.output

    assert len(commands) == 2
    assert pq.read_table(tmp_path / "segments").num_rows == 40


def test_an_error_of_ours_at_the_server_stays_one(
    connect_url: str, url: str, tmp_path: Path
) -> None:
    with (
        pytest.raises(NoSuchStore, match="no such store"),
        own_session("x", connect_url) as one,
    ):
        read(one, f"sqlite:{tmp_path / 'none'}").count()


def test_a_session_of_a_command_ends_and_leaves_the_others(
    connected: SparkSession, connect_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CONNECT_MODE)

    with own_session("own", connect_url) as own:
        assert own is not connected

    assert CONNECT_MODE not in os.environ
    with pytest.raises(PySparkException, match="NO_ACTIVE_SESSION"):
        own.range(1).count()
    assert connected.range(3).count() == 3


def test_a_server_that_is_away_is_named_without_its_token(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match=r"answers at sc://127\.0\.0\.1:1/ .*refused") as caught:
        check_master("sc://127.0.0.1:1/;token=hidden-word")

    assert "hidden-word" not in str(caught.value)
    result = invoke("jobs", "import", TRACE, "--master", "sc://127.0.0.1:1")
    assert result.exit_code != 0
