"""What one task of an import reads whole."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tierledger.storage.kafka_brokers import KafkaBrokers


class JsonSplit(NamedTuple):
    """Lines that begin from byte `start` on and before `end`; all of a gzipped file."""

    path: str
    start: int
    end: int
    is_gzipped: bool


class SegmentFile(NamedTuple):
    """One log segment of the metadata topic."""

    path: str
    partition: int
    is_last: bool
    """Nothing follows it in its partition, so a broker may be writing it still."""


class TopicRange(NamedTuple):
    """Offsets of one partition of a live topic, from `start` on and before `end`."""

    brokers: KafkaBrokers
    topic: str
    partition: int
    start: int
    end: int


Unit: TypeAlias = "JsonSplit | SegmentFile | TopicRange"
