"""Finds an object's segment by its name alone, and the objects that a segment must have.

There is one class per layout. Rule: a name belongs to the tier only if it has topic, topic id,
partition and segment exactly as the layout writes them. Names are never decoded, trimmed or
joined.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from typing_extensions import override

from tierledger.events.identifiers import Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_files import OFFSET_ENTRY, TIME_ENTRY, TRANSACTION_ENTRY
from tierledger.tiering.formats.index_type import ALL_INDEX_TYPES, IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import format_leader_epochs
from tierledger.tiering.formats.producer_snapshot import SNAPSHOT_ENTRY_SIZE, SNAPSHOT_HEAD_SIZE
from tierledger.tiering.formats.record_batches import SMALLEST_BATCH
from tierledger.tiering.layouts import kafka as kafka_layout
from tierledger.tiering.layouts.ledger import layout as ledger_layout
from tierledger.tiering.layouts.ledger.format import LedgerCustomMetadata
from tierledger.tiering.layouts.ledger.parts import part_sizes
from tierledger.tiering.layouts.manifest import layout as manifest_layout
from tierledger.tiering.layouts.tier_url import Layout

LOG: Final = "log"
"""The role of the object with the log; its parts have `log.00000` and so on. The roles of other
objects are their suffixes."""

PARTITION_MAX: Final = (1 << 31) - 1


class ListedObject(NamedTuple):
    """An object whose name is that of a segment's object."""

    topic_id: Uuid
    partition: int
    segment_id: Uuid
    role: str
    place: str
    """The prefix of the names of all the segment's objects."""
    is_below_prefix: bool
    """Whether it is below the prefix at which the tier keeps new segments."""


class ExpectedObject(NamedTuple):
    """An object beside the log that a segment must or may have, and its possible sizes."""

    role: str
    least: int
    """Smallest size in bytes."""
    step: int
    """The size is `least` plus a multiple of `step`."""
    most: int | None
    """Largest size in bytes; none: no limit."""
    is_required: bool = True

    def fits(self, size: int) -> bool:
        is_within = self.least <= size and (self.most is None or size <= self.most)
        return is_within and (size - self.least) % self.step == 0

    @override
    def __str__(self) -> str:
        if self.most == self.least:
            return f"{self.least} bytes"
        until = "more" if self.most is None else f"at most {self.most}"
        steps = "" if self.step == 1 else f" in steps of {self.step}"
        return f"{self.least} bytes or {until}{steps}"


class ExpectedObjects(NamedTuple):
    """The objects that a finished segment must have in the tier."""

    place: str
    part_bytes: int | None
    """Bytes of each log object but the last; none if only the sum is known."""
    log_bytes: int
    others: tuple[ExpectedObject, ...]
    indexes: str
    """Role of the one of `others` without which nothing of the segment can be read."""
    weight: int | None
    """Bytes of all objects, if the custom metadata has it."""
    is_below_prefix: bool
    is_log_as_it_is: bool = True
    """Whether the log's objects have its bytes; else they may be compressed or encrypted."""


class LogObject(NamedTuple):
    """An object that holds a log, or a part of it."""

    name: str
    start: int
    """Position of its first byte in the log."""
    end: int
    """Exclusive."""


class LayoutNames(ABC):
    """How a tier of one layout names its objects. Pickled into tasks."""

    before_role = "."
    """Separator between a segment's place and an object's role."""
    has_index_files = False
    """Whether each index is an object of its own."""

    def __init__(self, prefix: str) -> None:
        """`prefix` is that of the tier's URL."""
        self.prefix = prefix

    @property
    def folder(self) -> str:
        """The folder that contains the whole tier; empty if it may be anywhere."""
        return self.prefix.rpartition("/")[0]

    @abstractmethod
    def parse(self, path: str) -> ListedObject | None:
        """The parts of a name below the store's root; none if it is not such a tier's."""

    def log_objects(self, must: ExpectedObjects) -> Iterator[LogObject]:
        """The objects that hold a log, in order; a single one if its parts are not known."""
        name = f"{must.place}{self.before_role}{LOG}"
        yield LogObject(name, 0, must.log_bytes)

    def index_object(self, must: ExpectedObjects, index_type: IndexType | None = None) -> str:
        """The name of the object with that index; without a type, of the required one."""
        role = must.indexes
        if self.has_index_files and index_type is not None:
            role = index_type.value
        return f"{must.place}{self.before_role}{role}"

    def object_in(self, must: ExpectedObjects, message: str) -> str | None:
        """The name of the segment's object that a message contains; none if it has none."""
        others = (f"{must.place}{self.before_role}{one.role}" for one in must.others)
        named = chain(others, (one.name for one in self.log_objects(must)))
        return next((name for name in named if name in message), None)

    @abstractmethod
    def expected(self, metadata: RemoteLogSegmentMetadata) -> ExpectedObjects:
        """The objects that a finished segment must have.

        Raises:
            CorruptRemoteData: Its custom metadata is not this layout's.
            FormatTooNew: A newer program wrote its custom metadata.
            InvalidArgument: Its topic's name cannot be part of an object's name.
        """


