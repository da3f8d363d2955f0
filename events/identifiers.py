"""Identifiers of topics, partitions and segments, as in Kafka."""

from __future__ import annotations

import base64
import re
from typing import Final

from msgspec import Struct
from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import (
    PartitionNumber,
    Topic,
    as_dataclass,
    check_fields,
    shown,
)

UUID_BYTES: Final = 16

_UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?", re.ASCII)


class Uuid(bytes):
    """Kafka's 128-bit id as 16 big-endian bytes; equal to plain bytes.

    `str()` gives Kafka's text: URL-safe base64 without padding, 22 characters.
    """

    __slots__ = ()

    def __new__(cls, value: object) -> Uuid:
        """An id of exactly 16 bytes.

        Raises:
            InvalidArgument: `value` has another length, or is no bytes.
        """
        if not isinstance(value, bytes):
            raise InvalidArgument(f"expected {UUID_BYTES} bytes for an id, got {shown(value)}")
        if len(value) != UUID_BYTES:
            raise InvalidArgument(
                f"expected {UUID_BYTES} bytes for an id, got {len(value)}: {shown(value)}"
            )
        return bytes.__new__(cls, value)

    @classmethod
    def parse(cls, text: object) -> Uuid:
        """The id in `text`.

        Raises:
            InvalidArgument: `text` is not 22 characters of URL-safe base64 (two `=` of padding
                may follow, as in Kafka).
        """
        if not isinstance(text, str) or _UUID_TEXT.fullmatch(text) is None:
            raise InvalidArgument(
                f"expected 22 characters of URL-safe base64 for an id, got {shown(text)}"
            )
        return cls(base64.urlsafe_b64decode(text[:22] + "=="))

    @override
    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self)[:22].decode("ascii")

    @override
    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"


@as_dataclass
class TopicIdPartition(Struct, frozen=True):
    """One partition of a topic: its id and number.

    The topic's name does not count when two are compared: two names for one id are an anomaly
    of the sender, not two partitions. (Kafka compares the name, too.)

    Raises:
        InvalidArgument: A field does not fit its annotation; the message names it.
    """

    topic_id: Uuid
    partition: PartitionNumber
    topic: Topic

    def __post_init__(self) -> None:
        check_fields(self)

    @override
    def __eq__(self, other: object) -> bool:
        if type(other) is not TopicIdPartition:
            return NotImplemented
        return self.partition == other.partition and self.topic_id == other.topic_id

    @override
    def __hash__(self) -> int:
        return hash((self.topic_id, self.partition))

    @override
    def __str__(self) -> str:
        return f"{self.topic_id}:{self.topic}-{self.partition}"


@as_dataclass
class RemoteLogSegmentId(Struct, frozen=True):
    """One attempt to copy a segment; a retry of the same segment gets a new `id`.

    Raises:
        InvalidArgument: A field does not fit its annotation; the message names it.
    """

    topic_id_partition: TopicIdPartition
    id: Uuid

    def __post_init__(self) -> None:
        check_fields(self)

    @override
    def __str__(self) -> str:
        return f"{self.topic_id_partition}/{self.id}"
