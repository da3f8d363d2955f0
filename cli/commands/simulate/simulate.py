"""`simulate`: worlds in which everything fails, and every answer is checked."""

from __future__ import annotations

import math
import time
from collections import Counter
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tierledger.cli.commands.simulate.live import live
from tierledger.cli.commands.simulate.mutants import coverage, mutants, slips, summed
from tierledger.cli.commands.simulate.options import (
    MINUTES_MAX,
    MINUTES_MIN,
    SEED_MAX,
    JobsOption,
    WorldOption,
    checked_world,
    cores,
    seeds_of,
)
from tierledger.cli.commands.simulate.replay import explain, replay
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.handlers import group_of
from tierledger.cli.options import JsonOption
from tierledger.cli.output import counted, print_json, print_note, print_pairs
from tierledger.cli.violation_output import print_violations, violation_as_json
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tierledger.simulation.campaign.campaign import Workers
    from tierledger.simulation.campaign.reduction import Reduction
    from tierledger.simulation.campaign.summary import CampaignSummary, SizeSummary
    from tierledger.simulation.checkers.verdict import SeedVerdict

# The simulation is imported in functions: it loads the whole service, and every command
# would wait for that.

SEEDS = "1000"
"""The seeds if neither seeds nor a time are given."""

SHRUNK_MAX = 5
"""How many failing seeds are shrunk, if possible of different checkers."""

SHOWN_MAX = 20
"""How many failing seeds are shown; the rest is counted."""

VIOLATIONS_SHOWN = 3
"""Violations shown of one seed before it is shrunk; `replay` shows all."""


def simulate_group() -> typer.Typer:
    commands = (run, replay, explain, mutants, slips, coverage, live)
    return group_of(
        "Simulate the service with everything that can fail, and check every answer.",
        {command.__name__: command for command in commands},
    )


