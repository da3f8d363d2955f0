"""Objects arrive unchanged, whichever way they were pickled."""

import pickle
from dataclasses import dataclass, field, fields

import pytest

from tests.models.actors.local_world import segment
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.quick_pickle import QuickPickle


@dataclass(frozen=True, slots=True)
class Pair(QuickPickle):
    left: int
    right: str = field(compare=False)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_field_arrives_also_those_that_are_not_compared(protocol: int) -> None:
    arrived = pickle.loads(pickle.dumps(Pair(1, "one"), protocol))

    assert (arrived.left, arrived.right) == (1, "one")


def test_a_segment_arrives_equal_and_whole() -> None:
    sent = segment(3)

    arrived = pickle.loads(pickle.dumps(sent))

    assert arrived == sent
    names = [one.name for one in fields(RemoteLogSegmentMetadata)]
    assert [getattr(arrived, name) for name in names] == [getattr(sent, name) for name in names]
    tip = arrived.remote_log_segment_id.topic_id_partition
    assert tip.topic == sent.remote_log_segment_id.topic_id_partition.topic != ""
