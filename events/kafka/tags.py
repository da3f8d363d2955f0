"""Tagged fields of a newer Kafka, kept beside an object that has no place for them."""

from __future__ import annotations

import operator
from typing import Any, Final, NamedTuple, TypeAlias

from tierledger.events.errors import CorruptLog
from tierledger.events.typed_fields import shown

Tags: TypeAlias = "tuple[tuple[int, bytes], ...]"
"""One struct's tagged fields, (tag, content), in the record's order."""

EpochTags: TypeAlias = "tuple[tuple[int, Tags], ...]"
"""Tagged fields by leader epoch, without entries that have none."""


class UnknownTags(NamedTuple):
    """A record's unknown tagged fields; nearly always empty."""

    partition: Tags = ()
    segment: Tags = ()
    epochs: EpochTags = ()
    record: Tags = ()
    verbatim: bytes | None = None
    """The whole record, if `writer` would encode it differently: leader epochs not ascending or
    repeated, a number in more bytes than it needs, or an explicit false."""

    def to_plain(self) -> tuple[object, ...] | None:
        """These tags as tuples, numbers and bytes, or None if there are none.

        Tuples, because an event that holds them equals itself when it is read back.
        """
        return None if self == NO_TAGS else tuple(self)

    @staticmethod
    def from_plain(plain: Any) -> UnknownTags:  # noqa: ANN401 - msgpack's lists or tuples.
        """The tags from which `to_plain` made `plain`.

        Raises:
            CorruptLog: `plain` is nothing of the kind; folding a log does not check tags.
        """
        if plain is None:
            return NO_TAGS
        try:
            partition, segment, epochs, record, verbatim = plain
            return UnknownTags(
                _tuples(partition),
                _tuples(segment),
                tuple((operator.index(epoch), _tuples(tags)) for epoch, tags in epochs),
                _tuples(record),
                None if verbatim is None else bytes(memoryview(verbatim)),
            )
        except (TypeError, ValueError) as error:
            raise CorruptLog(f"expected a record's tags, got {shown(plain)}") from error


NO_TAGS: Final = UnknownTags()


def unknown_tags(
    partition: Tags, segment: Tags, epochs: EpochTags, record: Tags
) -> UnknownTags:
    """An object with these tags; nearly always there are none, and it is `NO_TAGS`."""
    if partition or segment or epochs or record:
        return UnknownTags(partition, segment, epochs, record)
    return NO_TAGS


def _tuples(plain: Any) -> Tags:  # noqa: ANN401 - msgpack's lists or tuples.
    return tuple((operator.index(tag), bytes(memoryview(data))) for tag, data in plain)
