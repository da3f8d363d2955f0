"""A batch decided through one overlay is what deciding one command after another gives."""

from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.driven_partition import (
    CLAIM,
    DrivenPartition,
    command_of,
    import_of,
    open_session,
)
from tests.models.histories import partition_deletes, updates
from tests.models.slow_model import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    Record,
    Update,
)
from tierledger.events import commands as cmd
from tierledger.events.log_events import Event, Origin
from tierledger.events.partition.decide import Accepted, Limits, decide
from tierledger.events.partition.invariants import check
from tierledger.events.partition.overlay import Overlay

IDS = st.sampled_from([bytes([one]) * 16 for one in range(1, 4)])
CLAIMS = st.sampled_from([CLAIM] * 15 + [cmd.Claim(2, 1, 1)])
ORIGINS = st.builds(Origin, st.just(1), st.none() | st.binary(min_size=1, max_size=1))
LIMITS = Limits(custom_metadata_bytes_max=5, tombstone_retention_ms=10)
PATH = (COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED)

Timed: TypeAlias = "tuple[cmd.Command, int]"


@st.composite
def lives(draw: st.DrawFn) -> list[Record]:
    """A stretch of one segment's life, as it should be."""
    one, begin = draw(IDS), draw(st.integers(0, 3))
    states = PATH[begin : begin + draw(st.integers(1, 4))]
    return [Update(one, state) if state else Add(one, 0, 9, {0: 0}) for state in states]


def records() -> st.SearchStrategy[list[Record]]:
    return lives() | lives() | updates(IDS).map(lambda one: [one])


@st.composite
def writes(draw: st.DrawFn, *, imports: bool) -> list[Timed]:
    """Some records, as commands or in one import, shortly after one another."""
    written, now_ms = draw(records()), draw(st.integers(0, 60))
    if imports:
        first, claim = draw(st.integers(0, 20)), draw(CLAIMS)
        return [(import_of(written, first, claim), now_ms)]
    return [(command_of(one, draw(CLAIMS), draw(ORIGINS)), now_ms) for one in written]


@st.composite
def openings(draw: st.DrawFn) -> list[Timed]:
    """Another session of either kind, or the end of one; nearly always of the same broker."""
    claim = draw(CLAIMS)
    if draw(st.integers(0, 3)) == 0:
        return [(cmd.CloseSession(claim, "shutdown"), 0)]
    epoch = draw(st.none() | st.integers(1, 3))
    opening = open_session(claim, draw(st.integers(1, 9)), epoch, imports=draw(st.booleans()))
    return [(opening, 0)]


def dropped_at(now_ms: int) -> list[Timed]:
    return [(cmd.DropTombstones(), now_ms)]


@st.composite
def batches(draw: st.DrawFn) -> list[Timed]:
    drops = st.builds(dropped_at, st.integers(0, 80))
    kinds = [writes(imports=True), writes(imports=False)] * 4 + [drops] * 3 + [openings()]
    batch = [one for step in draw(st.lists(st.one_of(kinds), max_size=10)) for one in step]
    if draw(st.integers(0, 9)) == 0:
        deletions = draw(st.lists(partition_deletes(), max_size=4))
        batch += [(command_of(step[0]), 0) for step in deletions]
    return batch


@settings(max_examples=4 * settings().max_examples)
@given(st.booleans(), batches(), batches())
def test_a_batch_leads_where_its_commands_lead_one_by_one(
    imports: bool, before: list[Timed], batch: list[Timed]
) -> None:
    together, alone = DrivenPartition(LIMITS), DrivenPartition(LIMITS)
    for command, now_ms in [(open_session(CLAIM, 1, imports=imports), 0), *before]:
        together.apply(command, now_ms)
        alone.apply(command, now_ms)
    view, events = Overlay(together.state), list[Event]()
    digest = together.state.digest()

    for command, now_ms in batch:
        decision = decide(view, command, now_ms, LIMITS)
        apart = alone.apply(command, now_ms)

        assert str(decision) == str(apart)
        if isinstance(decision, Accepted):
            assert decision == apart
            events += decision.events

    assert together.state.digest() == digest
    together.commit(events)
    assert together.stored == alone.stored
    assert together.state.digest() == alone.state.digest()
    check(together.state)
