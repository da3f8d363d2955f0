"""The simulator's replicas: fed, judged, and without an influence on anything else."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.models.events.driven_partition import TIP
from tierledger.actors.calls import PartitionKey
from tierledger.actors.messages import Query
from tierledger.events.event_codec import genesis
from tierledger.events.log_events import Event, SegmentAdded, SegmentUpdated
from tierledger.simulation.campaign.campaign import outcome
from tierledger.simulation.checkers.feed import ReplicaSeen, fed
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.machines.nodes.feeding import Feeding
from tierledger.simulation.machines.scenario.drawing import REPLICAS_EVERY, REPLICAS_FIRST

SEEDS = range(REPLICAS_FIRST, REPLICAS_FIRST + 12 * REPLICAS_EVERY, REPLICAS_EVERY)
KEY = PartitionKey.of(TIP)
SEGMENT = b"s" * 16
SAW = {
    "replica took a snapshot",
    "replica was ready",
    "replica was overtaken",
    "replica went on from where it was",
    "feed message lost",
    "feed closed",
}


def test_replicas_see_bad_days_and_answer_as_the_log_does() -> None:
    marks: Counter[str] = Counter()
    for seed in SEEDS:
        found = outcome(seed)
        marks.update(found.marks)
        assert found.violations == []

    assert marks.keys() >= SAW


def test_a_world_is_the_same_without_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    with_replicas = outcome(REPLICAS_FIRST)
    monkeypatch.setattr(Feeding, "start", lambda _: None)
    without = outcome(REPLICAS_FIRST)

    assert "replica took a snapshot" in with_replicas.marks
    assert "replica took a snapshot" not in without.marks
    assert with_replicas.trace_hash == without.trace_hash


# The checker.


def log() -> FinalLog:
    added = SegmentAdded(SEGMENT, 0, 9, (0, 0), 5, 0, 1, 0, None, False)
    finished = SegmentUpdated(SEGMENT, 1, 1, 0, None)
    events = [Event(0, 1, 0, 1, None, added), Event(1, 1, 0, 1, None, finished)]
    origin = genesis("cluster", TIP.topic_id, TIP.partition)
    return FinalLog(TIP, origin, events, durable_at=[10, 20])


def seen(
    position: int,
    time: int = 100,
    node: str = "r",
    *,
    is_whole: bool = True,
    **answers: tuple[object, ...],
) -> ReplicaSeen:
    asked = tuple((Query(kind, 0, 5), answer) for kind, answer in answers.items())
    return ReplicaSeen(time, node, KEY, position, is_whole, asked)


@pytest.mark.parametrize(
    ("shown", "checkers"),
    [
        ([seen(0, size=(5,), lookup=(None,), highest_offset=(None,))], []),
        ([seen(1, size=(5,), highest_offset=(9,))], []),
        ([seen(1, size=(4,))], ["fed_wrong"]),
        ([seen(1, lookup=(None,))], ["fed_wrong"]),
        ([seen(0, highest_offset=(9,))], ["fed_wrong"]),
        ([seen(0, time=9)], ["fed_early"]),
        ([seen(1, time=19)], ["fed_early"]),
        ([seen(2)], ["fed_early"]),
        ([seen(1), seen(0)], ["fed_back"]),
        ([seen(1, node="a"), seen(0, node="b")], []),
        ([seen(1, is_whole=False), seen(0)], []),
        ([seen(1), seen(0, is_whole=False)], []),
    ],
)
def test_the_checker_finds(shown: list[ReplicaSeen], checkers: list[str]) -> None:
    assert [one.checker for one in fed(shown, {KEY: log()})] == checkers
