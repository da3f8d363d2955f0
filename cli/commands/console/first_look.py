"""What the tier holds of a partition, drawn before its log was read: from its checkpoint."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.cli.pages.jobs.strips import StripMark, strip
from tierledger.cli.pages.report.lanes import ticks
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.tables.segment_rows import END, EPOCHS, START, STATE, unpack_row
from tierledger.events.vocabulary import WORDS
from tierledger.pages.texts import many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.events.partition.state import PartitionState
    from tierledger.events.tables.segment_rows import Row
    from tierledger.pages.drawing import PlotRow, Range
    from tierledger.storage.partition.reader import PartitionReader

EVENTS_MIN: Final = 20_000
"""Events of a log from which on its page begins with a first look: a second of reading."""

COLUMNS: Final = 600
"""Segments of one state that begin in one of so many columns are drawn together."""

EPOCHS_MAX: Final = 24
"""Leader epochs that are drawn, the newest."""

_WORDS: Final = {
    int(RemoteLogSegmentState.COPY_SEGMENT_STARTED): "copying",
    int(RemoteLogSegmentState.COPY_SEGMENT_FINISHED): "finished",
    int(RemoteLogSegmentState.DELETE_SEGMENT_STARTED): "deleting",
}


class FirstLook(NamedTuple):
    """Segments by offset, in a row for each leader epoch."""

    rows: list[PlotRow]
    words: list[str]
    """Those that occur."""
    offsets: list[int]
    """At the ticks of the scale."""


async def checkpointed(reader: PartitionReader, position: int) -> PartitionState | None:
    """The state of a log whose last event is at `position`, if its checkpoint makes it cheap.

    Raises:
        DataError: The checkpoint or the log does not verify.
    """
    stored = await reader.checkpoints.read_stored()
    if stored is None:
        return None
    if position - reader.parse_checkpoint(stored).next_position >= EVENTS_MIN:
        return None
    state, _ = await reader.state()
    return state


def first_look(state: PartitionState) -> FirstLook | None:
    """The segments of a state; None if it has none."""
    rows = [unpack_row(row) for row in state.rows]
    if not rows:
        return None
    axis = min(row[START] for row in rows), max(row[END] for row in rows)
    groups = _joined(rows, axis)
    marks: defaultdict[int, list[StripMark]] = defaultdict(list)
    counts: Counter[int] = Counter()
    for (epoch, found, _), (start, end, count) in groups.items():
        counts[epoch] += count
        marks[epoch].append(_mark(_WORDS[found], start, end, count))
    drawn = [
        strip(f"epoch {epoch}", many(counts[epoch], "segment"), marks[epoch], axis)
        for epoch in sorted(marks)[-EPOCHS_MAX:]
    ]
    there = {found for _, found, _ in groups}
    words = [word for one, word in _WORDS.items() if one in there]
    return FirstLook(drawn, words, ticks(axis))


def _joined(
    rows: Sequence[Row], axis: Range
) -> dict[tuple[int, int, int], tuple[int, int, int]]:
    """By epoch, state and column: the first and last offset, and how many segments."""
    width = (axis[1] - axis[0]) // COLUMNS + 1
    groups: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    for row in rows:
        for epoch, start, end in _stretches(row):
            key = epoch, row[STATE], (start - axis[0]) // width
            before = groups.get(key)
            if before is None:
                groups[key] = start, end, 1
            else:
                groups[key] = min(start, before[0]), max(end, before[1]), before[2] + 1
    return groups


def _stretches(row: Row) -> Sequence[tuple[int, int, int]]:
    """Leader epoch, first and last offset of each of a row's epochs."""
    epochs = row[EPOCHS]
    if len(epochs) == 3:
        return ((epochs[0], epochs[1], row[END]),)
    ends = [*(offset - 1 for offset in epochs[4::3]), row[END]]
    return list(zip(epochs[::3], epochs[1::3], ends, strict=True))


def _mark(word: str, start: int, end: int, count: int) -> StripMark:
    """What is no finished segment lies in a band of its own, so that it hides none."""
    tip = f"{many(count, 'segment')}, {word}: offsets {start} to {end}"
    return StripMark(start, end, WORDS[word].look, tip, band=word != "finished")
