"""Answers to reads as text for people, and how two answers differ."""

from __future__ import annotations

from typing import Any

from tierledger.events.tables.segment_rows import START, STATE, id_of_row, unpack_row

FIELDS = (
    "id",
    "state",
    "start",
    "end",
    "epochs",
    "size",
    "max timestamp",
    "broker",
    "event timestamp",
    "custom metadata",
    "empty transaction index",
    "finished at",
)
"""The fields of a row, in its order."""

SHOWN = 5
"""How many segments of a list are shown."""


def id_text(segment_id: bytes) -> str:
    """The first digits of an id, enough to tell it from the others of a run."""
    return segment_id.hex()[:8]


def answer_text(answer: Any) -> str:  # noqa: ANN401 - Any answer.
    """An answer in short: of segments their ids, starts and states."""
    if isinstance(answer, list):
        if not answer:
            return "no segments"
        more = ", ..." if len(answer) > SHOWN else ""
        return f"{len(answer)} segments: {', '.join(map(answer_text, answer[:SHOWN]))}{more}"
    if isinstance(answer, bytes):
        fields = unpack_row(answer)
        return f"{id_text(id_of_row(answer))} from {fields[START]} in state {fields[STATE]}"
    return repr(answer)


def difference(answer: Any, expected: Any) -> str:  # noqa: ANN401 - Any two answers.
    """The first thing in which an answer differs from the `expected` one."""
    if isinstance(answer, bytes) and isinstance(expected, bytes):
        return _of_rows(answer, expected)
    if not (isinstance(answer, list) and isinstance(expected, list)):
        return f"it is {answer_text(answer)}, the log says {answer_text(expected)}"
    rows, wanted = ({id_of_row(row): row for row in rows} for rows in (answer, expected))
    for segment_id in wanted.keys() - rows.keys():
        return f"segment {id_text(segment_id)} is missing"
    for segment_id, row in rows.items():
        if segment_id not in wanted:
            return f"segment {id_text(segment_id)} should not be there"
        if row != wanted[segment_id]:
            return _of_rows(row, wanted[segment_id])
    return f"it lists {answer_text(answer)}, the log says {answer_text(expected)}"


def _of_rows(answer: bytes, expected: bytes) -> str:
    if id_of_row(answer) != id_of_row(expected):
        return f"it is {answer_text(answer)}, the log says {answer_text(expected)}"
    fields = zip(FIELDS, unpack_row(answer), unpack_row(expected), strict=True)
    changed = [
        f"{name} {one!r}, the log says {two!r}" for name, one, two in fields if one != two
    ]
    return f"segment {id_text(id_of_row(answer))} has {'; '.join(changed)}"
