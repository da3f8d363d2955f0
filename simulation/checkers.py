"""All checkers over a whole history: what callers saw, held against what the store holds.

Each checker is a pure function, named after the anomaly that it finds. The assumptions come
first: on a history that breaks one, the others would say nothing of the service.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from tierledger.simulation.checkers_fold import (
    Checkpoint,
    check_fold,
    reads_of,
    writes_without_event,
)
from tierledger.simulation.checkers_laws import unlawful_event
from tierledger.simulation.checkers_log import (
    altered_write,
    duplicate_write,
    early_answer,
    fencing,
    lost_write,
    phantom_write,
)
from tierledger.simulation.checkers_order import linearizability, session_reads
from tierledger.simulation.checkers_violation import Violation, bounded
from tierledger.simulation.final_log import FinalLog
from tierledger.simulation.history import FAIL, INFO, OK, READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tierledger.actors.calls import PartitionKey
    from tierledger.simulation.history import History, Operation

OF_CALLS_AND_LOG = (
    linearizability,
    session_reads,
    lost_write,
    phantom_write,
    duplicate_write,
    altered_write,
    early_answer,
    fencing,
)

FAULTS = frozenset({"crashed", "paused", "cut off", "lost", "delayed", "refused", "corrupted"})
"""Notes that count as faults, unless the caller of `vacuity` names others."""


class Minimums(NamedTuple):
    """What a run must have seen, so that its silence means something."""

    ok_writes: int = 0
    ok_reads: int = 0
    leadership_changes: int = 0
    """Sessions after the first, over all partitions."""
    faults: int = 0
    fault_notes: frozenset[str] = FAULTS


def check(
    history: History,
    logs: Mapping[PartitionKey, FinalLog],
    *,
    checkpoints: Mapping[PartitionKey, Sequence[tuple[int, bytes]]] | None = None,
    custom_metadata_bytes_max: int | None = None,
    check_every: int = 0,
    minimums: Minimums | None = None,
) -> list[Violation]:
    """Everything that is wrong with a run; empty if nothing is.

    Args:
        history: All calls, as their callers saw them.
        logs: Every partition's final log, also of partitions that nobody called.
        checkpoints: Per partition (last position, digest) of each that was seen.
        custom_metadata_bytes_max: The limit that leaders were given.
        check_every: Check a state's invariants after so many events, and always at the end.
        minimums: What the run must have seen at least.
    """
    broken = assumptions(history.operations, logs)
    if broken:
        return bounded(broken)
    found: list[Violation] = []
    calls: defaultdict[PartitionKey, list[Operation]] = defaultdict(list)
    for op in history.operations:
        calls[op.key].append(op)
    for key, log in logs.items():
        operations = calls[key]
        for checker in OF_CALLS_AND_LOG:
            found += bounded(checker(operations, log))
        found += bounded(unlawful_event(log, custom_metadata_bytes_max))
        seen = () if checkpoints is None else checkpoints.get(key, ())
        folded = check_fold(
            log,
            reads=reads_of(operations),
            writes=writes_without_event(operations, log),
            checkpoints=[Checkpoint(*one) for one in seen],
            every=check_every,
            at_end=True,
        )
        found += bounded(folded)
    if minimums is not None:
        found += vacuity(history, logs, minimums)
    return found


def assumptions(
    operations: Sequence[Operation], logs: Mapping[PartitionKey, FinalLog]
) -> list[Violation]:
    """The history is not one that the other checkers can judge."""
    found = [
        Violation("assumptions", op.key, f"operation {op.number}: {message}", (op.number,))
        for op in operations
        for message in _misrecorded(op)
    ]
    found += _overlaps(operations)
    found += _repeated_requests(operations)
    missing = {op.key for op in operations} - logs.keys()
    found += [Violation("assumptions", key, "no log was given") for key in sorted(missing)]
    for key, log in logs.items():
        found += [Violation("assumptions", key, message) for message in _misread(log)]
    return found


def _misrecorded(op: Operation) -> Iterator[str]:
    if op.completed is not None and op.completed < op.invoked:
        yield f"it ended at {op.completed}, before it began at {op.invoked}"
    if op.outcome == OK:
        if op.position is None or op.position < -1 or op.completed is None:
            yield f"it is ok at {op.completed} with position {op.position}"
        elif op.kind == READ and op.query is None:
            yield "it was answered, and nobody knows the question"
    elif op.outcome not in (FAIL, INFO):
        yield f"expected an outcome {OK}, {FAIL} or {INFO}, found {op.outcome!r}"


def _overlaps(operations: Sequence[Operation]) -> Iterator[Violation]:
    busy: dict[str, Operation] = {}
    for op in sorted(operations, key=lambda op: (op.invoked, op.number)):
        before = busy.get(op.process)
        if before is not None and (before.completed is None or before.completed > op.invoked):
            message = f"{op.process} began operation {op.number} within {before.number}"
            yield Violation("assumptions", op.key, message, (before.number, op.number))
        busy[op.process] = op


def _repeated_requests(operations: Sequence[Operation]) -> Iterator[Violation]:
    seen: dict[bytes, int] = {}
    for op in operations:
        if op.kind == WRITE and op.request:
            first = seen.setdefault(op.request, op.number)
            if first != op.number:
                message = f"operations {first} and {op.number} share request {op.request.hex()}"
                yield Violation("assumptions", op.key, message, (first, op.number))


def _misread(log: FinalLog) -> Iterator[str]:
    for expected, event in enumerate(log.events):
        if event.position != expected:
            yield f"expected position {expected} in the log, found {event.position}"
            return
    if len(log.durable_at) != len(log.events):
        yield f"{len(log.durable_at)} times are known for {len(log.events)} events"
    latest = 0
    for position, time in enumerate(log.durable_at):
        if time is not None:
            if time < latest:
                yield f"position {position} was durable at {time}, its predecessor at {latest}"
                return
            latest = time


def vacuity(
    history: History, logs: Mapping[PartitionKey, FinalLog], minimums: Minimums
) -> list[Violation]:
    """The run was too quiet to prove anything."""
    ended = Counter((op.kind, op.outcome) for op in history.operations)
    changes = sum(max(0, len(log.sessions) - 1) for log in logs.values())
    faults = sum(note.what in minimums.fault_notes for note in history.notes)
    counts: Iterable[tuple[str, int, int]] = (
        ("ok writes", ended[WRITE, OK], minimums.ok_writes),
        ("ok reads", ended[READ, OK], minimums.ok_reads),
        ("leadership changes", changes, minimums.leadership_changes),
        ("faults", faults, minimums.faults),
    )
    return [
        Violation("vacuous", None, f"expected at least {least} {what}, found {count}")
        for what, count, least in counts
        if count < least
    ]
