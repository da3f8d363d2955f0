"""Whose an object is, by its name alone, and which objects a segment must have.

One class per layout. Rule: a name that does not spell a topic, its id, a partition and a
segment exactly as the layout writes them is not ours. It is never decoded, trimmed or joined.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple

from typing_extensions import override

from tierledger.events.identifiers import Uuid
from tierledger.tiering import kafka_layout, ledger_layout, manifest_layout
from tierledger.tiering.index_type import ALL_INDEX_TYPES, REQUIRED_INDEX_TYPES, IndexType
from tierledger.tiering.ledger_layout_format import LedgerCustomMetadata
from tierledger.tiering.tier_url import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tierledger.events.metadata import RemoteLogSegmentMetadata

LOG: Final = "log"
"""The role of an object that holds the log, or a part of it; others have their suffix."""

PARTITION_MAX: Final = (1 << 31) - 1


class ListedObject(NamedTuple):
    """An object that is called as one of a segment."""

    topic_id: Uuid
    partition: int
    segment_id: Uuid
    role: str
    place: str
    """What the names of all objects of the segment begin with."""
    is_below_prefix: bool
    """Whether it lies where the tier keeps new segments."""


class ExpectedObjects(NamedTuple):
    """What a finished segment has in the tier."""

    place: str
    log_objects: int | None
    """How many hold the log; none if only their bytes are known."""
    log_bytes: int
    others: tuple[str, ...]
    """Roles of the other objects, each of which has to be there."""
    indexes: str | None
    """The one of `others` without which nothing of the segment can be read."""
    weight: int | None
    """Bytes of all of them, if the copy said it."""
    is_below_prefix: bool


class LayoutNames(ABC):
    """How a tier of one layout names its objects. Pickled into tasks."""

    def __init__(self, prefix: str) -> None:
        """`prefix` is that of the tier's URL."""
        self.prefix = prefix

    @property
    def folder(self) -> str:
        """Below which everything of the tier lies; empty: it may lie anywhere."""
        return self.prefix.rpartition("/")[0]

    @abstractmethod
    def parse(self, path: str) -> ListedObject | None:
        """What `path`, seen from the top of the store, is called as; none if not as ours."""

    @abstractmethod
    def expected(self, metadata: RemoteLogSegmentMetadata) -> ExpectedObjects:
        """What a finished segment must have.

        Raises:
            CorruptRemoteData: Its custom metadata is not this layout's.
            FormatTooNew: A newer program wrote that.
            InvalidArgument: Its topic's name cannot be part of an object's.
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
    """Our own layout: `LedgerStorageManager`."""

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
        role = ledger_layout.INDEXES if found["part"] is None else LOG
        below = f"{self.prefix}/" if self.prefix else ""
        return _listed(found, role, is_below_prefix=(found["prefix"] or "") == below)

    @override
    def expected(self, metadata: RemoteLogSegmentMetadata) -> ExpectedObjects:
        size = max(0, metadata.segment_size_in_bytes)
        prefix, parts, weight = self.prefix, None, None
        if metadata.custom_metadata is not None:
            segment = metadata.remote_log_segment_id
            custom = LedgerCustomMetadata.of(metadata.custom_metadata, segment)
            prefix, parts = custom.prefix or "", -(-size // custom.part_size)
            weight = custom.weight
        return ExpectedObjects(
            ledger_layout.place_of(metadata, prefix),
            parts,
            size,
            (ledger_layout.INDEXES,),
            ledger_layout.INDEXES,
            weight,
            prefix == self.prefix,
        )


class KafkaNames(LayoutNames):
    """Kafka's LocalTieredStorage."""

    _NAME: Final = re.compile(
        f"(?P<place>{_TOPIC}-{_PARTITION}-{_TOPIC_ID}/{_SEGMENT})"
        rf"\.(?P<role>{_suffixes([LOG, *(one.value for one in ALL_INDEX_TYPES)])})",
        re.ASCII,
    )
    _REQUIRED: Final = tuple(sorted(one.value for one in REQUIRED_INDEX_TYPES))

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
            1,
            max(0, metadata.segment_size_in_bytes),
            self._REQUIRED,
            IndexType.OFFSET.value,
            None,
            is_below_prefix=True,
        )


class ManifestNames(LayoutNames):
    """The three-object layout."""

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
        # The prefix stands before the topic with nothing between them.
        topic = found["head"].removeprefix(self.prefix)
        is_below = (
            found["head"].startswith(self.prefix)
            and self._ONLY_TOPIC.fullmatch(topic) is not None
            and topic not in _NO_TOPICS
        )
        return _listed(found, found["role"], is_below_prefix=is_below)

    @override
    def expected(self, metadata: RemoteLogSegmentMetadata) -> ExpectedObjects:
        place = manifest_layout.place_of(metadata, self.prefix)
        named = self.parse(f"{place}.{LOG}")
        return ExpectedObjects(
            place,
            1,
            max(0, metadata.segment_size_in_bytes),
            tuple(sorted(manifest_layout.BESIDE)),
            manifest_layout.INDEXES,
            None,
            named is not None and named.is_below_prefix,
        )


_NAMES: Final[Mapping[Layout, Callable[[str], LayoutNames]]] = {
    Layout.LEDGER: LedgerNames,
    Layout.LOCAL_TIERED: KafkaNames,
    Layout.MANIFEST: ManifestNames,
}


def names_of(layout: Layout, prefix: str) -> LayoutNames:
    """How a tier of `layout` with that prefix names its objects."""
    return _NAMES[layout](prefix)


def _listed(found: re.Match[str], role: str, *, is_below_prefix: bool) -> ListedObject | None:
    topic_id, segment_id = Uuid.parse(found["topic_id"]), Uuid.parse(found["segment_id"])
    partition = int(found["partition"])
    is_plain = (
        str(topic_id) == found["topic_id"]  # Of 22 characters, the last has bits to spare.
        and str(segment_id) == found["segment_id"]
        and partition <= PARTITION_MAX
    )
    if not is_plain:
        return None
    return ListedObject(topic_id, partition, segment_id, role, found["place"], is_below_prefix)
