"""`simulate replay` and `explain`: one run again, as text or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tierledger.cli.commands.simulate.options import (
    SEED_MAX,
    KeepOption,
    MutantOption,
    ShapeOption,
    WorldOption,
    checked_world,
    comma_separated,
)
from tierledger.cli.complete_file import complete_file, require_place
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.options import JsonOption, OverwriteOption
from tierledger.cli.output import print_json, print_note, print_pairs
from tierledger.cli.violation_output import print_violations, violation_as_json
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from tierledger.simulation.checkers.verdict import SeedVerdict
    from tierledger.simulation.machines.scenario.scenario import Scenario
    from tierledger.simulation.record.record import RunRecord
    from tierledger.simulation.timeline import RunTimeline

SeedOption = Annotated[
    int, typer.Option(min=0, max=SEED_MAX, help="The seed to run.", show_default=False)
]


class ReplayRequest(NamedTuple):
    """The run to repeat."""

    seed: int
    mutant: str | None
    keep: list[int] | None
    shape: list[str]
    world: str

    @property
    def is_whole(self) -> bool:
        return self.keep is None and not self.shape

    @property
    def command(self) -> str:
        from tierledger.simulation.campaign.reduction import replay_command

        keep = None if self.keep is None else tuple(self.keep)
        return replay_command(self.seed, self.mutant, keep, tuple(self.shape), self.world)

    def scenario(self) -> Scenario:
        from tierledger.simulation.campaign.campaign import drawn, mutant_named
        from tierledger.simulation.machines.scenario.shape import scenario_of

        if self.mutant is not None:
            mutant_named(self.mutant)  # There is one of that name.
        return scenario_of(drawn(self.seed, self.world), self.keep, self.shape)


def _asked(
    seed: int, mutant: str | None, keep: str | None, shape: str | None, world: str
) -> ReplayRequest:
    from tierledger.simulation.machines.scenario.shape import numbers_of

    kept = None if keep is None else numbers_of(keep)
    return ReplayRequest(seed, mutant, kept, comma_separated(shape), checked_world(world))


def replay(
    seed: SeedOption,
    mutant: MutantOption = None,
    keep: KeepOption = None,
    shape: ShapeOption = None,
    world: WorldOption = "service",
    history: Annotated[
        Path | None, typer.Option(help="File to write a history for `check` to.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="File to write every step of the run to, as text.")
    ] = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Run one seed again, all of it or some of its decisions, and tell what is found.

    A seed makes the same run on every machine, as its trace hash shows. Exit 1 if a checker
    finds anything.
    """
    from tierledger.simulation.campaign.campaign import judged
    from tierledger.simulation.explain.text import text
    from tierledger.simulation.record.file import record_as_lines
    from tierledger.simulation.worlds import LIVES

    require_place(history, trace, overwrite=overwrite)
    asked = _asked(seed, mutant, keep, shape, world)
    if history is not None and asked.world == LIVES:
        raise InvalidArgument("--history: a life has none; expected --world service")
    scenario = asked.scenario()
    verdict = judged(scenario, mutant, world)
    if history is not None:
        with complete_file(history, overwrite=overwrite) as file:
            file.writelines(record_as_lines(_record(asked, scenario)))
    if trace is not None:
        with complete_file(trace, overwrite=overwrite) as file:
            file.write(text(_timeline(asked, scenario, verdict)).encode())
    (_print_as_json if json else _print)(verdict)
    if verdict.violations:
        raise typer.Exit(ExitStatus.FOUND)


def _record(asked: ReplayRequest, scenario: Scenario) -> RunRecord:
    from tierledger.simulation.campaign.campaign import watched
    from tierledger.simulation.service.record_of import record_of

    with watched(scenario, asked.mutant, asked.world) as world:
        return record_of(world, asked.command)


def _timeline(asked: ReplayRequest, scenario: Scenario, verdict: SeedVerdict) -> RunTimeline:
    from tierledger.simulation.campaign.campaign import watched
    from tierledger.simulation.machines.timeline_of import timeline_of

    total = len(asked._replace(keep=None).scenario().decisions)
    count = len(scenario.decisions)
    decisions = f"{count} of {total} decisions" if count < total else f"{total} decisions"
    found = "".join(f"{one}, " for one in sorted({one.checker for one in verdict.violations}))
    mistake = "" if asked.mutant is None else f" with {asked.mutant}"
    facts: dict[str, Any] = {
        "title": f"seed {asked.seed}{mistake}: {found}{decisions}",
        "command": asked.command,
        "violations": verdict.violations,
    }
    with watched(scenario, asked.mutant, asked.world) as world:
        return timeline_of(world, **facts)


def _print(verdict: SeedVerdict) -> None:
    print_pairs(
        [
            ("seed", verdict.seed),
            ("calls", f"{verdict.calls} ({verdict.ok_calls} ok)"),
            ("leadership changes", verdict.changes),
            ("virtual time", f"{verdict.virtual_s:.1f} s in {verdict.steps} steps"),
            ("trace hash", verdict.trace_hash),
            *sorted(verdict.marks.items()),
        ]
    )
    print_violations(verdict.violations)
    print(f"{len(verdict.violations)} violations")


def _print_as_json(verdict: SeedVerdict) -> None:
    fields = verdict._asdict()
    del fields["cpu_s"]  # It was not measured.
    print_json(
        {
            **fields,
            "marks": dict(sorted(verdict.marks.items())),
            "violations": [violation_as_json(one) for one in verdict.violations],
        }
    )


def explain(
    seed: SeedOption,
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="File to write the page to.")],
    mutant: MutantOption = None,
    keep: KeepOption = None,
    shape: ShapeOption = None,
    world: WorldOption = "service",
    no_shrink: Annotated[
        bool, typer.Option("--no-shrink", help="Show a failing seed without shrinking it.")
    ] = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Draw one run as a page: leaders, messages, faults and findings.

    A failing seed is shrunk first. The page is one file and needs no network.
    """
    from tierledger.cli.pages.stamp import stamp
    from tierledger.simulation.campaign.campaign import judged
    from tierledger.simulation.explain.page import page

    require_place(out, overwrite=overwrite)
    asked = _asked(seed, mutant, keep, shape, world)
    scenario = asked.scenario()
    verdict = judged(scenario, mutant, world)
    if verdict.violations and asked.is_whole and not no_shrink:
        asked = _made_small(asked)
        scenario = asked.scenario()
        verdict = judged(scenario, mutant, world)
    shown = page(_timeline(asked, scenario, verdict), stamp("a simulated run"))
    with complete_file(out, overwrite=overwrite) as file:
        file.write(shown.encode())
    print_violations(verdict.violations)
    print_note(f"again: {asked.command}")
    print(f"{len(scenario.decisions)} decisions, {len(verdict.violations)} violations: {out}")


def _made_small(asked: ReplayRequest) -> ReplayRequest:
    from tierledger.simulation.campaign.reduction import reduced

    print_note("it fails; it is made smaller first")
    small = reduced(asked.seed, mutant=asked.mutant, world=asked.world)
    if small is None:
        return asked
    return asked._replace(keep=list(small.keep), shape=list(small.shape))
