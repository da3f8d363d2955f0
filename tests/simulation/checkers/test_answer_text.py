"""The differences between an answer and the one that follows from the log."""

import pytest

from tierledger.events.tables.segment_rows import END, FINISHED_AT, pack_row
from tierledger.simulation.checkers.answer_text import answer_text, difference


def row(name: int, **changed: int) -> bytes:
    fields = [bytes([name]) * 16, 1, 0, 9, [0, 0, 0], 100, 5, 1, 7, None, True, 3]
    for at, value in changed.items():
        fields[{"end": END, "finished_at": FINISHED_AT}[at]] = value
    return pack_row(fields)


A, B = row(0xAA), row(0xBB)


@pytest.mark.parametrize(
    ("answer", "expected", "text"),
    [
        (row(0xAA, end=8, finished_at=2), A,
         "segment aaaaaaaa has end 8, the log says 9; finished at 2, the log says 3"),
        ([A, row(0xBB, finished_at=2)], [A, B],
         "segment bbbbbbbb has finished at 2, the log says 3"),
        ([A], [A, B], "segment bbbbbbbb is missing"),
        ([A, B], [B], "segment aaaaaaaa should not be there"),
        ([A, B], [B, A],
         ("it lists 2 segments: aaaaaaaa from 0 in state 1, bbbbbbbb from 0 in state 1, "
          "the log says 2 segments: bbbbbbbb from 0 in state 1, aaaaaaaa from 0 in state 1")),
        (None, A, "it is None, the log says aaaaaaaa from 0 in state 1"),
        (A, B, "it is aaaaaaaa from 0 in state 1, the log says bbbbbbbb from 0 in state 1"),
        (9, 19, "it is 9, the log says 19"),
    ],
)  # fmt: skip
def test_the_first_difference_has_a_name(answer: object, expected: object, text: str) -> None:
    assert difference(answer, expected) == text


def test_of_a_long_list_the_first_are_shown() -> None:
    assert answer_text([A] * 6).endswith("aaaaaaaa from 0 in state 1, ...")
    assert answer_text([A] * 6).startswith("6 segments: ")
