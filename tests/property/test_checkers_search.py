"""The sweep that judges real-time order agrees with a search through all orders."""

from random import Random

import pytest

from tests.models.driven_partition import GENESIS, TIP
from tests.models.recorded_run import FIRST, KEY
from tierledger.actors.calls import LEADER
from tierledger.actors.messages import Query
from tierledger.events.log_events import Event, SessionClosed
from tierledger.simulation.checkers_order import linearizability
from tierledger.simulation.final_log import FinalLog
from tierledger.simulation.history import FAIL, INFO, OK, READ, WRITE, Operation

HISTORIES = 3000
CALLS_MAX = 6
NEVER = 10**9


def small_history(random: Random, *, timed: bool) -> tuple[list[Operation], FinalLog]:
    """A few calls at random times with answers that are near the truth, and a log."""
    length = random.randint(1, 4)
    requests = [random.choice((None, b"%d" % at)) for at in range(length)]
    operations = []
    for request in requests:
        if request is not None:
            outcome = random.choice((OK, OK, INFO))
            operations.append(call(random, WRITE, request, outcome, requests.index(request)))
    while len(operations) < CALLS_MAX and random.random() < 0.8:
        kind = random.choice((READ, READ, WRITE))
        outcome = random.choice((OK, OK, OK, FAIL, INFO))
        request = b"" if kind == READ else b"absent %d" % len(operations)
        operations.append(call(random, kind, request, outcome, random.randrange(-1, length)))
    random.shuffle(operations)
    numbered = [op._replace(number=at) for at, op in enumerate(operations)]
    events = [
        Event(at, 1, 0, 1, request, SessionClosed(1, "filler"))
        for at, request in enumerate(requests)
    ]
    times = sorted(random.randint(3, 14) for _ in requests)
    log = FinalLog(TIP, GENESIS, events, durable_at=times if timed else None)
    return numbered, log


def call(random: Random, kind: str, request: bytes, outcome: str, position: int) -> Operation:
    # Answers come roughly in the log's order: else hardly any history would be right.
    begun = max(0, 3 * position + random.randint(-4, 4))
    ended = begun + random.randint(0, 6)
    answered = position if outcome == OK else None
    query = Query("size") if kind == READ else None
    return Operation(
        0, "p", kind, KEY, LEADER, FIRST, request, "", query,
        begun, ended, outcome, answered, b"", False, "",
    )  # fmt: skip


Step = tuple[int | None, int | None, int, int]
"""What it appends or where it reads, begun, ended."""


def steps_of(operations: list[Operation], log: FinalLog) -> list[Step]:
    """All that takes effect at one moment, with the events that nobody here asked for."""
    steps: list[Step] = []
    owned = set()
    for op in operations:
        assert op.completed is not None
        stands = log.requests.get(op.request)
        if stands is not None and op.outcome in (OK, INFO):
            owned.add(stands)
            ended = op.completed if op.outcome == OK else NEVER
            durable = log.durable_at[stands]
            ended = ended if durable is None else min(ended, durable)
            steps.append((stands, None, op.invoked, ended))
        elif op.outcome == OK:
            steps.append((None, op.position, op.invoked, op.completed))
    for position, durable in enumerate(log.durable_at):
        if position not in owned:
            steps.append((position, None, -1, NEVER if durable is None else durable))
    return steps


def some_order_explains(steps: list[Step], end: int = -1) -> bool:
    """Try each call that may be next, on a log that ends at `end` so far."""
    if not steps:
        return True
    first_end = min(ended for *_, ended in steps)
    for at, (appends, reads, begun, _) in enumerate(steps):
        if begun > first_end:
            continue  # Another had ended before this one began.
        if appends is not None and appends != end + 1:
            continue
        if reads is not None and reads != end:
            continue
        after = end if appends is None else appends
        if some_order_explains(steps[:at] + steps[at + 1 :], after):
            return True
    return False


@pytest.mark.parametrize("timed", [False, True], ids=["live", "with durable times"])
def test_the_sweep_and_the_search_agree(timed: bool) -> None:
    random = Random(f"search {timed}")
    verdicts = {True: 0, False: 0}

    for _ in range(HISTORIES):
        operations, log = small_history(random, timed=timed)

        explained = some_order_explains(steps_of(operations, log))

        found = linearizability(operations, log)
        assert (found == []) == explained, (operations, log.requests, log.durable_at, found)
        verdicts[explained] += 1

    assert min(verdicts.values()) > HISTORIES // 10, verdicts
