import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.storage.flipped_bits import flipped
from tests.models.tiering.tier_trace import segments, segments_of
from tierledger.events.errors import CorruptRemoteData
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tierledger.tiering.formats.producer_snapshot import (
    ProducerState,
    format_producer_snapshot,
    open_transactions,
    parse_producer_snapshot,
)

_INT64 = st.integers(-(2**63), 2**63 - 1)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT16 = st.integers(-(2**15), 2**15 - 1)
_STATES = st.builds(
    ProducerState, _INT64, _INT16, _INT32, _INT64, _INT32, _INT64, _INT32, _INT64
)


def test_kafkas_snapshots_are_read_and_written_as_they_are() -> None:
    for segment in segments():
        data = segment.indexes[IndexType.PRODUCER_SNAPSHOT]

        assert format_producer_snapshot(parse_producer_snapshot(data, "it")) == data


def test_a_snapshot_tells_which_transaction_is_open_at_a_segments_end() -> None:
    first, second, *_, last = segments_of("payments-tx", 0)
    producers = {
        one.producer_id: one
        for one in parse_producer_snapshot(first.indexes[IndexType.PRODUCER_SNAPSHOT], "it")
    }

    assert sorted(producers) == [7, 8, 9]
    assert producers[8].current_txn_first_offset == 81
    assert producers[7].last_offset == 56
    assert producers[7].current_txn_first_offset == -1
    assert open_transactions(producers.values()) == {8: 81}
    snapshot = parse_producer_snapshot(last.indexes[IndexType.PRODUCER_SNAPSHOT], "it")
    assert open_transactions(snapshot) == {}
    assert second.metadata.start_offset == 82


@given(st.lists(_STATES, max_size=5))
def test_what_is_written_is_read_back(producers: list[ProducerState]) -> None:
    assert parse_producer_snapshot(format_producer_snapshot(producers), "it") == producers


def test_a_flipped_bit_anywhere_in_a_snapshot_is_noticed() -> None:
    data = segments_of("payments-tx", 0)[0].indexes[IndexType.PRODUCER_SNAPSHOT]

    for at in range(len(data)):
        damaged = flipped(data, at, 4)
        with pytest.raises(CorruptRemoteData, match=r"^it: expected "):
            parse_producer_snapshot(damaged, "it")


@pytest.mark.parametrize("size", [0, 9, 55, 147, 149])
def test_a_snapshot_of_another_length_is_refused(size: int) -> None:
    data = segments_of("payments-tx", 0)[0].indexes[IndexType.PRODUCER_SNAPSHOT] + b"\0"

    with pytest.raises(CorruptRemoteData):
        parse_producer_snapshot(data[:size], "it")


def test_kafkas_leader_epochs_are_read_and_written_as_they_are() -> None:
    for segment in segments():
        data = segment.indexes[IndexType.LEADER_EPOCH]
        epochs = parse_leader_epochs(data, "it")

        assert epochs == {0: 0}
        assert format_leader_epochs(epochs) == data


@given(st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), max_size=5))
def test_leader_epochs_that_are_written_are_read_back(epochs: dict[int, int]) -> None:
    ordered = dict(zip(sorted(epochs), sorted(epochs.values()), strict=True))

    found = parse_leader_epochs(format_leader_epochs(ordered), "it")

    assert found == ordered
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a version and a count, got b''"),
        (b"0\n", "expected a version and a count"),
        (b"1\n0\n", "expected version 0, got '1'"),
        (b"0\n2\n0 0\n", "expected a count of 1 entries, got '2'"),
        (b"0\nx\n0 0\n", "expected a count of 1 entries, got 'x'"),
        (b"0\n1\n0\n", "expected an epoch and an offset, got '0'"),
        (b"0\n1\n-1 0\n", "expected an epoch and an offset, got '-1 0'"),
        (b"0\n2\n1 5\n1 6\n", "expected an epoch after 1 from 5 on, got 1 6"),
        (b"0\n2\n1 5\n2 4\n", "expected an epoch after 1 from 5 on, got 2 4"),
        (b"0\n1\n0 \xff\n", "expected ASCII text"),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_what_was_found(data: bytes, message: str) -> None:
    with pytest.raises(CorruptRemoteData) as caught:
        parse_leader_epochs(data, "it")

    assert str(caught.value).startswith("it: ")
    assert message in str(caught.value)
