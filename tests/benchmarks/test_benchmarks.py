"""The benchmarks run at sizes that measure nothing, and print their figures."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tierledger.benchmarks.__main__ import PARTS, main, measured, summary
from tierledger.benchmarks.report import Figure, Goal, Sided, json_line, ratio, table
from tierledger.benchmarks.scale import POSTGRESQL, SQLITE, Bench, Scale

TINY = Scale(
    segments=600,
    small=100,
    medium=200,
    replayed=60,
    lookups=100,
    tail=40,
    repetitions=1,
    commits=3,
    calls=64,
    ray_calls=160,
    idle=60,
    lags=20,
    announced=20,
    coordinated=12,
    failover_segments=100,
    failovers=1,
    simulated=100,
    rows=3_000,
    worlds=2,
    tier_segments=300,
    tier_entries=50,
    tier_bytes=1 << 21,
    kafka_calls=40,
    kafka_many=64,
    kafka_partitions=3,
    spark_events=400,
    spark_partitions=4,
    spark_large=400,
    spark_imported=200,
    spark_sizes=(200,),
    spark_repetitions=1,
)

GOALS_OF = {
    "replay": 1,
    "lookup": 2,
    "commit": 4,
    "checkpoint": 1,
    "cold-start": 2,
    "cli-lookup": 1,
    "neighbour": 1,
    "steps": 16,
    "feed": 7,
    "service": 0,
    "world": 1,
    "machines": 4,
    "tier-requests": 4,
    "tier-index-cache": 2,
    "tier-read": 2,
    "tier-scrub": 0,
}

ON_RAY = [
    ("followers", (POSTGRESQL,), 1),
    ("announce", (SQLITE,), 1),
    ("failover", (POSTGRESQL,), 2),
    ("door", (SQLITE,), 8),
    ("tier-retention", (SQLITE,), 2),
]
"""Parts that start Ray (tests/ray/test_benchmarks.py), on which stores, and how many goals."""


ON_SPARK = {"spark-scan": 2, "spark-tables": 3, "spark-import": 1, "spark-retention": 2}
"""Parts that start Spark (tests/pipeline/test_benchmarks.py), and how many goals they have."""


ON_KAFKA = {"kafka-calls": 10, "kafka-one": 7, "kafka-many": 1}
"""Parts that start a broker (tests/kafka/test_benchmarks.py), and how many goals they have."""


def rendered(figures: list[Figure]) -> str:
    console = Console(width=200, file=io.StringIO())
    with console.capture() as capture:
        console.print(table(figures))
    return capture.get()


@pytest.mark.parametrize("part", GOALS_OF)
def test_a_part_gives_its_figures_and_shows_each(part: str, tmp_path: Path) -> None:
    figures = list(measured(Bench(TINY, tmp_path, lambda _: None), [part]))

    assert sum(figure.goal is not None for figure in figures) == GOALS_OF[part]
    assert all(figure.value > 0 for figure in figures)
    text = rendered(figures)
    assert all(figure.name in text for figure in figures)


def test_every_part_is_tried_here() -> None:
    assert {*PARTS} == {*GOALS_OF, *ON_SPARK, *ON_KAFKA, *(part for part, _, _ in ON_RAY)}


def test_parts_that_share_a_store_can_follow_one_another(tmp_path: Path) -> None:
    told: list[str] = []

    figures = list(
        measured(
            Bench(TINY, tmp_path, told.append),
            ["checkpoint", "commit", "lookup", "neighbour", "feed"],
        )
    )

    assert len(figures) == 26
    assert sum(line.startswith("building 600 segments: 0 %") for line in told) == 1


def test_the_cold_start_finds_what_lies_behind_the_checkpoint(tmp_path: Path) -> None:
    (first, *_) = measured(Bench(TINY, tmp_path, lambda _: None), ["cold-start"])

    assert first.detail == "600 segments, 40 events behind"


def test_a_figure_at_its_bound_reaches_its_goal() -> None:
    figures = [
        Figure("soon", 5.0, "s", Goal(5.0)),
        Figure("late", 5.1, "s", Goal(5.0)),
        Figure("many", 5.0, "events/s", Goal(5.0, at_least=True)),
        Figure("few", 4.9, "events/s", Goal(5.0, at_least=True)),
        Figure("so what", 1234.5, "x"),
    ]

    lines = rendered(figures).splitlines()

    line_of = {
        name: line for line in lines for name in ("soon", "late", "many", "few") if name in line
    }
    assert "<= 5 s" in line_of["soon"]
    assert "reached" in line_of["soon"]
    assert "missed" in line_of["late"]
    assert ">= 5 events/s" in line_of["many"]
    assert "reached" in line_of["many"]
    assert "missed" in line_of["few"]
    assert "2 of 4 goals reached, in 3 s" in summary(figures, 3.2)


def test_a_ratio_shows_what_it_compares() -> None:
    figure = ratio("large to small", Sided(1_000_000, 30.0, "ms"), Sided(10, 20.0, "ms"), 3.0)

    assert figure.value == 1.5
    assert figure.detail == "30 ms at 1,000,000; 20 ms at 10"


def test_a_line_of_json_has_four_fields() -> None:
    with_goal = json.loads(json_line(Figure("lookup", 2.5, "µs", Goal(5.0), "whatever")))
    without = json.loads(json_line(Figure("adds", 9.0, "events/s")))

    assert with_goal == {"name": "lookup", "value": 2.5, "unit": "µs", "goal": 5.0}
    assert without == {"name": "adds", "value": 9.0, "unit": "events/s", "goal": None}


def test_a_part_that_there_is_none_of_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["warp"])

    assert stopped.value.code == 2
    assert "cold-start" in capsys.readouterr().err
