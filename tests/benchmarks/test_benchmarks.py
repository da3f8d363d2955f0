"""The benchmarks run at sizes that measure nothing, and print their figures."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tierledger.benchmarks.__main__ import main, measured, summary
from tierledger.benchmarks.bench import POSTGRESQL, SIZES, SQLITE, Bench
from tierledger.benchmarks.report import Figure, Goal, Row, figures, json_line, table
from tierledger.benchmarks.scenarios import SCENARIOS

TINY = max(full for full, _ in SIZES.values()) + 1
"""So small a part of the sizes that each is the least it can be."""

GOALS_OF = {
    "import": 1,
    "replay": 1,
    "lookup": 2,
    "commit": 4,
    "checkpoint": 1,
    "cold-start": 2,
    "trash": 1,
    "backup": 2,
    "bucket": 4,
    "bucket-reads": 4,
    "cli-lookup": 1,
    "neighbour": 1,
    "steps": 16,
    "feed": 7,
    "path": 1,
    "service": 0,
    "world": 1,
    "worlds": 4,
    "tier-requests": 4,
    "tier-index-cache": 2,
    "tier-read": 2,
    "tier-scrub": 0,
}

ON_RAY = [
    ("followers", (POSTGRESQL,), 1),
    ("announce", (SQLITE,), 1),
    ("announce-all", (SQLITE,), 2),
    ("failover", (POSTGRESQL,), 2),
    ("restart", (POSTGRESQL,), 2),
    ("door", (SQLITE,), 8),
    ("console", (SQLITE,), 6),
    ("tier-retention", (SQLITE,), 2),
]
"""Parts that start Ray (tests/ray/test_benchmarks.py), on which stores, and how many goals."""


ON_SPARK = {
    "spark-scan": 2,
    "spark-tables": 3,
    "spark-import": 1,
    "spark-retention": 2,
    "tables-columns": 7,
}
"""Parts that start Spark (tests/pipeline/test_benchmarks.py), and how many goals they have."""


ON_KAFKA = {
    "kafka-calls": 10,
    "kafka-one": 7,
    "kafka-many": 1,
    "guard-calls": 4,
    "guard-topics": 4,
}
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
    assert {*SCENARIOS} == {*GOALS_OF, *ON_SPARK, *ON_KAFKA, *(part for part, _, _ in ON_RAY)}


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


def test_a_row_shows_medians_and_compares_two() -> None:
    rows = [
        Row(
            "large to small of {rows:,}", "x", "large / small", Goal(3.0), "{large}; {small} ms"
        ),
        Row("not measured here", "s", "nothing"),
        Row("step: {sample}", "ms", "*"),
    ]
    samples = {"large": [90.0, 30.0, 10.0], "small": [20.0]}

    compared, *steps = figures(rows, samples, {"rows": 1_000})

    assert compared == Figure("large to small of 1,000", 1.5, "x", Goal(3.0), "30; 20 ms")
    assert [one.name for one in steps] == ["step: large", "step: small"]
    assert [one.value for one in steps] == [30.0, 20.0]


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
