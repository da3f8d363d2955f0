"""Both engines make the same rows, files, numbers, pages and statuses."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from tests.models.cli.base_install import run_in_base
from tests.models.cli.command_line import HOSTILE, Write, orders, others, run, write
from tests.models.pipeline.folded_tables import REAL_TRACES, imported, plan, rows_of
from tests.models.pipeline.planted_coverage import Segment, bodies
from tests.models.storage.stored_partitions import TRACES, StoredPartition, added, import_trace
from tierledger.cli.commands.jobs.groups import EVENTS
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline import engine
from tierledger.pipeline.engine import EVENTS_PER_LOG, is_small
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.frames import Damage, costs
from tierledger.pipeline.jobs.coverage.job import CoverageDigest
from tierledger.pipeline.prices import read_prices
from tierledger.pipeline.tables.costs import costs_table
from tierledger.pipeline.tables.files import FORMATS
from tierledger.pipeline.tables.plan import TABLES
from tierledger.storage.backends.sqlite.backend import SqliteBackend

NOW = "2033-05-18T03:33:20Z"
DEPLOY = Path(__file__).parents[2] / "deploy"
JOBS: dict[str, list[Any]] = {
    "audit": ["--tier", "memory:", "--now", NOW],
    "coverage": [],
    "stuck": ["--now", NOW],
    "costs": ["--prices", DEPLOY / "prices.toml"],
    "retention": ["--what-if", "retention.ms=1000000,retention.bytes=30000", "--now", NOW],
}
CORE = (EVENTS, "segments", "epochs", "anomalies", *JOBS)
"""Tables that stand for the others, whose rows test_formats.py and test_answers.py compare."""
HISTORIES = sorted(f"histories/{one.name}" for one in (TRACES / "histories").iterdir())
TRACE_NAMES = {
    "some": ["custom-metadata-over-limit", "one-broker", "topic-deletion", *HISTORIES[:6]],
    "every": sorted({*REAL_TRACES, *HISTORIES}),
}


async def damaged(backend: SqliteBackend) -> None:
    """Holes and orphans of a hostile name, and a log that ends in damage."""
    hostile = await StoredPartition.led(
        backend, TopicIdPartition(Uuid(b"h" * 16), 7, HOSTILE + ',"')
    )
    log = [Segment(2, 29, {0: 20}), Segment(3, 49, {0: 25, 2: 40}), Segment(4, 49, {1: 40})]
    await hostile.append([*bodies([Segment(0, 9, {0: 0}), *log]), added(9, 50, 59)])
    tip = TopicIdPartition(Uuid(b"d" * 16), 3, "damaged")
    partition = await StoredPartition.led(backend, tip)
    await partition.append(bodies([Segment(0, 9, {0: 0})]))
    await partition.append(bodies([Segment(1, 19, {0: 10})]))
    await partition.flip(2)


@pytest.fixture(scope="module", params=["some", pytest.param("every", marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces in one store, and what no trace has."""
    path = tmp_path_factory.mktemp("engines") / "store"

    async def traces(backend: SqliteBackend) -> None:
        for trace in TRACE_NAMES[request.param]:
            await import_trace(backend, TRACES / trace)

    write(path, traces, damaged, others)
    return path


def asked(
    store: Path, folder: Path, name: str, engine_name: str, *more: object
) -> tuple[Result, Path]:
    out = folder / engine_name
    arguments = ["spark", name, "--out", out, "--engine", engine_name, "--json", *more]
    return run(store, *arguments), out


def told(result: Result) -> dict[str, Any]:
    """The output of a command without its paths."""
    found: dict[str, Any] = json.loads(result.stdout)
    return {name: one for name, one in found.items() if name not in {"out", "page"}}


def plain(values: object) -> object:
    """Without the order of maps, which Java has of its own."""
    return sorted(values.items()) if isinstance(values, dict) else values


