"""Compares checkers of order with brute force, which tries all orders and compares all pairs.

In a history two processes call a log of a few events. Their answers are near the truth, so that
more than half of the histories are right. Some calls have no known end, and in every second
history the times at which events became durable are unknown. To compare any number, run:

    python -m tests.models.simulation.search_agreement 50000
"""

import sys
from collections import Counter
from random import Random
from typing import NamedTuple

from tests.models.events.driven_partition import GENESIS, TIP
from tests.models.simulation.recorded_run import FIRST, KEY
from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.messages import Query
from tierledger.events.log_events import Event, SessionClosed
from tierledger.simulation.checkers.order import linearizability, session_reads
from tierledger.simulation.history.calls import FAIL, INFO, OK, READ, WRITE, Operation
from tierledger.simulation.history.final_log import FinalLog

CALLS_MAX = 6
NEVER = 10**9
SIZE = Query("size")

Step = tuple[int | None, int | None, int, int]
"""The position that a call appends, or the one that it reads at; its begin and its end."""


class SmallHistory(NamedTuple):
    """A few calls by two processes, and the log at the end."""

    operations: list[Operation]
    log: FinalLog


class Agreement(NamedTuple):
    """How often checkers and brute force agreed, and how often both found no mistake."""

    histories: int
    agreed: int
    right: Counter[str]
    """By checker: the number of histories without a mistake."""
    disagreed: list[SmallHistory]


def small_history(random: Random, *, timed: bool) -> SmallHistory:
    """A history of two processes, each of which makes one call after the other."""
    length = random.randint(1, 4)
    requests: list[bytes | None] = [None] * length
    operations: list[Operation] = []
    clocks, lives = [random.randint(0, 4), random.randint(0, 8)], [0, 0]
    for number in range(random.randint(2, CALLS_MAX)):
        who = random.randrange(2)
        begun = clocks[who] + random.randint(0, 4)
        ended = begun + random.randint(1, 5)
        # Positions roughly follow the time, as else hardly any history would be right.
        position = min(length - 1, max(-1, (begun + random.randint(-9, 9)) // 4))
        op = _call(random, number, position, requests)
        operations.append(
            op._replace(process=f"p{who}/{lives[who]}", invoked=begun, completed=ended)
        )
        clocks[who] = ended
        lives[who] += op.outcome == INFO
    operations.sort(key=lambda op: (op.invoked, op.number))
    numbered = [op._replace(number=at) for at, op in enumerate(operations)]
    events = [
        Event(at, 1, 0, 1, request, SessionClosed(1, "filler"))
        for at, request in enumerate(requests)
    ]
    times = sorted(random.randint(2, 20) for _ in requests) if timed else None
    return SmallHistory(numbered, FinalLog(TIP, GENESIS, events, durable_at=times))


def _call(
    random: Random, number: int, position: int, requests: list[bytes | None]
) -> Operation:
    """A call with the answer `position`; a write may have its event at that position."""
    drawn = random.random()
    kind = READ if drawn < 0.5 else WRITE
    outcome = random.choices((OK, INFO, FAIL), (8, 2, 1))[0]
    request = b"" if kind == READ else b"%d" % number
    role, stale = LEADER, False
    if kind == READ:
        role = FOLLOWER if random.random() < 0.3 else LEADER
        stale = random.random() < 0.1
    elif position >= 0 and requests[position] is None and outcome != FAIL:
        requests[position] = request if random.random() < 0.8 else None
    answered = position if outcome == OK else None
    return Operation(
        number, "", kind, KEY, role, FIRST, request, "", SIZE if kind == READ else None,
        0, 0, outcome, answered, b"", stale, "",
    )  # fmt: skip


def steps_of(history: SmallHistory) -> list[Step]:
    """All steps that take effect at one moment, events without a call included."""
    log, steps, owned = history.log, list[Step](), set[int]()
    for op in history.operations:
        assert op.completed is not None
        stands = log.requests.get(op.request)
        if stands is not None and op.outcome in (OK, INFO):
            owned.add(stands)
            ended = op.completed if op.outcome == OK else NEVER
            durable = log.durable_at[stands]
            ended = ended if durable is None else min(ended, durable)
            steps.append((stands, None, op.invoked, ended))
        elif op.outcome == OK and op.role == LEADER and not op.stale:
            steps.append((None, op.position, op.invoked, op.completed))
    for position, durable in enumerate(log.durable_at):
        if position not in owned:
            steps.append((position, None, -1, NEVER if durable is None else durable))
    return steps


def some_order_explains(steps: list[Step], end: int = -1) -> bool:
    """Whether some order of `steps` is possible on a log that so far ends at `end`."""
    if not steps:
        return True
    first_end = min(ended for *_, ended in steps)
    for at, (appends, reads, begun, _) in enumerate(steps):
        if begun > first_end:
            continue  # Another step had ended before this one began.
        if appends is not None and appends != end + 1:
            continue
        if reads is not None and reads != end:
            continue
        after = end if appends is None else appends
        if some_order_explains(steps[:at] + steps[at + 1 :], after):
            return True
    return False


def no_pair_goes_back(history: SmallHistory) -> bool:
    """Whether no process read behind an earlier call of its own, and each appended ahead."""
    answered = [op for op in history.operations if op.outcome == OK]
    for at, later in enumerate(answered):
        for earlier in answered[:at]:
            assert earlier.position is not None
            assert later.position is not None
            if earlier.process != later.process:
                continue
            is_excused = later.stale and later.role == LEADER
            if later.position < earlier.position and not is_excused:
                return False
            appended = history.log.requests.get(later.request) == later.position
            if appended and later.position == earlier.position:
                return False
    return True


def compare(seed: str, histories: int) -> Agreement:
    """Judge `histories` histories in both ways, every second one with durable times."""
    random = Random(seed)
    right: Counter[str] = Counter()
    disagreed: list[SmallHistory] = []
    for count in range(histories):
        history = small_history(random, timed=count % 2 == 1)
        in_order = not linearizability(*history)
        in_session = not session_reads(*history)
        right["linearizability"] += in_order
        right["session_reads"] += in_session
        explained = some_order_explains(steps_of(history))
        if (in_order, in_session) != (explained, no_pair_goes_back(history)):
            disagreed.append(history)
    return Agreement(histories, histories - len(disagreed), right, disagreed)


if __name__ == "__main__":
    found = compare("by hand", int(sys.argv[1]))
    sys.stdout.write(
        f"agreed {found.agreed} of {found.histories} histories; right: {dict(found.right)}\n"
    )
    sys.exit(found.agreed != found.histories)
