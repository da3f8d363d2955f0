"""All checkers over a whole history: what callers saw, held against what the store holds.

Each checker is a pure function, named after the anomaly that it finds. The assumptions come
first: on a history that breaks one, the others would say nothing of the service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from tierledger.actors.calls import PartitionKey
from tierledger.events.log_events import Event
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.decisions import Drafted, misdecided
from tierledger.simulation.checkers.fold import (
    UNFOLDABLE,
    Checkpoint,
    check_fold,
    judged_state,
    replay_determinism,
)
from tierledger.simulation.checkers.healing import liveness, lockout
from tierledger.simulation.checkers.laws import unlawful_event
from tierledger.simulation.checkers.log import (
    altered_write,
    duplicate_write,
    early_answer,
    fencing,
    lost_write,
    phantom_write,
)
from tierledger.simulation.checkers.model import (
    EVERYTHING,
    by_model,
    reads_of,
    writes_without_event,
)
from tierledger.simulation.checkers.nodes import feed_gap, two_leaders
from tierledger.simulation.checkers.order import linearizability, session_reads
from tierledger.simulation.checkers.refusals import wrong_refusal
from tierledger.simulation.checkers.slow.decisions import Facts
from tierledger.simulation.checkers.violation import Violation, bounded
from tierledger.simulation.history.calls import (
    FAIL,
    INFO,
    OK,
    READ,
    WRITE,
    CallHistory,
    Operation,
)
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.observations import Applied, Healed, Led, StateSeen

Asking: TypeAlias = (
    "Callable[[FinalLog, Facts, PartitionState], tuple[list[Violation], list[Event]]]"
)
"""Asks for decisions behind a log's end: the state stays as it is, the events are folded into
the facts. Returns what is wrong with the decisions, and the events that follow."""

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


_INVOKED = attrgetter("invoked", "number")


class Minimums(NamedTuple):
    """What a run must have seen at least; without it, finding nothing proves nothing."""

    ok_writes: int = 0
    ok_reads: int = 0
    leadership_changes: int = 0
    """Sessions after the first, over all partitions."""
    faults: int = 0
    fault_notes: frozenset[str] = FAULTS


def check(  # noqa: PLR0913 - Each kind of record of a run has its name.
    history: CallHistory,
    logs: Mapping[PartitionKey, FinalLog],
    *,
    checkpoints: Mapping[PartitionKey, Sequence[tuple[int, bytes]]] | None = None,
    states: Iterable[StateSeen] = (),
    applied: Iterable[Applied] = (),
    led: Iterable[Led] = (),
    healed: Mapping[PartitionKey, Healed] | None = None,
    limits: Limits | None = None,
    drafts: Iterable[Drafted] = (),
    asks: Asking | None = None,
    check_every: int = 0,
    questions: int = EVERYTHING,
    minimums: Minimums | None = None,
) -> list[Violation]:
    """Everything that is wrong with a run; empty if nothing is.

    Args:
        history: All calls, as their callers saw them.
        logs: Every partition's final log, also of partitions that nobody called.
        checkpoints: Per partition (last position, digest) of each that was seen.
        states: States of nodes that were seen, in any order.
        applied: Batches that nodes applied; those of each life in its order.
        led: Which durable batches leaders answered for.
        healed: Partitions with a known time by which they must be well again.
        limits: The limits that leaders were given.
        drafts: Batches that leaders drafted, in any order.
        asks: What asks for further decisions behind the end of each log.
        check_every: Check a state's invariants after so many events, and always in the end.
        questions: How many questions the service's rules and the slow model are both asked at
            the end of each log.
        minimums: What the run must have seen at least.
    """
    broken = assumptions(history.operations, logs)
    if broken:
        return bounded(broken)
    known = _Known(
        by_key(history.operations), checkpoints or {}, by_key(states), by_key(applied),
        by_key(led), healed or {}, limits,
        by_key(drafts), asks,
    )  # fmt: skip
    found: list[Violation] = []
    for key, log in logs.items():
        found += _of_calls(log, known)
        found += _of_nodes(key, log, known)
        found += _of_states(log, known, check_every, questions)
    found += _without_log(known, logs)
    return found if minimums is None else found + vacuity(history, logs, minimums)


class _Known(NamedTuple):
    """The records of a run by partition, and how they are judged."""

    calls: Mapping[PartitionKey, Sequence[Operation]]
    checkpoints: Mapping[PartitionKey, Sequence[tuple[int, bytes]]]
    states: Mapping[PartitionKey, Sequence[StateSeen]]
    applied: Mapping[PartitionKey, Sequence[Applied]]
    led: Mapping[PartitionKey, Sequence[Led]]
    healed: Mapping[PartitionKey, Healed]
    limits: Limits | None
    drafts: Mapping[PartitionKey, Sequence[Drafted]]
    asks: Asking | None


def _of_calls(log: FinalLog, known: _Known) -> Iterator[Violation]:
    operations = known.calls.get(log.key, ())
    limit = None if known.limits is None else known.limits.custom_metadata_bytes_max
    for checker in OF_CALLS_AND_LOG:
        yield from bounded(checker(operations, log))
    yield from bounded(wrong_refusal(operations, log, limit))
    yield from bounded(unlawful_event(log, limit))
    healed = known.healed.get(log.key)
    if healed is not None:
        yield from bounded(lockout(operations, log, healed))
        yield from bounded(liveness(operations, log, healed))


def _of_nodes(key: PartitionKey, log: FinalLog | None, known: _Known) -> list[Violation]:
    return [
        *bounded(feed_gap(known.applied.get(key, ()), log, key)),
        *bounded(two_leaders(known.led.get(key, ()), log, key)),
    ]


def _of_states(log: FinalLog, known: _Known, every: int, questions: int) -> list[Violation]:
    operations = known.calls.get(log.key, ())
    folded = check_fold(
        log,
        checkpoints=[Checkpoint(*one) for one in known.checkpoints.get(log.key, ())],
        states=known.states.get(log.key, ()),
        every=every,
        at_end=True,
    )
    decided, behind = _of_decisions(log, known, folded.state)
    modelled = by_model(
        log,
        reads=reads_of(operations),
        writes=writes_without_event(operations, log),
        state=folded.state,
        questions_max=questions,
        behind=behind,
    )
    return bounded(folded.violations) + bounded(decided) + bounded(modelled)


def _of_decisions(
    log: FinalLog, known: _Known, state: PartitionState | None
) -> tuple[list[Violation], list[Event]]:
    """Judge leaders' drafts and further decisions behind the log; `state` takes those in."""
    limits, drafts = known.limits, known.drafts.get(log.key, ())
    if limits is None or state is None or not (drafts or known.asks):
        return [], []
    facts = Facts(limits.custom_metadata_bytes_max, limits.tombstone_retention_ms)
    found = list(misdecided(drafts, log, facts))
    asked, behind = ([], []) if known.asks is None else known.asks(log, facts, state)
    try:
        evolve_all(state, behind, b"")
    except UNFOLDABLE as error:
        message = f"what was decided behind its end does not fold: {error!r}"
        return [*found, *asked, Violation("lifecycle", log.key, message)], []
    return [*found, *asked, *judged_state(state, log)], behind