def rows_in(out: Path, kind: str) -> list[str]:
    """The rows of a folder as text, without their order; as they are in files of text."""
    if kind == "parquet":
        rows = pq.read_table(out).to_pylist(maps_as_pydicts="strict")
    else:
        files = [one.read_bytes().decode() for one in out.glob("part-*")]
        lines = [line for one in files for line in one.split("\n")[:-1]]
        if kind == "csv":  # Each file has a heading.
            return [lines[0], *sorted(line for line in lines if line != lines[0])]
        rows = list(map(json.loads, lines))
    return sorted(str([(name, plain(one)) for name, one in row.items()]) for row in rows)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=[] if one in CORE else [pytest.mark.long])
        for one in (EVENTS, *TABLES, *JOBS)
    ],
)
def test_both_engines_make_the_same_rows_and_say_the_same(
    spark: SparkSession, store: Path, tmp_path: Path, name: str
) -> None:
    """A job's pages are the same, too, but for the engines' names."""
    (here, out), (there, theirs) = (
        asked(store, tmp_path, name, engine_name, *_more(tmp_path, name, engine_name))
        for engine_name in ("local", "spark")
    )

    assert here.exit_code == there.exit_code == 3, here.output + there.output
    assert told(here) == told(there)
    assert here.stderr == there.stderr
    assert spark.read.parquet(str(out)).schema == spark.read.parquet(str(theirs)).schema
    rows = rows_in(out, "parquet")
    assert len(rows) > 10 or name == "trash"
    assert rows == rows_in(theirs, "parquet")
    if name in JOBS:
        ours, its = (_page(tmp_path, engine_name) for engine_name in ("local", "spark"))
        assert ">local<" in ours
        assert ours.replace(">local<", ">spark<") == its


def test_a_frame_of_costs_has_the_same_rows(spark: SparkSession, store: Path) -> None:
    prices = read_prices(DEPLOY / "prices.toml")
    job = plan(costs_table(prices), JobStore.of(f"sqlite:{store}"))
    damage = Damage(spark)

    frame = costs(spark, f"sqlite:{store}", prices, damage=damage).toArrow().to_pylist()

    assert sorted(map(str, frame)) == sorted(map(str, rows_of(job, [])))
    assert len(damage.logs()) == 1


def _more(folder: Path, name: str, engine_name: str) -> list[object]:
    return [*JOBS[name], "--page", folder / f"{engine_name}.html"] if name in JOBS else []


def _page(folder: Path, engine_name: str) -> str:
    """A job's page without the time at which it was made."""
    page = (folder / f"{engine_name}.html").read_text("utf-8")
    return re.sub(r"made [\d-]+T[\d:]+Z", "", page)


@pytest.mark.parametrize("kind", sorted({*FORMATS} - {"parquet"}))
@pytest.mark.parametrize(
    "name",
    [
        "segments",
        *(
            pytest.param(one, marks=pytest.mark.long)
            for one in (EVENTS, "anomalies", "coverage")
        ),
    ],
)
@pytest.mark.usefixtures("spark")
def test_both_engines_write_the_same_text(
    store: Path, tmp_path: Path, name: str, kind: str
) -> None:
    outs = [
        asked(store, tmp_path, name, engine_name, "--format", kind)[1]
        for engine_name in ("local", "spark")
    ]

    here, there = (rows_in(one, kind) for one in outs)

    assert here == there
    assert not any("\r" in row or row.startswith('"') for row in here)


