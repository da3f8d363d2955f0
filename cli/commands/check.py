"""`check`: every checker over a recorded history."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.given_file import readable
from tierledger.cli.options import JsonOption
from tierledger.cli.output import print_json, print_note, print_pairs
from tierledger.cli.table import PrintedTable, print_table
from tierledger.cli.violation_output import print_violations, violation_as_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tierledger.simulation.record.record import Judgement, Observations, RunRecord

# The simulation is imported where it is used, as in `simulate`.

ASSUMPTIONS = "assumptions"


def check_history(
    history: Annotated[
        Path,
        typer.Argument(
            help="File that --history of a simulation wrote; - is standard input.",
            show_default=False,
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Check a recorded history again: what callers saw, against what the store held.

    The checkers are those that run after a simulation, in this version of the program. Exit 1
    if one finds anything.
    """
    from tierledger.simulation.record.file import read_record
    from tierledger.simulation.record.record import judged

    record = read_record(readable(history, "jsonl"))
    judgement = judged(record)
    if json:
        print_json(_as_json(record, judgement))
    else:
        _print(record, judgement)
    if judgement.violations:
        raise typer.Exit(ExitStatus.FOUND)


def _print(record: RunRecord, judgement: Judgement) -> None:
    found = Counter(one.checker for one in judgement.violations)
    known = _checkers(record.seen)
    if found[ASSUMPTIONS]:
        # The others were not asked, which is not the same as finding nothing.
        known = {ASSUMPTIONS: known[ASSUMPTIONS]}
        print_note("this history breaks an assumption, so no other checker was asked")
    others = {one.checker: "" for one in judgement.violations if one.checker not in known}
    rows = [(name, found[name], what) for name, what in {**known, **others}.items()]
    print_table(PrintedTable(("checker", "violations", "what would be wrong"), rows))
    print_pairs([("made by", record.settings.origin or None), *_figures(record, judgement)])
    print_violations(judgement.violations)
    print(f"{len(judgement.violations)} violations")


def _figures(record: RunRecord, judgement: Judgement) -> list[tuple[str, int]]:
    ended = Counter((op.kind, op.outcome) for op in record.history.operations)
    logs = judgement.logs.values()
    return [
        ("partitions", len(record.logs)),
        ("calls", len(record.history.operations)),
        ("ok writes", ended["write", "ok"]),
        ("ok reads", ended["read", "ok"]),
        ("leadership changes", sum(max(0, len(log.sessions) - 1) for log in logs)),
        ("events", sum(len(log.events) for log in logs)),
        ("checkpoints", len(record.checkpoints)),
    ]


def _as_json(record: RunRecord, judgement: Judgement) -> dict[str, object]:
    figures = {name.replace(" ", "_"): count for name, count in _figures(record, judgement)}
    return {
        "origin": record.settings.origin,
        **figures,
        "checkers": dict(Counter(one.checker for one in judgement.violations)),
        "violations": [violation_as_json(one) for one in judgement.violations],
    }


def _checkers(seen: Observations) -> dict[str, str]:
    """Each checker that was asked, by name, with the anomaly that it finds."""
    from tierledger.simulation.checkers import all as checkers
    from tierledger.simulation.checkers import fold as checkers_fold
    from tierledger.simulation.checkers.healing import liveness, lockout
    from tierledger.simulation.checkers.model import hollow_write, unlike_model, wrong_answer
    from tierledger.simulation.checkers.nodes import feed_gap, two_leaders
    from tierledger.simulation.checkers.refusals import wrong_refusal

    asked: list[Callable[..., Any]] = [
        checkers.assumptions,
        *checkers.OF_CALLS_AND_LOG,
        wrong_refusal,
        wrong_answer,
        hollow_write,
        checkers_fold.checkpoint_is_fold,
        checkers_fold.lifecycle,
        unlike_model,
    ]
    if seen.states:
        asked.append(checkers_fold.replay_determinism)
    if seen.applied:
        asked.append(feed_gap)
    if seen.led:
        asked.append(two_leaders)
    if seen.healed:
        asked += [lockout, liveness]
    named = {one.__name__: one for one in asked} | {"vacuous": checkers.vacuity}
    return {name: (one.__doc__ or "").split("\n\n")[0].strip() for name, one in named.items()}
