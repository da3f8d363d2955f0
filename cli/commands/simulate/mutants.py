"""`simulate mutants` and `coverage`: whether checkers find mistakes, and what runs see."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from tierledger.cli.commands.simulate.options import (
    JobsOption,
    WorldOption,
    checked_world,
    cores,
    seeds_of,
)
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.options import JsonOption
from tierledger.cli.output import counted, print_json, print_note, print_pairs
from tierledger.cli.table import PrintedTable, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tierledger.simulation.campaign.campaign import Hunt, Workers
    from tierledger.simulation.campaign.summary import CampaignSummary
    from tierledger.simulation.checkers.verdict import SeedVerdict
    from tierledger.simulation.mutants.catalogue import Mutant

BAR = 24
"""The width of the longest bar, in columns."""


def mutants(
    budget_seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of seeds to run with each mistake, and without it. [default: the "
            "number within which the mistake has to be caught]",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Names of the only mistakes to plant, for example M05,M17."
        ),
    ] = None,
    first: Annotated[
        bool,
        typer.Option(
            "--first", help="Go on to the next mistake as soon as one seed catches it."
        ),
    ] = False,
    jobs: JobsOption = None,
    json: JsonOption = False,
) -> None:
    """Plant known mistakes one by one, and see that the checkers notice each.

    They are planted in the world of the service, or in lives. As a control the same seeds run
    without a mistake. Exit 1 if the control is not clean, or if a mistake is not caught by a
    checker that has to catch it.
    """
    from tierledger.simulation.campaign.campaign import Workers, hunt
    from tierledger.simulation.mutants.catalogue import MUTANTS

    wanted = _wanted(only) or MUTANTS
    with Workers(cores(jobs)) as workers:
        controls = _controls(wanted, budget_seeds, workers)
        found = [
            hunt(one, one.seeds(budget_seeds), workers, to_the_end=not first)
            for one in counted(wanted, "mutants", len(wanted))
        ]
    (_print_mutants_as_json if json else _print_mutants)(found, controls)
    if any(one.failed for one in controls) or any(one.caught_at is None for one in found):
        raise typer.Exit(ExitStatus.FOUND)


def _wanted(only: str | None) -> list[Mutant]:
    from tierledger.simulation.campaign.campaign import mutant_named

    return [] if only is None else [mutant_named(one) for one in only.split(",")]


class Control(NamedTuple):
    """Seeds of one world that ran without a mistake."""

    world: str
    seeds: int
    failed: list[SeedVerdict]
    """Seeds with violations; there should be none."""


def _controls(
    mutants: Sequence[Mutant], budget_seeds: int | None, workers: Workers
) -> list[Control]:
    """A control for each world in which one of the mutants is looked for."""
    seeds: dict[str, set[int]] = {}
    for mutant in mutants:
        seeds.setdefault(mutant.world, set()).update(mutant.seeds(budget_seeds))
    return [_control(world, sorted(some), workers) for world, some in seeds.items()]


def _control(world: str, seeds: list[int], workers: Workers) -> Control:
    outcomes = counted(workers.outcomes(seeds, world=world), "control", len(seeds))
    return Control(world, len(seeds), [one for one in outcomes if one.violations])


def _print_mutants(found: list[Hunt], controls: list[Control]) -> None:
    rows = [
        (
            one.mutant.name,
            "NOT CAUGHT" if one.caught_at is None else f"seed {one.caught_at}",
            one.seeds,
            f"{one.per_thousand:.0f}",
            ", ".join(f"{checker} {count}" for checker, count in one.checkers.most_common()),
            one.mutant.mistake,
        )
        for one in found
    ]
    columns = ("mutant", "caught at", "seeds", "per 1,000", "found by", "mistake")
    _print_lines([columns, *rows, *map(_control_row, controls)])
    failed = [one for control in controls for one in control.failed]
    for outcome in failed:
        print_note(f"without a mistake: seed {outcome.seed}: {outcome.violations[0].message}")
    missed = [one.mutant.name for one in found if one.caught_at is None]
    print(f"{len(found)} mutants, {len(missed)} not caught; control: {len(failed)} failed")


def _print_lines(rows: list[tuple[object, ...]]) -> None:
    """Print a table; lines begin with the name, so that they are found quickly."""
    texts = [[str(one) for one in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = (f"{one:<{width}}" for one, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


def _control_row(control: Control) -> tuple[object, ...]:
    failed = control.failed
    caught_at = f"seed {failed[0].seed}" if failed else "clean"
    per_thousand = f"{1000 * len(failed) / control.seeds:.0f}"
    checkers = ", ".join(sorted({one.violations[0].checker for one in failed}))
    name = f"control ({control.world})"
    return (name, caught_at, control.seeds, per_thousand, checkers, "none")


def _print_mutants_as_json(found: list[Hunt], controls: list[Control]) -> None:
    _print_hunts_as_json(found)
    for one in controls:
        failed = [outcome.seed for outcome in one.failed]
        print_json({"mutant": None, "world": one.world, "seeds": one.seeds, "failed": failed})


def _print_hunts_as_json(found: list[Hunt]) -> None:
    for one in found:
        print_json(
            {
                "mutant": one.mutant.name,
                "mistake": one.mutant.mistake,
                "caught_by": sorted(one.mutant.caught_by),
                "caught_at": one.caught_at,
                "caught": one.caught,
                "seeds": one.seeds,
                "checkers": dict(sorted(one.checkers.items())),
            }
        )


def slips(
    seeds: Annotated[
        str,
        typer.Option(
            metavar="COUNT|FIRST:END", help="Seeds to run for each mistake, until one finds it."
        ),
    ] = "20000",
    only: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Names of the only mistakes to plant, for example S05,S17."
        ),
    ] = None,
    world: Annotated[
        str | None,
        typer.Option(
            metavar="service|lives",
            help="The world to plant all of them in. [default: for each the one it shows in]",
        ),
    ] = None,
    jobs: JobsOption = None,
    json: JsonOption = False,
) -> None:
    """Plant small everyday mistakes one by one, and see which checker finds each, and when.

    Prints how many mistakes were found, and how many in a minute of one core.
    """
    from tierledger.simulation.campaign.campaign import Workers, hunt
    from tierledger.simulation.mutants.slips import SLIPS

    wanted, chosen = list(_wanted(only) or SLIPS), seeds_of(seeds)
    if world is not None:
        checked_world(world)
        wanted = [one._replace(world=world) for one in wanted]
    with Workers(cores(jobs)) as workers:
        found = [hunt(one, chosen, workers) for one in counted(wanted, "slips", len(wanted))]
    if json:
        _print_hunts_as_json(found)
    else:
        _print_slips(found, len(chosen))


def _print_slips(found: list[Hunt], seeds: int) -> None:
    rows = [
        (
            one.mutant.name,
            "NOT FOUND" if one.caught_at is None else f"seed {one.caught_at}",
            f"{one.cpu_s:.1f} s",
            ", ".join(sorted(one.checkers)),
            one.mutant.mistake,
        )
        for one in found
    ]
    _print_lines([("slip", "found at", "time", "found by", "mistake"), *rows])
    caught = sum(one.caught > 0 for one in found)
    a_minute = 60 * caught / max(1e-9, sum(one.cpu_s for one in found))
    print(f"{caught} of {len(found)} found within {seeds} seeds")
    print(f"{a_minute:.1f} per minute of one core")


def coverage(
    seeds: Annotated[
        str, typer.Option(metavar="COUNT|FIRST:END", help="Seeds to run.")
    ] = "5000",
    world: WorldOption = "service",
    jobs: JobsOption = None,
    json: JsonOption = False,
) -> None:
    """Count the seeds in which each rare situation occurred; exit 1 if one never did.

    The column "one in" is the number of seeds among which one has the situation.
    """
    from tierledger.simulation.campaign.campaign import Workers

    checked_world(world)
    chosen = seeds_of(seeds)
    with Workers(cores(jobs)) as workers:
        summary = summed(workers.outcomes(chosen, world=world), len(chosen), world)
    (_print_coverage_as_json if json else _print_coverage)(summary)
    if summary.unseen_marks or summary.never_counted or summary.failed:
        raise typer.Exit(ExitStatus.FOUND)


def summed(outcomes: Iterable[SeedVerdict], total: int | None, world: str) -> CampaignSummary:
    """The sums of seeds that are run now, `total` in all if that is known."""
    from tierledger.simulation.campaign.summary import CampaignSummary

    summary = CampaignSummary(world)
    for one in counted(outcomes, "seeds", total):
        summary.add(one)
    return summary


def _print_coverage(summary: CampaignSummary) -> None:
    rows = [
        (group, mark, seen, _one_in(summary.seeds, seen), bar(seen, summary.seeds))
        for mark, group in summary.known_marks.items()
        for seen in (summary.marks[mark],)
    ]
    print_table(
        PrintedTable(("group", "situation", "seeds", "one in", "seeds, logarithmic"), rows)
    )
    counted = [
        (name, f"{count:,}", _one_in(summary.seeds, summary.counted[name]))
        for name, count in summary.counts.items()
    ]
    print_table(PrintedTable(("what", "how much", "one in"), counted))
    for failed in summary.failed:
        print_note(f"seed {failed.seed} failed: {failed.violations[0].message}")
    print_pairs([("never seen", ", ".join(summary.unseen_marks) or "none")])
    known = len(summary.known_marks)
    seen = known - len(summary.unseen_marks)
    print(f"{summary.seeds} seeds, {seen} of {known} situations seen")


def _one_in(seeds: int, seen: int) -> str:
    return f"{seeds / seen:,.0f}" if seen else "NEVER"


def bar(seen: int, seeds: int) -> str:
    """A bar as long as the number's logarithm, so that rare things show beside common ones."""
    if not seen or not seeds:
        return ""
    share = math.log10(1 + seen) / math.log10(1 + seeds)
    return "█" * max(1, round(BAR * share))


def _print_coverage_as_json(summary: CampaignSummary) -> None:
    print_json(
        {
            "seeds": summary.seeds,
            "marks": {mark: summary.marks[mark] for mark in summary.known_marks},
            "counts": dict(summary.counts),
            "seeds_with": dict(summary.counted),
            "never": summary.unseen_marks,
            "none": summary.never_counted,
            "failed": [one.seed for one in summary.failed],
        }
    )