def _without_log(known: _Known, logs: Mapping[PartitionKey, FinalLog]) -> Iterator[Violation]:
    """Compare the nodes of each partition whose log is unknown with each other."""
    keys = {*known.states, *known.applied, *known.led} - logs.keys()
    for key in sorted(keys):
        yield from _of_nodes(key, None, known)
        yield from bounded(replay_determinism(known.states.get(key, ()), None, key))


class Keyed(Protocol):
    """Something that is about one partition."""

    @property
    def key(self) -> PartitionKey: ...


OfPartition = TypeVar("OfPartition", bound=Keyed)


def by_key(records: Iterable[OfPartition]) -> dict[PartitionKey, list[OfPartition]]:
    """All `records` of each partition, in their order."""
    found: dict[PartitionKey, list[OfPartition]] = {}
    for one in records:
        own = found.get(one.key)
        if own is None:
            found[one.key] = [one]
        else:
            own.append(one)
    return found


def assumptions(
    operations: Sequence[Operation], logs: Mapping[PartitionKey, FinalLog]
) -> list[Violation]:
    """The history is not one that the other checkers can judge."""
    found = [
        Violation("assumptions", op.key, f"call {op.number}: {broken}", (op.number,))
        for op in operations
        if (broken := _misrecorded(op)) is not None
    ]
    found += _overlaps(operations)
    found += _repeated_requests(operations)
    missing = {op.key for op in operations} - logs.keys()
    found += [Violation("assumptions", key, "no log was given") for key in sorted(missing)]
    for key, log in logs.items():
        found += [Violation("assumptions", key, message) for message in _misread(log)]
    return found


def _misrecorded(op: Operation) -> str | None:
    outcome, completed = op.outcome, op.completed
    if completed is not None and completed < op.invoked:
        return f"it ended at {completed}, before it began at {op.invoked}"
    if outcome == OK:
        if op.position is None or op.position < -1 or completed is None:
            return f"it is ok at {completed} with position {op.position}"
        if op.kind == READ and op.query is None:
            return "it was answered, and nobody knows the question"
    elif outcome not in (FAIL, INFO):
        return f"expected an outcome {OK}, {FAIL} or {INFO}, found {outcome!r}"
    return None


def _overlaps(operations: Sequence[Operation]) -> list[Violation]:
    found = []
    busy: dict[str, tuple[int | None, int]] = {}
    for op in sorted(operations, key=_INVOKED):  # Usually in order already; the sort is stable.
        process, invoked, number = op.process, op.invoked, op.number
        before = busy.get(process)
        if before is not None and (before[0] is None or before[0] > invoked):
            message = f"{process} began call {number} within {before[1]}"
            found.append(Violation("assumptions", op.key, message, (before[1], number)))
        busy[process] = op.completed, number
    return found


def _repeated_requests(operations: Sequence[Operation]) -> list[Violation]:
    found = []
    seen: dict[bytes, int] = {}
    for op in operations:
        if op.kind == WRITE and op.request:
            first = seen.setdefault(op.request, op.number)
            if first != op.number:
                message = f"calls {first} and {op.number} share request {op.request.hex()}"
                found.append(Violation("assumptions", op.key, message, (first, op.number)))
    return found


def _misread(log: FinalLog) -> Iterator[str]:
    for expected, (position, *_) in enumerate(log.events):
        if position != expected:
            yield f"expected position {expected} in the log, found {position}"
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
    history: CallHistory, logs: Mapping[PartitionKey, FinalLog], minimums: Minimums
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
