"""The leader epochs of a segment whose metadata contradicts itself."""

import pytest

from tierledger.events.tables.segment_rows import END, EPOCHS, REFERENCED, Row
from tierledger.pipeline.tables.lineage import History, held_epochs


def row(epochs: dict[int, int], end: int) -> Row:
    fields: Row = [None] * 12
    fields[END] = end
    fields[EPOCHS] = [
        one for epoch, start in epochs.items() for one in (epoch, start, REFERENCED)
    ]
    return fields


@pytest.mark.parametrize(
    ("epochs", "held"),
    [
        ({0: 5}, {0: 5}),
        ({0: 99, 1: 100}, {0: 99}),
        ({0: 100}, {}),
        ({0: 7, 1: 7}, {1: 7}),
        ({4: 10, 5: 60, 6: 50}, {4: 10, 6: 50}),
        ({4: 55, 5: 60, 6: 50}, {6: 50}),
    ],
)
def test_an_epoch_without_records_is_not_held(
    epochs: dict[int, int], held: dict[int, int]
) -> None:
    assert held_epochs(row(epochs, 99)) == held


def test_a_history_goes_on_over_a_hole_to_the_nearest_epoch_before_it() -> None:
    history = History()
    for epochs, end in (({0: 0}, 9), ({1: 10}, 19), ({2: 15}, 99), ({3: 200}, 299)):
        history.take(epochs, end)

    # Of epoch 2 the log has 15 to 199 or less; what was written of 1 from there on it has not.
    assert history.followed_back(lambda _epoch, _offset: False) == {0: 0, 1: 10, 2: 15, 3: 200}
    assert history.followed_back(lambda epoch, offset: (epoch, offset) == (1, 199)) == {
        0: 0,
        1: 10,
        3: 200,
    }


def test_without_segments_there_is_no_history() -> None:
    assert History().followed_back(lambda _epoch, _offset: True) == {}
