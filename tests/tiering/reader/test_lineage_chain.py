"""The part of a segment that belongs to a lineage."""

from collections.abc import Mapping

import pytest

from tests.models.tiering.written_log import TIP
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.reader.lineage_chain import EpochRange, LineageChain

CHAIN = LineageChain({0: 0, 1: 10, 2: 20, 3: 30, 4: 40, 5: 50, 6: 70, 7: 70}, 89)
"""Epoch 6 wrote nothing."""


def segment(start: int, end: int, epochs: Mapping[int, int]) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(TIP, Uuid(bytes(16))),
        start_offset=start,
        end_offset=end,
        max_timestamp_ms=0,
        broker_id=1,
        event_timestamp_ms=0,
        segment_size_in_bytes=1,
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        segment_leader_epochs=epochs,
    )


@pytest.mark.parametrize(
    ("offset", "epoch"),
    [(0, 0), (9, 0), (10, 1), (69, 5), (70, 7), (89, 7), (90, None), (-1, None)],
)
def test_each_offset_has_the_epoch_that_wrote_it(offset: int, epoch: int | None) -> None:
    found = CHAIN.range_for(offset)

    assert (None if found is None else found.epoch) == epoch


@pytest.mark.parametrize(
    ("start", "end", "epochs", "offset", "shared_end"),
    [
        # Within the lineage, as a broker's own test of it has them.
        (15, 35, {1: 15, 2: 20, 3: 30}, 15, 35),
        (15, 35, {1: 15, 2: 20, 3: 30}, 33, 35),
        (15, 19, {1: 15}, 15, 19),
        (0, 5, {0: 0}, 3, 5),
        (70, 75, {7: 70}, 70, 75),
        (15, 29, {1: 15, 2: 20}, 16, 29),
        (55, 75, {5: 55, 6: 70, 7: 70}, 55, 75),
        # Up to where it parts from it.
        (55, 85, {5: 55, 6: 60, 7: 70}, 55, 59),
        (15, 45, {1: 15, 2: 20, 4: 40}, 15, 29),
        (5, 25, {0: 5, 2: 20}, 5, 9),
        (15, 35, {1: 15, 2: 25}, 15, 19),
        (15, 35, {1: 15, 3: 18}, 15, 17),
        (80, 120, {7: 80}, 80, 89),
        (80, 120, {7: 80, 8: 100}, 85, 89),
        # Behind that, and before its first epoch, it holds nothing of it.
        (55, 85, {5: 55, 6: 60, 7: 70}, 65, None),
        (5, 25, {1: 5, 2: 20}, 5, None),
        (0, 25, {1: 15, 2: 20}, 12, None),
        (0, 25, {1: 15, 2: 20}, 15, 25),
        (80, 120, {7: 80}, 90, None),
    ],
)
def test_a_segment_is_read_up_to_where_it_leaves_the_lineage(
    start: int, end: int, epochs: Mapping[int, int], offset: int, shared_end: int | None
) -> None:
    assert CHAIN.shared_end(segment(start, end, epochs), offset) == shared_end


def test_of_one_epoch_a_segment_holds_what_both_know() -> None:
    two = EpochRange(2, 20, 29)

    assert CHAIN.shared_in(segment(15, 35, {1: 15, 2: 20, 3: 30}), two) == two
    assert CHAIN.shared_in(segment(15, 35, {1: 15, 2: 25}), two) == EpochRange(2, 25, 29)
    assert CHAIN.shared_in(segment(15, 35, {1: 15, 3: 30}), two) is None