_TOPIC = "(?P<topic>[a-zA-Z0-9._-]{1,249})"
_NO_TOPICS = frozenset({".", ".."})
_ID = "[A-Za-z0-9_-]{22}"
_TOPIC_ID = f"(?P<topic_id>{_ID})"
_PARTITION = "(?P<partition>0|[1-9][0-9]{0,9})"
_SEGMENT = f"(?P<start>[0-9]{{20}})-(?P<segment_id>{_ID})"


def _suffixes(roles: Collection[str]) -> str:
    return "|".join(re.escape(role) for role in sorted(roles))


class LedgerNames(LayoutNames):
    """Names of tierledger's own layout, `LedgerStorageManager`."""

    before_role = "/"

    _NAME: Final = re.compile(
        f"(?P<place>(?P<prefix>.*/)?{_TOPIC}/{_TOPIC_ID}/{_PARTITION}/{_SEGMENT})"
        rf"/(?:(?P<part>log\.[0-9]{{5,}})|{ledger_layout.INDEXES})",
        re.ASCII | re.DOTALL,
    )

    def __init__(self, prefix: str) -> None:
        """`prefix` is a folder."""
        super().__init__(prefix.strip("/"))

    @property
    @override
    def folder(self) -> str:
        return self.prefix

    @override
    def parse(self, path: str) -> ListedObject | None:
        found = self._NAME.fullmatch(path)
        if found is None or found["topic"] in _NO_TOPICS:
            return None
        role = found["part"] or ledger_layout.INDEXES
        below = f"{self.prefix}/" if self.prefix else ""
        return _listed(found, role, is_below_prefix=(found["prefix"] or "") == below)

    @override
    def expected(self, metadata: RemoteLogSegmentMetadata) -> ExpectedObjects:
        size = max(0, metadata.segment_size_in_bytes)
        prefix, part_bytes, weight = self.prefix, None, None
        if metadata.custom_metadata is not None:
            segment = metadata.remote_log_segment_id
            custom = LedgerCustomMetadata.of(metadata.custom_metadata, segment)
            prefix, part_bytes = custom.prefix or "", custom.part_size
            weight = custom.weight
        return ExpectedObjects(
            ledger_layout.place_of(metadata, prefix),
            part_bytes,
            size,
            (ExpectedObject(ledger_layout.INDEXES, 1, 1, None),),
            ledger_layout.INDEXES,
            weight,
            prefix == self.prefix,
        )

    @override
    def log_objects(self, must: ExpectedObjects) -> Iterator[LogObject]:
        if must.part_bytes is None:
            yield from super().log_objects(must)
            return
        at = 0
        for name, size in part_sizes(must.place, must.log_bytes, must.part_bytes):
            yield LogObject(name, at, at + size)
            at += size


class KafkaNames(LayoutNames):
    """Names of Kafka's LocalTieredStorage."""

    has_index_files = True

    _NAME: Final = re.compile(
        f"(?P<place>{_TOPIC}-{_PARTITION}-{_TOPIC_ID}/{_SEGMENT})"
        rf"\.(?P<role>{_suffixes([LOG, *(one.value for one in ALL_INDEX_TYPES)])})",
        re.ASCII,
    )

    @override
    def parse(self, path: str) -> ListedObject | None:
        found = self._NAME.fullmatch(path)
        if found is None or found["topic"] in _NO_TOPICS:
            return None
        return _listed(found, found["role"], is_below_prefix=True)

    @override
    def expected(self, metadata: RemoteLogSegmentMetadata) -> ExpectedObjects:
        return ExpectedObjects(
            kafka_layout.place_of(metadata),
            max(1, metadata.segment_size_in_bytes),
            max(0, metadata.segment_size_in_bytes),
            _kafka_files(metadata),
            IndexType.OFFSET.value,
            None,
            is_below_prefix=True,
        )


