"""Units of an import's source: each is read whole by one task."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tierledger.storage.kafka_brokers import KafkaBrokers


class JsonSplit(NamedTuple):
    """The lines that begin at byte `start` or later and before `end`; a gzipped file whole."""

    path: str
    start: int
    end: int
    is_gzipped: bool


class SegmentFile(NamedTuple):
    """One log segment of the metadata topic."""

    path: str
    partition: int
    is_last: bool
    """Whether it is its partition's last segment, which a broker may still be writing."""


class TopicRange(NamedTuple):
    """Offsets of one partition of a live topic, from `start` to below `end`."""

    brokers: KafkaBrokers
    topic: str
    partition: int
    start: int
    end: int


Unit: TypeAlias = "JsonSplit | SegmentFile | TopicRange"
