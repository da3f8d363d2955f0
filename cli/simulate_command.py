"""`simulate`: the whole service under virtual time, with everything that can go wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.options import JsonOption
from tierledger.cli.output import print_json, print_note, print_pairs, print_table, progress

if TYPE_CHECKING:
    from tierledger.simulation.service.verdict import Verdict

# The simulation is imported where it is used: it brings the whole service along, and every
# command would wait for that.

ALL_MUTANTS = "all"


def register(app: typer.Typer) -> None:
    app.command("simulate")(simulate)


def simulate(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run.")] = 200,
    first: Annotated[int, typer.Option("--from", min=0, help="The first of them.")] = 0,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Run this seed alone, and tell all about it.")
    ] = None,
    mutant: Annotated[
        str | None,
        typer.Option(help="Plant this mistake, or `all` one by one, until a seed notices."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes to run in. [default: one per core]")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="With --seed: write every step of the run here.")
    ] = None,
    history: Annotated[
        Path | None, typer.Option(help="With --seed: write what callers saw here.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Simulate the service: brokers, hosts and a store that fail, and check every answer.

    Each seed is one world with its own faults. Exit 1 if a checker finds anything, or if no
    seed notices a planted mistake.
    """
    if seed is not None:
        well = _one(seed, trace, history, json)
    elif mutant is not None:
        well = _hunt(mutant, range(first, first + seeds), _cores(jobs), json)
    else:
        well = _campaign(range(first, first + seeds), _cores(jobs), json)
    if not well:
        raise typer.Exit(1)


def _cores(jobs: int | None) -> int:
    return jobs or os.cpu_count() or 1


def _one(seed: int, trace: Path | None, history: Path | None, json: bool) -> bool:
    from tierledger.simulation.history import write_history
    from tierledger.simulation.service.plan import drawn
    from tierledger.simulation.service.verdict import ran, verdict_of

    world = ran(drawn(seed), keeps_lines=trace is not None)
    if trace is not None:
        trace.write_text("\n".join(world.trace.lines or ()) + "\n", encoding="utf-8")
    if history is not None:
        write_history(history, world.recorder.history())
    verdict = verdict_of(world)
    if json:
        print_json(_as_json(verdict))
    else:
        print_pairs(
            [
                ("seed", seed),
                ("calls", f"{verdict.calls} ({verdict.ok_calls} ok)"),
                ("leadership changes", verdict.changes),
                ("virtual time", f"{verdict.virtual_s:.1f} s in {verdict.steps} steps"),
                ("trace hash", verdict.trace_hash),
                *sorted(verdict.marks.items()),
            ]
        )
        _print_violations([verdict])
    return not verdict.violations


def _campaign(seeds: range, jobs: int, json: bool) -> bool:
    from tierledger.simulation.campaign import Summary, verdicts

    summary = Summary()
    with progress("seeds", len(seeds)) as on_seeds:
        for verdict in verdicts(seeds, jobs=jobs):
            summary.add(verdict)
            on_seeds(1)
    failed = sorted(summary.failed, key=lambda one: one.seed)
    if json:
        print_json(
            {
                "seeds": summary.seeds,
                "calls": summary.calls,
                "ok_calls": summary.ok_calls,
                "leadership_changes": summary.changes,
                "virtual_seconds": round(summary.virtual_s, 1),
                "seeds_with": dict(sorted(summary.marks.items())),
                "failed": [_as_json(verdict) for verdict in failed],
            }
        )
        return not failed
    rows = [(what, count) for what, count in summary.marks.most_common()]
    print_table(("seen", "seeds"), rows)
    _print_violations(failed)
    print(
        f"{summary.seeds} seeds, {len(failed)} failed: {summary.calls} calls "
        f"({summary.ok_calls} ok), {summary.changes} leadership changes, "
        f"{summary.virtual_s / 3600:.1f} virtual hours"
    )
    return not failed


def _print_violations(verdicts: list[Verdict]) -> None:
    for verdict in verdicts:
        for violation in verdict.violations:
            print(f"FAILED  seed {verdict.seed}: {violation.checker}: {violation.message}")
        if verdict.violations:
            print_note(f"again: tierledger simulate --seed {verdict.seed}")


def _hunt(name: str, seeds: range, jobs: int, json: bool) -> bool:
    from tierledger.simulation.campaign import hunt, mutant_named
    from tierledger.simulation.mutants import MUTANTS

    wanted = MUTANTS if name == ALL_MUTANTS else (mutant_named(name),)
    found = []
    with progress("mutants", len(wanted)) as on_mutants:
        for mutant in wanted:
            found.append(hunt(mutant, seeds, jobs=jobs))
            on_mutants(1)
    if json:
        for one in found:
            print_json(
                {
                    "mutant": one.mutant.name,
                    "caught_at": one.caught_at,
                    "seeds": one.seeds,
                    "checkers": dict(sorted(one.checkers.items())),
                }
            )
    else:
        rows = [
            (
                one.mutant.name,
                "NOT CAUGHT" if one.caught_at is None else f"seed {one.caught_at}",
                one.seeds,
                ", ".join(
                    f"{checker} {count}" for checker, count in one.checkers.most_common()
                ),
            )
            for one in found
        ]
        print_table(("mutant", "caught by", "seeds tried", "found by"), rows)
    return all(one.caught_at is not None for one in found)


def _as_json(verdict: Verdict) -> dict[str, object]:
    return {
        **verdict._asdict(),
        "marks": dict(sorted(verdict.marks.items())),
        "violations": [
            {
                "checker": one.checker,
                "partition": None if one.key is None else one.key.partition,
                "message": one.message,
                "operations": list(one.operations),
            }
            for one in verdict.violations
        ],
    }
