"""The checker of what replicas were fed, and of what they answered."""

from __future__ import annotations

import pytest

from tests.models.events.driven_partition import TIP
from tierledger.actors.calls import PartitionKey
from tierledger.actors.messages import Query
from tierledger.events.event_codec import genesis
from tierledger.events.log_events import Event, SegmentAdded, SegmentUpdated
from tierledger.simulation.checkers.feed import ReplicaSeen, fed
from tierledger.simulation.history.final_log import FinalLog

KEY = PartitionKey.of(TIP)
SEGMENT = b"s" * 16


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
