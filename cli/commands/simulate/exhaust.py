"""`simulate exhaust`: every order and every crash of a very small world."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

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
"""The maximum of each bound; a few dozen already take too long to wait for."""


def _bound(about: str) -> Any:  # noqa: ANN401 - As `typer.Option` says.
    return typer.Option(min=0, max=BOUND_MAX, help=about)


def exhaust(
    delays: Annotated[int, _bound("Maximum number of messages that may be late.")] = 0,
    crashes: Annotated[int, _bound("Maximum number of processes that may crash.")] = 2,
    appends: Annotated[int, _bound("Number of writes.")] = 2,
    changes: Annotated[
        int, _bound("Number of times that another broker becomes the leader.")
    ] = 1,
    reads: Annotated[int, _bound("Number of reads by the first broker under each leader.")] = 0,
    mutant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Plant this known mistake first, for example M08."),
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(metavar="LINE", help="Repeat this one schedule, step by step.")
    ] = None,
    jobs: JobsOption = None,
    json: JsonOption = False,
) -> None:
    """Try every order and every crash of a small world of two hosts.

    All pending messages may come in any order, as long as no more than --delays of them are
    late; --crashes processes may end, each before any of its steps. Exit 1 if a checker finds
    anything; the order is printed, with the command that repeats it.
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
    from tierledger.simulation.exhaust.run import PARTS, explore, lines_of

    began = time.monotonic()
    with progress("of all orders, in parts", PARTS) as advance:
        explored = explore(bounds, lambda: advance(1), jobs=jobs, mutant=mutant)
    seconds = time.monotonic() - began
    if not json:
        print("\n".join(lines_of(explored, seconds)))
        return explored.found is None
    print_json(
        {
            "bounds": bounds._asdict(),
            "schedules": explored.schedules,
            "states": explored.states,
            "cut": explored.pruned,
            "seconds": round(seconds, 1),
            "violations": [violation_as_json(one) for one in explored.violations],
            "again": explored.again,
        }
    )
    return explored.found is None


def _repeat(line: str, bounds: Bounds, mutant: Mutant | None, *, json: bool) -> bool:
    from tierledger.simulation.exhaust.schedule import repeated, schedule_of

    steps, violations = repeated(bounds, *schedule_of(line), mutant)
    if json:
        found = [violation_as_json(one) for one in violations]
        print_json({"steps": steps, "violations": found})
    else:
        print("\n".join(steps))
        for one in violations:
            print(f"FAILED  {one.checker}: {one.message}")
    return not violations
