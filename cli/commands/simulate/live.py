"""`simulate live`: the same brokers and checkers on real processes, with real faults."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.commands.simulate.options import MINUTES_MAX, MINUTES_MIN
from tierledger.cli.complete_file import complete_file, require_place
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.options import JsonOption, OverwriteOption, duration_ms
from tierledger.cli.output import print_json, print_note, print_pairs
from tierledger.cli.table import PrintedTable, print_table
from tierledger.cli.violation_output import print_violations, violation_as_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress

    from tierledger.simulation.live.chaos.chaos import Storm, StormOutcome
    from tierledger.simulation.live.memory import MemoryGrowth
    from tierledger.simulation.live.verdict import Fared, LiveVerdict

# Ray and the simulation are imported in functions; else every command would wait for them.

SEEDS = 100_000
"""A seed below this is drawn if none is given."""


MinutesOption = Annotated[
    float,
    typer.Option(
        min=MINUTES_MIN, max=MINUTES_MAX, help="Minutes during which faults are injected."
    ),
]
StoreOption = Annotated[
    str,
    typer.Option(
        help="`sqlite` or `postgresql` for a new store that is removed afterwards; or the "
        "URL of a store, to which a cluster is added."
    ),
]
HostsOption = Annotated[int, typer.Option(min=1, max=1000, help="Number of host processes.")]
NodesOption = Annotated[
    int, typer.Option(min=2, max=100, help="Number of nodes of the Ray cluster.")
]
BrokersOption = Annotated[int, typer.Option(min=1, max=1000, help="Number of brokers.")]
PartitionsOption = Annotated[
    int, typer.Option(min=1, max=100_000, help="Number of partitions that the brokers use.")
]
RateOption = Annotated[
    float, typer.Option(min=1.0, max=1e6, help="Approximate number of calls per second.")
]
ChangeEveryOption = Annotated[
    float,
    typer.Option(min=0.1, max=1e6, help="Mean time between two elections, in seconds."),
]
FaultOption = Annotated[
    list[str] | None,
    typer.Option(help="Fault to inject; may be repeated. [default: all that fit]"),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**32 - 1,
        help="Seed of the workload and the faults. [default: from the clock]",
    ),
]
TombstonesOption = Annotated[
    str,
    typer.Option(
        "--tombstone-retention",
        metavar="TIME",
        help="How long ids of deleted segments are remembered. In a run that is longer, the "
        "memory of hosts shows no more of them.",
    ),
]
HistoryOption = Annotated[
    Path | None,
    typer.Option(
        help="File to write a history for `check` to. If there are violations, a history is "
        "written in any case."
    ),
]


def live(
    minutes: MinutesOption = 2.0,
    store: StoreOption = "sqlite",
    hosts: HostsOption = 3,
    nodes: NodesOption = 3,
    brokers: BrokersOption = 3,
    partitions: PartitionsOption = 6,
    rate: RateOption = 120.0,
    change_every: ChangeEveryOption = 5.0,
    fault: FaultOption = None,
    seed: SeedOption = None,
    tombstones: TombstonesOption = "7d",
    history: HistoryOption = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Run brokers on a real service whose processes are killed and frozen, and check it.

    Starts a Ray cluster of several nodes and `serve`; injects faults into hosts, coordinator,
    raylets and the store; compares every answer with the store. Exit 1 if anything is wrong.
    """
    from tierledger.simulation.live.chaos.chaos import Storm
    from tierledger.simulation.live.plan import LivePlan
    from tierledger.simulation.record.file import record_as_lines

    require_place(history, overwrite=overwrite)
    seed = int(time.time()) % SEEDS if seed is None else seed
    plan = LivePlan(seed, brokers, partitions, rate, change_every)
    retention_ms = duration_ms(tombstones, "--tombstone-retention")
    storm = Storm(plan, minutes, store, hosts, nodes, tuple(fault or ()), retention_ms)
    verdict, record = _outcome_of(storm)
    if verdict.violations and history is None:
        history = Path(tempfile.mkdtemp(prefix="tierledger-live-")) / f"seed-{seed}.jsonl"
    if history is not None:
        with complete_file(history, overwrite=overwrite) as file:
            file.writelines(record_as_lines(record))
    if json:
        print_json(_as_json(verdict, history))
    else:
        _print(verdict, history)
    if verdict.violations:
        raise typer.Exit(ExitStatus.FOUND)


