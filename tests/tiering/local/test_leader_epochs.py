"""Leader epochs of a log, as Kafka's cache answers for them."""

import pytest

from tierledger.tiering.local.leader_epochs import (
    NOWHERE,
    OffsetAndEpoch,
    end_offset_for,
    epoch_for_offset,
    epochs_between,
    epochs_from,
    epochs_until,
)

EPOCHS = {0: 0, 1: 100, 2: 200}


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, {0: 0, 1: 100, 2: 200}),
        (99, {0: 99, 1: 100, 2: 200}),
        (100, {1: 100, 2: 200}),
        (150, {1: 150, 2: 200}),
        (500, {2: 500}),
    ],
)
def test_a_later_start_keeps_the_epoch_it_is_in(start: int, expected: dict[int, int]) -> None:
    assert epochs_from(EPOCHS, start) == expected


def test_a_log_that_begins_before_its_first_epoch_keeps_all() -> None:
    assert epochs_from({3: 10}, 5) == {3: 10}
    assert epochs_from({}, 5) == {}


@pytest.mark.parametrize(
    ("end", "expected"), [(0, {}), (100, {0: 0}), (101, {0: 0, 1: 100}), (999, EPOCHS)]
)
def test_an_earlier_end_loses_the_epochs_behind_it(end: int, expected: dict[int, int]) -> None:
    assert epochs_until(EPOCHS, end) == expected


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 150, {0: 0, 1: 100}),
        (150, 250, {1: 150, 2: 200}),
        (100, 200, {1: 100}),
        (250, 300, {2: 250}),
    ],
)
def test_a_segment_has_its_own_epochs(start: int, end: int, expected: dict[int, int]) -> None:
    assert epochs_between(EPOCHS, start, end) == expected


def test_a_segment_that_the_logs_beginning_cuts_starts_its_first_epoch_there() -> None:
    assert epochs_between({1: 120, 2: 200}, 0, 250) == {1: 120, 2: 200}


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (99, 0), (100, 1), (10_000, 2)])
def test_an_offset_belongs_to_the_last_epoch_begun_by_then(offset: int, epoch: int) -> None:
    assert epoch_for_offset(EPOCHS, offset) == epoch


def test_an_offset_before_all_epochs_was_written_in_none() -> None:
    assert epoch_for_offset({4: 10}, 9) is None


def test_of_epochs_that_begin_together_the_last_wrote_the_record() -> None:
    assert epoch_for_offset({0: 0, 1: 5, 2: 5}, 5) == 2


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (5, OffsetAndEpoch(300, 5)),  # The newest ends where the log does.
        (1, OffsetAndEpoch(100, 1)),
        (3, OffsetAndEpoch(200, 3)),
        (2, OffsetAndEpoch(100, 1)),  # Unknown here: ended where the next one began.
        (4, OffsetAndEpoch(200, 3)),
        (0, OffsetAndEpoch(50, 0)),  # Before all.
        (6, NOWHERE),  # Behind all.
        (-1, NOWHERE),
    ],
)
def test_an_epoch_ends_where_the_next_begins(epoch: int, expected: OffsetAndEpoch) -> None:
    assert end_offset_for({1: 50, 3: 100, 5: 200}, epoch, log_end_offset=300) == expected


def test_without_epochs_nothing_has_an_end() -> None:
    assert end_offset_for({}, 0, log_end_offset=10) == NOWHERE
