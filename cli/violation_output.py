"""Violations as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierledger.cli.output import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tierledger.simulation.checkers.violation import Violation


def print_violations(violations: Iterable[Violation]) -> None:
    for one in violations:
        where = "" if one.key is None else f"partition {one.key.partition}: "
        print(escaped(f"FAILED  {one.checker}: {where}{one.message}"))


def violation_as_json(violation: Violation) -> dict[str, object]:
    return {
        "checker": violation.checker,
        "partition": None if violation.key is None else violation.key.partition,
        "message": violation.message,
        "operations": list(violation.operations),
    }
