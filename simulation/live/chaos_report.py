"""How a run under faults went: for people, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column, Table

if TYPE_CHECKING:
    from pathlib import Path

    from tierledger.simulation.live.verdict import LiveVerdict

PIPE_WIDTH = 160
"""Columns where there is no terminal."""


def print_report(verdict: LiveVerdict, history: Path | None) -> None:
    """Two tables on stdout, and every violation."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    faults = Table("fault", *_right("strikes", "median gap", "longest gap"))
    for row in verdict.faults:
        faults.add_row(
            row.fault, str(row.strikes), f"{row.median_gap_s:.1f} s", f"{row.max_gap_s:.1f} s"
        )
    console.print(faults)
    figures = Table(show_header=False)
    for name, value in _figures(verdict):
        figures.add_row(name, value)
    console.print(figures)
    for violation in verdict.violations:
        console.print(f"FAILED  {violation.checker}: {violation.message}", markup=False)
    if history is not None:
        console.print(f"history: {history}", markup=False)
    console.print(f"{len(verdict.violations)} violations")


def _right(*names: str) -> list[Column]:
    return [Column(name, justify="right") for name in names]


def _figures(verdict: LiveVerdict) -> list[tuple[str, str]]:
    well = verdict.well_after_s
    errors = ", ".join(f"{name} {count}" for name, count in verdict.errors.items())
    return [
        ("seed", str(verdict.seed)),
        ("time", f"{verdict.seconds:.0f} s"),
        ("calls", f"{verdict.calls:,}"),
        ("answered ok", f"{verdict.ok_share:.2%}"),
        ("not ok", errors or "none"),
        ("acknowledged writes", f"{verdict.ok_writes:,}"),
        ("elections", str(verdict.elections)),
        ("leadership changes", str(verdict.leadership_changes)),
        ("events in the logs", f"{verdict.events:,}"),
        ("checkpoints checked", str(verdict.checkpoints)),
        ("well after healing", "never" if well is None else f"{well:.1f} s"),
        ("time to check", f"{verdict.checking_s:.1f} s"),
    ]


def as_json(verdict: LiveVerdict, history: Path | None) -> dict[str, object]:
    """The same as one document."""
    return {
        **verdict._asdict(),
        "ok_share": round(verdict.ok_share, 5),
        "faults": [row._asdict() for row in verdict.faults],
        "violations": [
            {
                "checker": one.checker,
                "partition": None if one.key is None else one.key.partition,
                "message": one.message,
                "operations": list(one.operations),
            }
            for one in verdict.violations
        ],
        "history": None if history is None else str(history),
    }