def _outcome_of(storm: Storm) -> StormOutcome:
    import structlog

    from tierledger.simulation.live.chaos.chaos import storm_on

    # Faults are expected here; warnings about them would repeat what is shown.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with _progress(storm.minutes * 60) as progress:
        progress.say(f"seed {storm.plan.seed} on {storm.shown_store}: {storm.plan}")
        try:
            return storm_on(storm, progress)
        except asyncio.CancelledError:  # SIGTERM; all processes that were started have ended.
            print_note("it was stopped early, so nothing was checked")
            raise typer.Exit(ExitStatus.TERMINATED) from None


class _Shown:
    """Shows the progress of a storm on stderr."""

    def __init__(self, progress: Progress, seconds: float) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=seconds)

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def at(self, seconds: float, text: str) -> None:
        self._progress.update(self._task, completed=seconds, description=text)


@contextmanager
def _progress(seconds: float) -> Iterator[_Shown]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TimeElapsedColumn(), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Shown(progress, seconds)


def _print(verdict: LiveVerdict, history: Path | None) -> None:
    """Print how calls ended under each fault, the figures, and every violation."""
    rows = [
        (row.fault, row.strikes, _s(row.median_gap_s), _s(row.max_gap_s), *_shares(row.fared))
        for row in verdict.faults
    ]
    columns = ("fault", "strikes", "median gap", "longest gap", "calls", "ok", "answered")
    print_table(PrintedTable(columns, [*rows, ("(none)", 0, "", "", *_shares(verdict.calm))]))
    print_pairs(_figures(verdict))
    print_violations(verdict.violations)
    if history is not None:
        print_note(f"check it again: tierledger check {history}")
    print(f"{len(verdict.violations)} violations")


def _s(seconds: float) -> str:
    return f"{seconds:.1f} s"


def _shares(fared: Fared) -> tuple[int, str, str]:
    return fared.calls, f"{fared.ok_share:.2%}", f"{fared.answered_share:.2%}"


def _figures(verdict: LiveVerdict) -> list[tuple[str, object]]:
    well = verdict.well_after_s
    errors = ", ".join(f"{name} {count}" for name, count in verdict.errors.items())
    longest = max((row.max_gap_s for row in verdict.faults), default=0.0)
    calls, ok, answered = _shares(verdict.fared)
    return [
        ("seed", verdict.seed),
        ("time", f"{verdict.seconds:.0f} s"),
        ("calls", f"{calls:,}"),
        ("availability", f"{answered} answered ({ok} ok), longest gap {_s(longest)}"),
        ("not ok", errors or "none"),
        ("acknowledged writes", f"{verdict.ok_writes:,}"),
        ("elections", verdict.elections),
        ("leadership changes", verdict.leadership_changes),
        ("faults", sum(row.strikes for row in verdict.faults)),
        ("events in the logs", f"{verdict.events:,}"),
        ("checkpoints checked", verdict.checkpoints),
        ("well after healing", "never" if well is None else _s(well)),
        ("memory of a host", _grown(verdict.memory)),
        ("time to check", _s(verdict.checking_s)),
    ]


def _grown(memory: MemoryGrowth | None) -> str:
    if memory is None:
        return "not known: the run was too short"
    before, after = (f"{size / 2**20:.1f} MiB" for size in (memory.before, memory.after))
    return f"{before} after the warm-up, {after} at the end ({memory.share:+.1%})"


def _as_json(verdict: LiveVerdict, history: Path | None) -> dict[str, object]:
    return {
        **verdict._asdict(),
        "fared": _fared_as_json(verdict.fared),
        "calm": _fared_as_json(verdict.calm),
        "faults": [
            {**row._asdict(), "fared": _fared_as_json(row.fared)} for row in verdict.faults
        ],
        "memory": None if verdict.memory is None else verdict.memory._asdict(),
        "violations": [violation_as_json(one) for one in verdict.violations],
        "history": None if history is None else str(history),
    }


def _fared_as_json(fared: Fared) -> dict[str, object]:
    shares = {"ok_share": fared.ok_share, "answered_share": fared.answered_share}
    return {**fared._asdict(), **{name: round(share, 5) for name, share in shares.items()}}
