"""Checkers of what must come about once nothing fails any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tierledger.events.errors import Fenced, NotLeader
from tierledger.events.log_events import SessionOpened
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.calls import INFO, OK, WRITE, Operation
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
