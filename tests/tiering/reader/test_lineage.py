"""The segments that are part of a log, by their leader epochs."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tierledger.events.lineage import Lineage, without_empty_epochs

LOCAL = {0: 0, 1: 10, 2: 20, 3: 30, 4: 40, 5: 50, 7: 70}


@pytest.mark.parametrize(
    ("end", "epochs", "why"),
    [
        (85, {5: 55, 6: 60, 7: 70}, "epoch 6 is not the log's"),
        (45, {1: 15, 2: 20, 4: 40}, "epoch 3 is missing"),
        (95, LOCAL, "it ends behind the log"),
        (90, LOCAL, "it ends at the log's end, which is no record's offset"),
        (25, {1: 5, 2: 20}, "it has epoch 1 where the log had epoch 0"),
        (35, {1: 15, 2: 20}, "it has epoch 2 where the log has epoch 3"),
        (30, {1: 15, 2: 20}, "its last record is of epoch 3 in the log"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_history_is_not_within(end: int, epochs: dict[int, int], why: str) -> None:
    assert not Lineage(LOCAL).holds(epochs, end, 90), why


def test_epochs_without_records_do_not_count() -> None:
    given = {0: 0, 1: 0, 2: 0, 3: 30, 4: 40, 5: 60, 6: 60, 7: 70, 8: 70}

    assert without_empty_epochs(given) == {2: 0, 3: 30, 4: 40, 6: 60, 8: 70}
    assert without_empty_epochs({}) == {}
    # Neither in the segment nor in the log, and whichever of the two has them.
    assert Lineage(given).holds({2: 5, 3: 30, 4: 40, 5: 60, 6: 60}, 65, 90)
    assert not Lineage(given).holds({2: 5, 3: 30, 4: 40, 5: 60}, 65, 90)


def test_a_log_without_epochs_has_no_segments() -> None:
    assert Lineage({}).first_epoch is None
    assert not Lineage({}).holds({0: 0}, 5, 10)


EPOCHS = st.dictionaries(st.integers(0, 6), st.integers(0, 12), min_size=1).map(
    # Offsets ascend with the epochs, as they do in any log.
    lambda found: dict(zip(sorted(found), sorted(found.values()), strict=True))
)


@settings(max_examples=500)
@given(log=EPOCHS, segment=EPOCHS, end=st.integers(0, 14), log_end=st.integers(0, 14))
def test_the_test_is_the_one_that_kafka_describes(
    log: dict[int, int], segment: dict[int, int], end: int, log_end: int
) -> None:
    assert Lineage(log).holds(segment, end, log_end) == slowly(segment, end, log_end, log)


@given(log=EPOCHS, cut=st.data(), log_end=st.integers(0, 14))
def test_every_piece_of_a_log_is_within_it(
    log: dict[int, int], cut: st.DataObject, log_end: int
) -> None:
    first = min(log.values())
    start = cut.draw(st.integers(first, max(first, log_end)))
    end = cut.draw(st.integers(start, 14))
    begun = [epoch for epoch, offset in log.items() if offset <= start]
    piece = {begun[-1]: start} | {
        epoch: offset for epoch, offset in log.items() if start < offset <= end
    }

    assert Lineage(log).holds(piece, end, log_end) == (end < log_end)


def slowly(segment: Mapping[int, int], end: int, log_end: int, log: Mapping[int, int]) -> bool:
    """Kafka's test, sentence by sentence."""
    segment, log = with_records(segment), with_records(log)
    last = max(segment)
    if not min(log) <= last <= max(log):
        return False
    first = min(epoch for epoch in segment if epoch >= min(log))
    for epoch in (one for one in segment if one >= first):
        if epoch not in log:
            return False
        if epoch == first and min(log) < epoch and segment[epoch] < log[epoch]:
            return False
        after = higher(log, epoch)
        if epoch == last and after is not None and end > after[1] - 1:
            return False
        if epoch != last and higher(segment, epoch) != after:
            return False
    return end < log_end


def with_records(epochs: Mapping[int, int]) -> dict[int, int]:
    found = {}
    for epoch, offset in epochs.items():
        after = higher(epochs, epoch)
        if after is None or after[1] != offset:
            found[epoch] = offset
    return found


def higher(epochs: Mapping[int, int], epoch: int) -> tuple[int, int] | None:
    later = [other for other in epochs if other > epoch]
    return (min(later), epochs[min(later)]) if later else None
