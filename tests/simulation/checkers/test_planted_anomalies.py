"""Whatever can go wrong in a run is planted once, and found under the name it should have."""

from typing import Any, NamedTuple

import pytest

from tests.models.simulation.planted_anomalies import (
    NodeRecords,
    all_found,
    altered,
    names,
    node_records,
    relogged,
    replaced,
    rewritten,
)
from tests.models.simulation.recorded_run import long_run, small_run
from tierledger.simulation.checkers.all import Minimums, vacuity
from tierledger.simulation.history.calls import INFO, OK, CallHistory, Operation
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.observations import Healed

RUN = small_run()
LOG = RUN.log()
NODES = node_records(RUN)
RIGHT_RUNS = 200
WELL = Healed(since=30, until=53, broker_id=1)
"""Broker 1 is to lead, opened the last session at 56, and never wrote under it."""

LOOKED_UP, REFUSED, IN_DOUBT = 10, 5, 9
"""A leader's read, a write of what nobody knows, and a write that stands though unanswered."""


class Planted(NamedTuple):
    """One anomaly, and the checkers that must find it."""

    anomaly: str
    checker: str
    operations: list[Operation] = RUN.operations
    log: FinalLog = LOG
    nodes: NodeRecords = NODES
    healed: Healed | None = None


def calls(number: int, **fields: Any) -> list[Operation]:  # noqa: ANN401 - Of that call.
    return altered(RUN.operations, number, **fields)


