"""Checkers of the order of answers: in real time for the leader, per caller for everybody.

Every answer names its position, so no order has to be searched for: the log is the order, and
one pass over it shows whether real time agrees. An append whose caller never saw its end may
take effect at any time after its invocation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

from tierledger.actors.calls import LEADER
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.calls import FAIL, OK, READ, WRITE, Operation
from tierledger.simulation.history.final_log import FinalLog

NEVER = 1 << 63
"""The end of a call whose end is unknown: after everything else."""

APPENDED, ASKED = 0, 1
"""What a call did at its position; there, calls that asked sort behind the append."""

Place: TypeAlias = "tuple[int, int, int, int, int]"
"""Position, `APPENDED` or `ASKED` there, invoked, completed, number: sorts as the log does."""


def linearizability(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """A call took effect before another that had ended before it began.

    All writes and the leader's reads count, each at its position; a write that appended nothing
    counts as a read. Where it is known when events became durable, each event counts as a call
    that ended then.
    """
    places = _places(operations, log)
    found: list[Violation] = []
    latest = holder = -1
    for position, _, invoked, completed, number in places:
        if completed < latest:
            message = (
                f"call {number} ended at {ms_text(completed)} with position {position}; "
                f"call {holder} stands before it in the log and began only at "
                f"{ms_text(latest)}"
            )
            found.append(Violation("linearizability", log.key, message, (number, holder)))
        if invoked > latest:
            latest, holder = invoked, number
    return found + _behind_durable(places, log)


def _places(operations: Sequence[Operation], log: FinalLog) -> list[Place]:
    where = log.requests.get
    places: list[Place] = []
    note = places.append
    for op in operations:
        outcome = op.outcome
        if outcome == FAIL:
            continue
        if op.kind == WRITE:
            appended = where(op.request)
            if outcome == OK:
                position, completed = op.position, op.completed
                assert position is not None, "checked among the assumptions"
                assert completed is not None, "checked among the assumptions"
                if appended is None:
                    note((position, ASKED, op.invoked, completed, op.number))
                else:
                    note((appended, APPENDED, op.invoked, completed, op.number))
            elif appended is not None:
                note((appended, APPENDED, op.invoked, NEVER, op.number))
        elif outcome == OK and op.role == LEADER and not op.stale:
            position, completed = op.position, op.completed
            assert position is not None, "checked among the assumptions"
            assert completed is not None, "checked among the assumptions"
            note((position, ASKED, op.invoked, completed, op.number))
    places.sort()
    return places


def _behind_durable(places: Sequence[Place], log: FinalLog) -> list[Violation]:
    """Answers at positions before the one that was durable when the call began."""
    times, ends = log.durable_times, log.durable_ends
    if not times:
        return []
    found = []
    for position, kind, invoked, _, number in places:
        at = bisect_left(times, invoked)
        if at and position + kind <= ends[at - 1]:  # Only a read may be at that end.
            message = (
                f"call {number} began at {ms_text(invoked)} and has position {position}, "
                f"but position {ends[at - 1]} was durable at {ms_text(times[at - 1])}"
            )
            found.append(Violation("linearizability", log.key, message, (number,)))
    return found


def session_reads(operations: Sequence[Operation], log: FinalLog) -> list[Violation]:
    """A caller was led back behind what it had read or written itself.

    Monotonic reads, read your writes, monotonic writes, and writes follow reads. A stale answer
    of a leader in quarantine is exempt, since it is marked as possibly old.
    """
    found: list[Violation] = []
    appended = log.requests.get
    seen: dict[str, tuple[int, int]] = {}
    for op in operations:
        position = op.position
        if op.outcome != OK or position is None:
            continue
        process = op.process
        floor, last = seen.get(process, (-1, -1))
        if position < floor and not (op.stale and op.role == LEADER):
            what = "read" if op.kind == READ else "wrote"
            message = (
                f"{process} {what} at position {position} in call {op.number}, after it "
                f"had seen position {floor} in call {last}"
            )
            found.append(Violation("session_reads", log.key, message, (op.number, last)))
        elif position == floor and position == appended(op.request):
            message = (
                f"{process} appended position {position} in call {op.number}, which it "
                f"had seen in call {last}"
            )
            found.append(Violation("session_reads", log.key, message, (op.number, last)))
        if position > floor:
            seen[process] = (position, op.number)
    return found
