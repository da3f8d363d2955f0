"""Which ranges of the column files are the log's own.

Rule: files are never believed against the log. Ranges are used from the log's start on, each
from where the one before ends, and only if the log has the last one's hash at its end: the hash
of an event is of all events before it, too. What does not fit is left aside, and noted once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from tierledger.events.errors import DataError, StorageUnavailable, StoreRefused
from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.column_files.content import OpenFile, content_of, rows_in
from tierledger.pipeline.column_files.place import ColumnPlace, Note, UnusableFile
from tierledger.pipeline.log_ranges import LogPlace, LogRange, place_behind_events
from tierledger.storage.partition.event_log import StoredBatch
from tierledger.storage.partition.reader import PartitionReader

AGAIN = "it is read from the logs; `tierledger columns write` makes it anew"


class FilePart(NamedTuple):
    """A range that is in a file, from the file's row `first_row` on."""

    file: str
    first_row: int
    range: LogRange


class WantedLog(NamedTuple):
    """A log, and what of it is wanted."""

    reader: PartitionReader
    start: LogPlace | None
    """None if it is not known; then no range fits."""
    end_batch: int


class FittingRanges(NamedTuple):
    """What files have of a log."""

    parts: list[FilePart]
    """In order, from the log's start on."""
    fits: bool
    """Whether nothing speaks against what the files have."""


class ColumnIndex:
    """The ranges in all files of a cluster."""

    def __init__(self) -> None:
        self.parts: dict[str, list[FilePart]] = {}
        """By the file's name."""
        self.bytes: dict[str, int] = {}
        """The size of each."""
        self.unusable: list[UnusableFile] = []
        self.unlisted: Exception | None = None
        """Why nothing is known of any file."""
        self.unfit: list[TopicIdPartition] = []
        """Logs of which there are ranges that the log does not have."""
        self._starts: dict[tuple[TopicIdPartition, LogPlace], list[FilePart]] = defaultdict(
            list
        )
        self._known: set[TopicIdPartition] = set()

    @classmethod
    def of(
        cls,
        place: ColumnPlace | None,
        cluster: str,
        schema: Any,  # noqa: ANN401 - Arrow has no types.
        *,
        whole: bool = False,
    ) -> ColumnIndex:
        """The ranges of all files with `schema`; of none if there is no place for files.

        `whole`: after a look at all bytes of each file, not at its footer alone. Raises as
        `ColumnPlace.names`.
        """
        index = cls()
        for name in place.names() if place is not None else ():
            assert place is not None
            try:
                if whole:
                    content = OpenFile(place, name, schema).content
                else:
                    content = content_of(place, name, schema)
            except UnusableFile as error:
                index.unusable.append(error)
                continue
            if content.cluster == cluster:
                index._add(name, content.ranges)
                index.bytes[name] = content.bytes
        return index

    @classmethod
    def if_listed(
        cls,
        place: ColumnPlace | None,
        cluster: str,
        schema: Any,  # noqa: ANN401 - As above.
    ) -> ColumnIndex:
        """The ranges of all files, for a read: of none if their place does not answer."""
        try:
            return cls.of(place, cluster, schema)
        except (OSError, StorageUnavailable, StoreRefused) as error:
            index = cls()
            index.unlisted = error
            return index

    def _add(self, name: str, ranges: tuple[LogRange, ...]) -> None:
        row, parts = 0, list[FilePart]()
        for one in ranges:
            part = FilePart(name, row, one)
            parts.append(part)
            self._starts[(one.topic_id_partition, one.start)].append(part)
            self._known.add(one.topic_id_partition)
            row += rows_in(one)
        self.parts[name] = parts

    async def fitting(self, wanted: Sequence[WantedLog]) -> list[FittingRanges]:
        """For each log the ranges that it has, from its start on."""
        found = [self._following(one) for one in wanted]
        known = [one.reader.topic_id_partition in self._known for one in wanted]
        fits = [
            bool(parts) or not is_known for parts, is_known in zip(found, known, strict=True)
        ]
        while open_ends := [at for at, parts in enumerate(found) if parts and known[at]]:
            lasts = [end_of(found[at][-1]) for at in open_ends]
            keys = [
                wanted[at].reader.log.key(last.next_batch - 1)
                for at, last in zip(open_ends, lasts, strict=True)
            ]
            values = await wanted[0].reader.backend.get_each(keys)
            for at, value, last in zip(open_ends, values, lasts, strict=True):
                if _is_at(wanted[at].reader, value, last):
                    known[at] = False  # Done.
                else:
                    found[at].pop()
                    fits[at] = False
        return list(map(FittingRanges, found, fits))

    def _following(self, wanted: WantedLog) -> list[FilePart]:
        """The ranges from the start on, each from where the one before ends."""
        found: list[FilePart] = []
        at, tip = wanted.start, wanted.reader.topic_id_partition
        while at is not None and (
            some := [
                one
                for one in self._starts.get((tip, at), ())
                if one.range.end_batch <= wanted.end_batch
            ]
        ):
            found.append(max(some, key=lambda one: (one.range.end_batch, one.file)))
            at = end_of(found[-1])
        return found

    def tell(self, note: Note) -> None:
        """Note what is not used, and why; one sentence for each cause."""
        if self.unlisted is not None:
            note(f"column files are not used, all is read from the logs: {self.unlisted}")
        if self.unusable:
            more = f" (and {len(self.unusable) - 1} more)" if len(self.unusable) > 1 else ""
            note(f"a column file is not used: {self.unusable[0]}{more}; {AGAIN}")
        if self.unfit:
            more = f" and {len(self.unfit) - 1} other logs" if len(self.unfit) > 1 else ""
            note(f"column files do not fit the log of {self.unfit[0]}{more}; {AGAIN}")


def _is_at(reader: PartitionReader, value: bytes | None, place: LogPlace) -> bool:
    """Whether the log has `place` behind the batch with this value."""
    if value is None:
        return False
    try:
        # A boundary is none: ranges in files end behind events.
        return place_behind_events(reader, StoredBatch(place.next_batch - 1, value)) == place
    except DataError:
        return False


def end_of(part: FilePart) -> LogPlace:
    """The place behind a range."""
    assert part.range.end is not None, "ranges in files have one"
    return part.range.end


def drop_log(place: ColumnPlace, cluster: str, tip: TopicIdPartition, schema: Any) -> int:  # noqa: ANN401 - As above.
    """Remove the files that have events of a log, which is forgotten; how many there were."""
    index = ColumnIndex.of(place, cluster, schema)
    names = [
        name
        for name, parts in index.parts.items()
        if any(part.range.topic_id_partition == tip for part in parts)
    ]
    for name in names:
        place.remove(name)
    return len(names)