PLANTED = (
    Planted("acknowledged write is lost", "lost_write", log=relogged(LOG, LOG.events[:8])),
    Planted("acknowledged elsewhere", "lost_write", calls(0, position=3)),
    Planted("failed write stands", "phantom_write", calls(IN_DOUBT, outcome="fail")),
    Planted(
        "write that nobody asked for", "phantom_write", log=replaced(LOG, 7, request_id=b"no")
    ),
    Planted(
        "write stands twice",
        "duplicate_write",
        log=relogged(LOG, [*LOG.events, LOG.events[8]._replace(position=10)]),
    ),
    Planted("other content", "altered_write", log=replaced(LOG, 1, body=LOG.events[3].body)),
    Planted("other broker in it", "altered_write", log=rewritten(LOG, 7, broker_id=7)),
    Planted("acknowledged too early", "early_answer", calls(0, invoked=0, completed=1)),
    Planted("durable before asked for", "early_answer", calls(9, invoked=999, completed=999)),
    Planted("dirty read", "early_answer", calls(LOOKED_UP, position=7)),
    Planted("read from behind the end", "wrong_answer", calls(LOOKED_UP, position=99)),
    Planted("hollow acknowledgement", "hollow_write", calls(4, position=3)),
    Planted("stale read of a leader", "linearizability", calls(LOOKED_UP, position=4)),
    Planted("leader behind its successor", "fencing", calls(LOOKED_UP, position=4)),
    Planted("writes in another order", "linearizability", calls(16, invoked=53, completed=54)),
    Planted("reader led back", "session_reads", calls(15, position=4)),
    Planted("own write not read", "session_reads", calls(19, process="writer-4", position=7)),
    Planted(
        "write not behind a read",
        "session_reads",
        altered(calls(17, process="reader"), 15, position=8),
    ),
    Planted("zombie's event", "fencing", log=replaced(LOG, 6, session=1)),
    Planted("zombie is answered", "fencing", calls(16, claim=(3, 3, 3))),
    Planted("session is opened twice", "fencing", log=rewritten(LOG, 9, number=2)),
    Planted("older announcement wins", "fencing", log=rewritten(LOG, 9, announcement=0)),
    Planted("older assignment wins", "fencing", log=rewritten(LOG, 5, assignment=1)),
    Planted(
        "two leaders of one session",
        "two_leaders",
        nodes=NODES.altered("led", 3, node_life="leader of 2"),
    ),
    Planted(
        "two writers of one batch",
        "two_leaders",
        nodes=NODES._replace(led=[*NODES.led, NODES.led[-1]._replace(node_life="zombie")]),
    ),
    Planted(
        "wrote in another's session", "two_leaders", nodes=NODES.altered("led", 6, session=1)
    ),
    Planted("gap in a feed", "feed_gap", nodes=NODES.without("applied", 9)),
    Planted(
        "batch applied twice",
        "feed_gap",
        nodes=NODES._replace(applied=[*NODES.applied, NODES.applied[-1]]),
    ),
    Planted(
        "follower of another log",
        "feed_gap",
        nodes=NODES.altered("applied", 15, chain_hash=b"another"),
    ),
    Planted(
        "applied what is not durable", "feed_gap", nodes=NODES.altered("applied", 15, time=9)
    ),
    Planted(
        "applied what was lost",
        "feed_gap",
        log=relogged(LOG, LOG.events[:9]),
    ),
    Planted(
        "wrong state at the right position",
        "replay_determinism",
        nodes=NODES.altered("states", 9, digest=b"another"),
    ),
    Planted(
        "state ahead of the log",
        "replay_determinism",
        nodes=NODES.altered("states", -1, position=99),
    ),
    Planted("wrong answer", "wrong_answer", calls(LOOKED_UP, value=b"")),
    Planted(
        "another log's checkpoint", "checkpoint_is_fold", log=replaced(LOG, 4, broker_id=7)
    ),
    Planted(
        "too much custom metadata",
        "lifecycle",
        log=rewritten(LOG, 2, custom_metadata=bytes(129)),
    ),
    Planted("illegal transition", "lifecycle", log=rewritten(LOG, 2, state=3)),
    Planted("added twice", "lifecycle", log=rewritten(LOG, 3, segment_id=b"\x01" * 16)),
    Planted("log time goes back", "lifecycle", log=replaced(LOG, 8, log_time_ms=0)),
    Planted(
        "right write is refused",
        "wrong_refusal",
        calls(16, outcome="fail", position=None, error="InvalidStateTransition"),
    ),
    Planted(
        "known segment is unknown",
        "wrong_refusal",
        calls(3, outcome="fail", position=None, error="RemoteResourceNotFound"),
    ),
    Planted("leader is locked out", "lockout", healed=WELL),
    Planted(
        "another's session in the end",
        "lockout",
        log=relogged(LOG, LOG.events[:9]),
        healed=WELL,
    ),
    Planted(
        "in doubt though all is well",
        "liveness",
        calls(18, outcome=INFO, position=None, error="OutcomeUnknown"),
        healed=WELL,
    ),
    Planted("two calls at once", "assumptions", calls(3, process="writer-4", completed=10_000)),
)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.anomaly)
def test_a_planted_anomaly_is_found_under_its_name(planted: Planted) -> None:
    found = all_found(
        RUN,
        operations=planted.operations,
        log=planted.log,
        nodes=planted.nodes,
        healed=planted.healed,
    )

    assert planted.checker in names(found)


def test_a_run_in_which_nothing_happened_is_vacuous() -> None:
    (found,) = vacuity(CallHistory([], []), {}, Minimums(ok_writes=1))

    assert found.checker == "vacuous"


def test_every_checker_has_an_anomaly_that_it_names() -> None:
    assert {one.checker for one in PLANTED} == {
        "altered_write", "assumptions", "checkpoint_is_fold", "duplicate_write",
        "early_answer", "feed_gap", "fencing", "hollow_write", "lifecycle", "linearizability",
        "liveness", "lockout", "lost_write", "phantom_write", "replay_determinism",
        "session_reads", "two_leaders", "wrong_answer", "wrong_refusal",
    }  # fmt: skip


def test_right_runs_raise_no_false_alarm() -> None:
    calls_made = 0
    for seed in range(RIGHT_RUNS):
        run = long_run(seed, 80)

        assert all_found(run) == []
        calls_made += sum(op.outcome == OK for op in run.operations)

    assert calls_made > RIGHT_RUNS * 50
