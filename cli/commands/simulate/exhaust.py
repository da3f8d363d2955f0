"""`simulate exhaust`: a very small world in every order, with every crash."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.commands.simulate.options import JobsOption, cores
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.options import JsonOption
from tierledger.cli.output import print_json, progress
from tierledger.cli.violation_output import violation_as_json

if TYPE_CHECKING:
    from tierledger.simulation.exhaust.script import Bounds
    from tierledger.simulation.mutants.catalogue import Mutant

BOUND_MAX = 100
"""Of anything that is tried: with a few dozen it would take longer than anybody waits."""

SHARES = 1000
"""Steps of the progress bar."""


def register(app: typer.Typer) -> None:
    app.command("exhaust")(exhaust)


def exhaust(
    delays: Annotated[
        int, typer.Option(min=0, max=BOUND_MAX, help="Deliveries that may be late.")
    ] = 2,
    crashes: Annotated[
        int, typer.Option(min=0, max=BOUND_MAX, help="Processes that may crash.")
    ] = 1,
    appends: Annotated[
        int, typer.Option(min=0, max=BOUND_MAX, help="Writes that are made.")
    ] = 3,
    changes: Annotated[
        int, typer.Option(min=0, max=BOUND_MAX, help="Times another broker leads.")
    ] = 2,
    reads: Annotated[int, typer.Option(min=0, max=2, help="Reads that are made.")] = 0,
    mutant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Plant this mistake first, as `M08`.")
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(metavar="LINE", help="Repeat this one, step by step.")
    ] = None,
    jobs: JobsOption = None,
    json: JsonOption = False,
) -> None:
    """Try every order and every crash of a small world of two hosts.

    All pending deliveries may come in any order, as long as no more than --delays of them are
    late; --crashes processes may end, each before any of its steps. Exit 1 if an order breaks
    something; it is printed, with the command that repeats it.
    """
    from tierledger.simulation.campaign.campaign import mutant_named
    from tierledger.simulation.exhaust.script import Bounds

    bounds = Bounds(delays, crashes, appends, changes, reads)
    planted = None if mutant is None else mutant_named(mutant)
    if schedule is not None:
        well = _repeat(schedule, bounds, planted, json=json)
    else:
        well = _explore(bounds, planted, cores(jobs), json=json)
    if not well:
        raise typer.Exit(ExitStatus.FOUND)


def _explore(bounds: Bounds, mutant: Mutant | None, jobs: int, *, json: bool) -> bool:
    from tierledger.simulation.exhaust.run import Progress, explore, lines_of
    from tierledger.simulation.exhaust.schedule import again_with

    began, shown = time.monotonic(), 0
    with progress("of all orders, in thousandths", SHARES) as advance:

        def tell(told: Progress) -> None:
            nonlocal shown
            share = int(told.share * SHARES)
            if share > shown:
                advance(share - shown)
                shown = share

        explored = explore(bounds, tell, jobs=jobs, mutant=mutant)
    seconds = time.monotonic() - began
    if not json:
        print("\n".join(lines_of(explored, seconds)))
        return explored.found is None
    again = explored.found and again_with(bounds, explored.found, explored.mutant)
    print_json(
        {
            "bounds": bounds._asdict(),
            "schedules": explored.schedules,
            "states": explored.states,
            "cut": explored.pruned,
            "outcomes": explored.outcomes,
            "seconds": round(seconds, 1),
            "violations": [violation_as_json(one) for one in explored.violations],
            "again": again,
        }
    )
    return explored.found is None


def _repeat(line: str, bounds: Bounds, mutant: Mutant | None, *, json: bool) -> bool:
    from tierledger.simulation.exhaust.schedule import repeated, schedule_of
    from tierledger.simulation.mutants.catalogue import planted

    with nullcontext() if mutant is None else planted(mutant):
        told, violations = repeated(bounds, *schedule_of(line))
    if json:
        found = [violation_as_json(one) for one in violations]
        print_json({"steps": told, "violations": found})
    else:
        print("\n".join(told))
        for one in violations:
            print(f"FAILED  {one.checker}: {one.message}")
    return not violations
