"""The service's own rules are held against the slow model, and a wrong rule is found."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.models.events.driven_partition import GENESIS, TIP, import_of, open_session
from tests.models.simulation.planted_anomalies import rewritten
from tests.models.simulation.recorded_run import (
    FIRST,
    KEY,
    SERDE,
    RecordedRun,
    deleted_partition,
    long_run,
    small_run,
)
from tierledger.events.partition import answers, evolve
from tierledger.events.partition.decide import Accepted, Limits, decide
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.all import check
from tierledger.simulation.checkers.model import unlike_model
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    Add,
    PartitionDelete,
    Update,
)
from tierledger.simulation.history.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.storage.partition.event_log import encode_batch


def imported(records: list[Any]) -> FinalLog:
    """Recorded history, taken over in one batch."""
    state, batches = PartitionState(TIP, GENESIS), list[LoggedBatch]()
    for command in (open_session(FIRST, 1, imports=True), import_of(records)):
        decision = decide(Overlay(state), command, 0, Limits())
        assert isinstance(decision, Accepted)
        encoded = encode_batch(SERDE, decision.events, state.chain_hash)
        batches.append(LoggedBatch(len(batches), encoded.value))
        evolve_all(state, decision.events, encoded.chain_hash)
    return decode_log(SERDE, "cluster", TIP, batches)


def test_right_rules_agree_with_the_model() -> None:
    for run in (small_run(), deleted_partition(), *(long_run(seed, 150) for seed in range(10))):
        assert unlike_model(run.operations, run.log()) == []
        assert check(run.history(), {KEY: run.log()}) == []


def test_recorded_history_agrees_with_the_model() -> None:
    add = Add(b"a" * 16, 0, 9, {0: 0, 1: 5})
    finish = Update(add.segment_id, COPY_FINISHED)
    deletions = [Update(add.segment_id, state) for state in (2, 3)]
    whole = [add, add, finish, finish, *deletions, add, finish, PartitionDelete(2), add]

    for length in range(1, len(whole) + 1):
        assert unlike_model([], imported(whole[:length])) == []


def overlapping() -> RecordedRun:
    """Two segments of which one supersedes the other, and one that is being deleted."""
    run = RecordedRun()
    run.lead(FIRST, 1)
    for name, start, end in ((b"a", 0, 99), (b"b", 50, 99), (b"c", 100, 199)):
        run.write("writer", Add(name * 16, start, end, {0: start}, 7))
        run.write("writer", Update(name * 16, COPY_FINISHED, 5, 6, b"bucket"))
    run.write("writer", Update(b"b" * 16, 2))
    return run


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (answers, "lookup", lambda *_: None),
        (answers, "highest_offset_for_epoch", lambda *_: 7),
        (answers, "remote_log_size", lambda *_: 7),
        (answers, "next_segment_with_txn_index", lambda *_: None),
        (answers, "list_epoch", lambda *_: iter(())),
        (evolve, "unreference", lambda *_: None),
        (evolve, "update_fields", lambda fields, body: fields.__setitem__(1, body.state)),
    ],
)
def test_a_wrong_rule_is_found(
    owner: object, name: str, wrong: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no port between rules and checker: the rule itself is replaced."""
    run = overlapping()
    monkeypatch.setattr(owner, name, wrong)

    found = unlike_model(run.operations, run.log())

    assert {one.checker for one in found} == {"unlike_model"}


def test_an_event_that_the_model_would_drop_is_found() -> None:
    (found,) = unlike_model([], rewritten(small_run().log(), 2, state=3))

    assert "position 2: the model drops SegmentUpdated" in found.message