def run(
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="COUNT|FIRST:END",
            help=f"Which seeds to run. [default: {SEEDS}, or all that --minutes has room for]",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=SEED_MAX, help="The only seed to run.")
    ] = None,
    jobs: JobsOption = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=MINUTES_MIN, max=MINUTES_MAX, help="Begin no more seeds after this time."
        ),
    ] = None,
    world: WorldOption = "service",
    require_marks: Annotated[
        bool,
        typer.Option(
            "--require-marks",
            help="Fail if a rare situation never occurred. [default: from 20,000 seeds on]",
        ),
    ] = False,
    no_shrink: Annotated[
        bool, typer.Option("--no-shrink", help="Do not shrink failing seeds.")
    ] = False,
    hash_only: Annotated[
        bool,
        typer.Option(
            "--hash-only", help="Print only one line per seed, with the hash of its trace."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Run many seeds, each a world with its own faults, and hold every answer to the log.

    A failing seed is shrunk and shown with the command that repeats it. Exit 1 if a
    checker finds anything, or if so little happened that its silence means nothing.
    """
    from tierledger.simulation.campaign.campaign import Workers

    checked_world(world)
    chosen = _chosen(seeds, seed, minutes)
    began = time.monotonic()
    with Workers(cores(jobs)) as workers:
        outcomes = _begun_in(minutes, workers.outcomes(chosen, world=world))
        if hash_only:
            well = _print_hashes(outcomes)
        else:
            summary = summed(
                outcomes, len(chosen) if isinstance(chosen, range) else None, world
            )
            campaign = Campaign(world, workers.jobs, summary, time.monotonic() - began)
            shown = [] if no_shrink else _reductions(campaign, workers)
            well = _report(campaign, shown, require_marks=require_marks, json=json)
    if not well:
        raise typer.Exit(ExitStatus.FOUND)


def _chosen(seeds: str | None, seed: int | None, minutes: float | None) -> Iterable[int]:
    if seed is not None:
        if seeds is not None:
            raise InvalidArgument("expected --seed or --seeds, got both")
        return range(seed, seed + 1)
    if seeds is None and minutes is not None:
        return count()
    return seeds_of(seeds or SEEDS)


def _begun_in(minutes: float | None, outcomes: Iterable[SeedVerdict]) -> Iterator[SeedVerdict]:
    """The outcomes of the seeds that are begun within the time."""
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    for one in outcomes:
        yield one
        if time.monotonic() >= until:
            break


def _print_hashes(outcomes: Iterable[SeedVerdict]) -> bool:
    is_well = True
    for one in outcomes:
        print(f"{one.seed} {one.trace_hash}", flush=True)
        is_well &= not one.violations
    return is_well


class Campaign(NamedTuple):
    """A campaign's seeds that have run, and their sums."""

    world: str
    jobs: int
    summary: CampaignSummary
    wall_s: float

    @property
    def is_large(self) -> bool:
        from tierledger.simulation.campaign.summary import ALL_MARKS_SEEDS

        return self.summary.seeds >= ALL_MARKS_SEEDS


def _reductions(campaign: Campaign, workers: Workers) -> list[Reduction]:
    """Some of the failing seeds, shrunk."""
    from tierledger.simulation.campaign.reduction import reduced

    chosen = [one.seed for one in _of_different_checkers(campaign.summary.failed)]
    shrunk = workers.each(partial(reduced, world=campaign.world), chosen[:SHRUNK_MAX])
    found = counted(shrunk, "shrinking", len(chosen[:SHRUNK_MAX]))
    return [one for one in found if one is not None]


def _of_different_checkers(failed: Sequence[SeedVerdict]) -> list[SeedVerdict]:
    """The first seed of each checker, then the others; small worlds first, being quick."""
    seen: Counter[str] = Counter()
    ranked = []
    for one in sorted(failed, key=lambda failed: (not failed.is_small, failed.seed)):
        checker = one.violations[0].checker
        ranked.append((seen[checker], one))
        seen[checker] += 1
    return [one for _, one in sorted(ranked, key=lambda rank: rank[0])]


def _report(
    campaign: Campaign, shown: Sequence[Reduction], *, require_marks: bool, json: bool
) -> bool:
    """Print the result; returns whether all is well."""
    requires = require_marks or campaign.is_large
    shortfalls = campaign.summary.shortfalls(requires_marks=requires)
    (_print_as_json if json else _print)(campaign, shortfalls, shown)
    return not campaign.summary.failed and not shortfalls


def _print(campaign: Campaign, shortfalls: list[str], shown: Sequence[Reduction]) -> None:
    summary = campaign.summary
    print_pairs(_figures(campaign))
    small = {one.seed: one for one in shown}
    for failed in summary.failed[:SHOWN_MAX]:
        print(f"seed {failed.seed}")
        print_violations(failed.violations[:VIOLATIONS_SHOWN])
        if len(failed.violations) > VIOLATIONS_SHOWN:
            print(f"  and {len(failed.violations) - VIOLATIONS_SHOWN} more")
        _print_again(campaign, failed.seed, small.get(failed.seed))
    if len(summary.failed) > SHOWN_MAX:
        print_note(f"and {len(summary.failed) - SHOWN_MAX} more seeds failed")
    for shortfall in shortfalls:
        print(f"FAILED  vacuous: {shortfall}")
    print(f"{summary.seeds} seeds, {len(summary.failed)} failed")


def _command_again(campaign: Campaign, seed: int) -> str:
    """The command that repeats a seed that was not shrunk."""
    from tierledger.simulation.campaign.reduction import replay_command

    return replay_command(seed, world=campaign.world)


def _print_again(campaign: Campaign, seed: int, small: Reduction | None) -> None:
    if small is None:
        print(f"  again: {_command_again(campaign, seed)}")
        return
    print(f"  {len(small.keep)} of its {small.of} decisions are enough:")
    for decision in small.decisions:
        print(f"    {decision}")
    print_violations([small.violation])
    print(f"  again: {small.command}")


def _figures(campaign: Campaign) -> list[tuple[str, object]]:
    summary = campaign.summary
    known = len(summary.known_marks)
    hits = known - len(summary.unseen_marks)
    return [
        ("world", campaign.world),
        ("seeds", f"{summary.seeds:,}"),
        ("small", _size_text(summary.small) if summary.small.seeds else None),
        ("big", _size_text(summary.big) or None),
        ("calls", f"{summary.calls:,} ({summary.ok_calls:,} ok)"),
        ("leadership changes", f"{summary.changes:,}"),
        ("two believers", f"{summary.two_believers_share:.1%} of seeds"),
        ("marks seen", f"{hits} of {known}"),
        ("virtual time", f"{summary.virtual_s / 3600:,.1f} h in {summary.steps:,} steps"),
        ("virtual : wall", _ratios_text(campaign)),
        ("time", f"{campaign.wall_s:.1f} s"),
    ]


def _ratios_text(campaign: Campaign) -> str:
    virtual_s = campaign.summary.virtual_s
    of_all = virtual_s / max(campaign.wall_s, 1e-9)
    per_core = virtual_s / max(campaign.summary.cpu_s, 1e-9)
    where = "1 process" if campaign.jobs == 1 else f"{campaign.jobs} processes"
    return f"{of_all:,.0f} : 1 in {where}, {per_core:,.0f} : 1 per core"


def _size_text(size: SizeSummary) -> str:
    if not size.seeds:
        return ""
    return (
        f"{size.seeds:,} seeds, {size.seeds_per_s:,.0f} per second and core; median "
        f"{size.median_calls} calls, {size.median_changes} changes"
    )


def _print_as_json(
    campaign: Campaign, shortfalls: list[str], shown: Sequence[Reduction]
) -> None:
    summary = campaign.summary
    small = {one.seed: one for one in shown}
    print_json(
        {
            "world": campaign.world,
            "seeds": summary.seeds,
            "small": _size_as_json(summary.small),
            "big": _size_as_json(summary.big),
            "calls": summary.calls,
            "ok_calls": summary.ok_calls,
            "leadership_changes": summary.changes,
            "two_believers_share": round(summary.two_believers_share, 4),
            "virtual_seconds": round(summary.virtual_s, 1),
            "wall_seconds": round(campaign.wall_s, 2),
            "jobs": campaign.jobs,
            "seeds_with": dict(sorted(summary.marks.items())),
            "vacuous": shortfalls,
            "failed": [
                _failed_as_json(campaign, one, small.get(one.seed)) for one in summary.failed
            ],
        }
    )


def _size_as_json(size: SizeSummary) -> dict[str, float]:
    return {
        "seeds": size.seeds,
        "seeds_per_second_and_core": round(size.seeds_per_s, 1),
        "median_calls": size.median_calls,
        "median_leadership_changes": size.median_changes,
    }


def _failed_as_json(
    campaign: Campaign, failed: SeedVerdict, small: Reduction | None
) -> dict[str, Any]:
    return {
        "seed": failed.seed,
        "trace_hash": failed.trace_hash,
        "violations": [violation_as_json(one) for one in failed.violations],
        "decisions": None if small is None else small.decisions,
        "again": _command_again(campaign, failed.seed) if small is None else small.command,
    }
