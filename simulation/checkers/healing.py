"""Checkers of what must come about once nothing fails any more, and how far followers lag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tierledger.actors.calls import FOLLOWER, PartitionKey
from tierledger.events.errors import Fenced, NotLeader
from tierledger.events.log_events import SessionOpened
from tierledger.simulation.checkers.order import NEVER
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.calls import INFO, OK, READ, WRITE, History, Operation
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.observations import Healed

_NOT_YOU = frozenset({Fenced.__name__, NotLeader.__name__})


def lockout(operations: Sequence[Operation], log: FinalLog, healed: Healed) -> list[Violation]:
    """The elected leader could not write, though nothing had failed for long enough.

    By `healed.until` one write that it began after `healed.since` must have succeeded. Later
    writes must not be refused because another broker leads. The log's last session must be that
    leader's.
    """
    texts: list[str] = []
    leader, last = healed.broker_id, log.claims[-1] if log.claims else None
    tried = [
        op
        for op in operations
        if op.kind == WRITE and op.invoked >= healed.since
        if op.claim is not None and op.claim.broker_id == leader
    ]
    in_time = [op for op in tried if op.completed is not None and op.completed <= healed.until]
    if not any(op.outcome == OK for op in in_time):
        counts = Counter(op.error or op.outcome for op in in_time).most_common()
        ended = ", ".join(f"{count} {error}" for error, count in counts) or "there was none"
        texts.append(
            f"broker {leader} leads, and nothing failed since {ms_text(healed.since)}; none of "
            f"its writes until {ms_text(healed.until)} succeeded: {ended}"
        )
    opened = log.events[log.sessions[-1]].body if log.sessions else None
    if isinstance(opened, SessionOpened) and opened.broker_id != leader:
        texts.append(
            f"broker {leader} leads, and the last session is that of broker "
            f"{opened.broker_id}, opened at position {log.sessions[-1]}"
        )
    texts += [
        f"call {op.number} of the leader, broker {leader}, was refused with {op.error}"
        for op in tried
        if op.invoked > healed.until and op.claim == last and op.error in _NOT_YOU
    ]
    return [Violation("lockout", log.key, message) for message in texts]


def liveness(operations: Sequence[Operation], log: FinalLog, healed: Healed) -> list[Violation]:
    """A call that began after everything should have been well again was left in doubt."""
    return [
        Violation(
            "liveness",
            log.key,
            f"call {op.number} ({op.what or op.kind} by {op.process}) began after "
            f"{ms_text(healed.until)}, and ended with {op.error}",
            (op.number,),
        )
        for op in operations
        if op.invoked > healed.until and op.outcome == INFO and op.completed is not None
    ]


class Staleness(NamedTuple):
    """How much older followers' answers were than what was known when they were asked."""

    reads: int
    p50_ns: int
    p99_ns: int
    max_ns: int


def staleness(history: History, logs: Mapping[PartitionKey, FinalLog]) -> Staleness:
    """How far followers' answers lagged; never a violation, since followers may lag.

    An answer is stale from the moment the next position was first known: when that became
    durable, or when a call ended that was answered there or at a later position.
    """
    known = {key: _first_known(history.operations, log) for key, log in logs.items()}
    lags = sorted(
        max(0, op.invoked - known[op.key][op.position + 1])
        for op in history.operations
        if op.kind == READ and op.role == FOLLOWER and op.outcome == OK
        if op.position is not None and op.key in known
        if op.position + 1 < len(known[op.key])
    )
    if not lags:
        return Staleness(0, 0, 0, 0)
    last = len(lags) - 1
    return Staleness(len(lags), lags[last // 2], lags[last * 99 // 100], lags[last])


def _first_known(operations: Iterable[Operation], log: FinalLog) -> list[int]:
    """Per position, up to one behind the end: when (ns) anybody could first know of it."""
    times = [NEVER if time is None else time for time in (*log.durable_at, None)]
    for op in operations:
        position, ended = op.position, op.completed
        if op.key != log.key or op.outcome != OK or position is None or ended is None:
            continue
        if 0 <= position < len(times):
            times[position] = min(times[position], ended)
    for position in range(len(times) - 2, -1, -1):
        times[position] = min(times[position], times[position + 1])
    return times