def test_a_digest_is_the_same_whichever_task_had_which_partition(tmp_path: Path) -> None:
    """As several tasks of Spark give it, and with fewer rows kept than there are."""
    store, _ = imported(tmp_path / "s", "three-brokers-churn")
    rows = [
        row
        for chunk in plan(TABLES["segments"], store)
        .fold(None)
        .run(plan("segments", store).logs)
        for row in chunk.rows()
    ]
    assert len(rows) > 10
    ranges = [
        row
        | {
            "kind": ("covered", "hole", "orphaned_epoch", "overlap")[at % 4],
            "leader_epoch": 0,
            "segments": 1,
        }
        for at, row in enumerate(rows)
    ]

    whole = CoverageDigest(5, 2, 7)
    parts = [CoverageDigest(5, 2, 7) for _ in range(3)]
    joined = CoverageDigest(5, 2, 7)
    for row in ranges:
        whole.take(row)
        parts[row["partition"] % 3].take(row)
    for part in parts:
        joined.join(part)

    assert (whole.totals, whole.partitions) == (joined.totals, joined.partitions)
    assert whole.worst() == joined.worst()
    assert whole.strips() == joined.strips()
    assert sum(len(one.rows) for one in whole.strips()) == 7


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LOCAL_EVENTS_MAX", 41 + EVENTS_PER_LOG)


async def forty(backend: SqliteBackend) -> None:
    """A log of 41 events in two batches."""
    await _opened_with(backend, 40)


async def one_more(backend: SqliteBackend) -> None:
    await _opened_with(backend, 41)


async def _opened_with(backend: SqliteBackend, count: int) -> None:
    partition = await StoredPartition.led(backend)
    await partition.append([added(number, number, number) for number in range(count)])


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize(("events", "is_so"), [(forty, True), (one_more, False)])
def test_a_store_is_small_up_to_the_limit(tmp_path: Path, events: Write, is_so: bool) -> None:
    write(tmp_path / "s", events)
    made = plan("segments", JobStore.of(f"sqlite:{tmp_path / 's'}"))

    assert asyncio.run(is_small(made.store, made.logs)) == is_so


@pytest.mark.usefixtures("limit", "spark")
@pytest.mark.parametrize(("events", "expected"), [(forty, "local"), (one_more, "spark")])
def test_the_stores_size_chooses_the_engine(
    tmp_path: Path, events: Write, expected: str
) -> None:
    write(tmp_path / "s", events)
    page = tmp_path / "page.html"

    run(tmp_path / "s", "jobs", "coverage", "--page", page)

    assert f">{expected}<" in page.read_text("utf-8")


def test_a_small_store_needs_no_extra_but_for_parquet(tmp_path: Path) -> None:
    write(tmp_path / "s", orders)
    program = "from tierledger.cli.main import main\nmain()"
    arguments = ["tables", "segments", "--store", f"sqlite:{tmp_path / 's'}"]

    text = run_in_base(program, *arguments, "--out", str(tmp_path / "text"), "--format", "csv")
    parquet = run_in_base(program, *arguments, "--out", str(tmp_path / "parquet"))

    assert (text.returncode, text.stderr) == (0, "")
    assert parquet.returncode == 2
    assert "this needs pyarrow" in parquet.stderr
    assert "the extra spark" in parquet.stderr
    assert not (tmp_path / "parquet").exists()


def test_a_small_store_is_answered_without_loading_what_spark_needs(tmp_path: Path) -> None:
    write(tmp_path / "s", orders)
    heavy = ("pyspark", "py4j", "pandas", "numpy", "pyarrow", "obstore", "ray")
    program = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print(*[one for one in {heavy} if one in sys.modules]))\n"
        "from tierledger.cli.main import main\nmain()"
    )
    for name, more in JOBS.items():
        if name == "audit":  # It asks a tier, which takes obstore.
            continue
        arguments = ["spark", name, *more, "--store", f"sqlite:{tmp_path / 's'}"]
        done = run_in_base(program, *arguments)
        assert done.stdout.splitlines()[-1] == "", name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["coverage", "--engine", "java"], "--engine: expected one of auto, local, spark"),
        (
            ["coverage", "--engine", "local", "--master", "local[1]"],
            "--master: expected with Spark only, got 'local[1]' and --engine local",
        ),
    ],
)
def test_an_engine_that_cannot_be_is_refused(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    write(tmp_path / "s", orders)

    result = run(tmp_path / "s", "spark", *arguments)

    assert result.exit_code == 2
    assert message in result.stderr