class ManifestNames(LayoutNames):
    """Names of the three-object layout."""

    _NAME: Final = re.compile(
        f"(?P<place>(?P<head>.+)-{_TOPIC_ID}/{_PARTITION}/{_SEGMENT})"
        rf"\.(?P<role>{_suffixes([LOG, *manifest_layout.BESIDE])})",
        re.ASCII | re.DOTALL,
    )
    _ONLY_TOPIC: Final = re.compile(_TOPIC, re.ASCII)

    @override
    def parse(self, path: str) -> ListedObject | None:
        found = self._NAME.fullmatch(path)
        if found is None:
            return None
        # The prefix is followed by the topic without a separator.
        topic = found["head"].removeprefix(self.prefix)
        is_below = (
            found["head"].startswith(self.prefix)
            and self._ONLY_TOPIC.fullmatch(topic) is not None
            and topic not in _NO_TOPICS
        )
        return _listed(found, found["role"], is_below_prefix=is_below)

    @override
    def expected(self, metadata: RemoteLogSegmentMetadata) -> ExpectedObjects:
        place, size = manifest_layout.stored_at(metadata, self.prefix)
        named = self.parse(f"{place}.{LOG}")
        return ExpectedObjects(
            place,
            max(1, metadata.segment_size_in_bytes),
            max(0, metadata.segment_size_in_bytes),
            (
                ExpectedObject(manifest_layout.INDEXES, _least_indexes(metadata), 1, None),
                ExpectedObject(manifest_layout.MANIFEST, 1, 1, None),
            ),
            manifest_layout.INDEXES,
            size,
            named is not None and named.is_below_prefix,
            is_log_as_it_is=False,
        )


def part_number(role: str) -> int | None:
    """The number of the log's part in an object of that role; none if it holds no part."""
    name, _, number = role.partition(".")
    return int(number or 0) if name == LOG else None


def _kafka_files(metadata: RemoteLogSegmentMetadata) -> tuple[ExpectedObject, ...]:
    """The files beside a log, and the sizes that Kafka's formats allow."""
    offsets = metadata.end_offset - metadata.start_offset + 1
    batches = min(offsets, metadata.segment_size_in_bytes // SMALLEST_BATCH)
    # Kafka adds a time entry with each offset entry, and one more when a segment closes. Of
    # records without timestamps it adds none.
    times = (0, batches + 1)
    aborted = (0, 0) if metadata.txn_index_empty else (1, batches)
    return (
        _entries(IndexType.OFFSET, OFFSET_ENTRY.size, (0, batches)),
        _entries(IndexType.TIMESTAMP, TIME_ENTRY.size, times),
        ExpectedObject(
            IndexType.PRODUCER_SNAPSHOT.value, SNAPSHOT_HEAD_SIZE, SNAPSHOT_ENTRY_SIZE, None
        ),
        _entries(IndexType.TRANSACTION, TRANSACTION_ENTRY.size, aborted)._replace(
            is_required=not metadata.txn_index_empty
        ),
        ExpectedObject(IndexType.LEADER_EPOCH.value, _least_checkpoint(metadata), 1, None),
    )


def _entries(kind: IndexType, size: int, counts: tuple[int, int]) -> ExpectedObject:
    least, most = counts
    return ExpectedObject(kind.value, least * size, size, most * size)


def _least_checkpoint(metadata: RemoteLogSegmentMetadata) -> int:
    """Least bytes of a leader-epoch checkpoint with the segment's own epochs."""
    # The offsets in it are not known, since the first epoch may have begun in an earlier
    # segment. 0 has the shortest text.
    return len(format_leader_epochs(dict.fromkeys(metadata.segment_leader_epochs, 0)))


def _least_indexes(metadata: RemoteLogSegmentMetadata) -> int:
    """Least bytes of an object with all indexes, of which three may be empty."""
    return SNAPSHOT_HEAD_SIZE + _least_checkpoint(metadata)


_NAMES: Final[Mapping[Layout, Callable[[str], LayoutNames]]] = {
    Layout.LEDGER: LedgerNames,
    Layout.LOCAL_TIERED: KafkaNames,
    Layout.MANIFEST: ManifestNames,
}


def nothing_whole(segments: int) -> str:
    """What is said of a tier that lacks all of what it should have: it may be another place."""
    return (
        f"the tier has nothing whole of {segments} finished segments; expected the URL below "
        "which they were copied"
    )


def names_of(layout: Layout, prefix: str) -> LayoutNames:
    """How a tier of `layout` with that prefix names its objects."""
    return _NAMES[layout](prefix)


def _listed(found: re.Match[str], role: str, *, is_below_prefix: bool) -> ListedObject | None:
    topic_id, segment_id = Uuid.parse(found["topic_id"]), Uuid.parse(found["segment_id"])
    partition = int(found["partition"])
    is_plain = (
        str(topic_id) == found["topic_id"]  # The last of 22 characters has unused bits.
        and str(segment_id) == found["segment_id"]
        and partition <= PARTITION_MAX
    )
    if not is_plain:
        return None
    return ListedObject(topic_id, partition, segment_id, role, found["place"], is_below_prefix)
