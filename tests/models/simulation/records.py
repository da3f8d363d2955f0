"""Records of runs: of the service in miniature, and arbitrary ones by hypothesis."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.models.events.driven_partition import TIP
from tests.models.simulation.recorded_run import KEY, RecordedRun, small_run
from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.messages import Query
from tierledger.events.commands import Claim
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.simulation.checkers.all import Minimums
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.calls import (
    FAIL,
    INFO,
    OK,
    READ,
    WRITE,
    CallHistory,
    NodeNote,
    Operation,
)
from tierledger.simulation.history.final_log import LoggedBatch
from tierledger.simulation.history.observations import Applied, Healed, Led, StateSeen
from tierledger.simulation.record.record import (
    Observations,
    RecordedCheckpoint,
    RecordedLog,
    RecordSettings,
    RunRecord,
)


def record_of(run: RecordedRun, minimums: Minimums | None = None) -> RunRecord:
    """The record of a run of the service in miniature."""
    return RunRecord(
        RecordSettings("cluster", "a test", 128, check_every=3, minimums=minimums),
        run.history(),
        [RecordedLog(TIP, list(run.batches))],
        [RecordedCheckpoint(KEY, *one) for one in run.checkpoints],
        [],
    )


def small_record() -> RunRecord:
    return record_of(small_run(), Minimums(ok_writes=1, leadership_changes=2))


_TIMES = st.integers(0, 2**63)
_KEYS = st.builds(PartitionKey, st.binary(min_size=16, max_size=16), st.integers(0, 2**31 - 1))
_TEXTS = st.text(max_size=20)
_CALLS = [op for op in small_run().operations if op.wanted is not None]
"""Calls that wrote something; other calls take their values from these."""


@st.composite
def _operations(draw: st.DrawFn, number: int) -> Operation:
    """An arbitrary call, possible or not."""
    outcome = draw(st.sampled_from((OK, FAIL, INFO)))
    is_heard = outcome != INFO or draw(st.booleans())
    query = st.builds(Query, _TEXTS, st.integers(), st.integers())
    wanted = st.sampled_from([op.wanted for op in _CALLS])
    begun = draw(_TIMES)
    return Operation(
        number=number,
        process=draw(_TEXTS),
        kind=draw(st.sampled_from((READ, WRITE))),
        key=draw(_KEYS),
        role=draw(st.sampled_from((LEADER, FOLLOWER))),
        claim=draw(st.none() | st.builds(Claim, st.integers(), st.integers(), st.integers())),
        request=draw(st.binary(max_size=16)),
        what=draw(_TEXTS),
        query=draw(st.none() | query),
        invoked=begun,
        completed=begun + draw(_TIMES) if is_heard else None,
        outcome=outcome,
        position=draw(st.integers(-1, 2**63)) if outcome == OK else None,
        value=draw(st.binary(max_size=16)) if is_heard else b"",
        stale=draw(st.booleans()) if is_heard else False,
        error=draw(_TEXTS) if is_heard else "",
        wanted=draw(st.none() | wanted),
    )


@st.composite
def _histories(draw: st.DrawFn) -> CallHistory:
    operations = [draw(_operations(number)) for number in range(draw(st.integers(0, 6)))]
    notes = st.lists(
        st.builds(NodeNote, _TIMES, _TEXTS, _TEXTS, st.none() | _KEYS, _TEXTS), max_size=4
    )
    return CallHistory(operations, sorted(draw(notes), key=lambda note: note.time))


def _logs() -> SearchStrategy[list[RecordedLog]]:
    batches = st.builds(
        LoggedBatch, st.integers(0), st.binary(max_size=40), st.none() | st.integers(0)
    )
    tips = st.builds(
        lambda key, topic: TopicIdPartition(Uuid(key.topic_id), key.partition, topic),
        _KEYS,
        _TEXTS,
    )
    logs = st.builds(RecordedLog, tips, st.lists(batches, max_size=4))
    return st.lists(logs, max_size=3, unique_by=lambda log: log.topic_id_partition)


def _minimums() -> SearchStrategy[Minimums]:
    number = st.integers(0, 2**40)
    return st.builds(
        Minimums, number, number, number, number, st.frozensets(_TEXTS, max_size=3)
    )


def _observations() -> SearchStrategy[Observations]:
    position = st.integers(-1)
    some_bytes = st.binary(max_size=16)
    states = st.builds(StateSeen, _TIMES, _TEXTS, _TEXTS, _KEYS, position, some_bytes)
    applied = st.builds(Applied, _TIMES, _TEXTS, _KEYS, position, position, some_bytes)
    led = st.builds(Led, _TIMES, _TEXTS, _KEYS, st.integers(0), position)
    healed = st.builds(Healed, _TIMES, _TIMES, st.integers(0))
    return st.builds(
        Observations,
        *(st.lists(one, max_size=2) for one in (states, applied, led)),
        st.dictionaries(_KEYS, healed, max_size=2),
    )


def records() -> SearchStrategy[RunRecord]:
    """Any record that can be written to a file; most are of impossible runs."""
    settings = st.builds(
        RecordSettings,
        _TEXTS,
        _TEXTS,
        st.none() | st.integers(0),
        st.integers(0),
        st.none() | _minimums(),
    )
    checkpoints = st.builds(RecordedCheckpoint, _KEYS, st.integers(-1), st.binary(max_size=16))
    found = st.builds(
        Violation,
        _TEXTS,
        st.none() | _KEYS,
        _TEXTS,
        st.lists(st.integers(0), max_size=3).map(tuple),
    )
    return st.builds(
        RunRecord,
        settings,
        _histories(),
        _logs(),
        st.lists(checkpoints, max_size=3),
        st.lists(found, max_size=3),
        _observations(),
    )
