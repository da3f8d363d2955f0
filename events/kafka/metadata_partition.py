"""Finds the partition of `__remote_log_metadata` that has a user partition's records."""

from __future__ import annotations

from typing import Final

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import Uuid

METADATA_PARTITIONS: Final = 50
"""Kafka's `remote.log.metadata.topic.num.partitions`."""

_UINT32: Final = (1 << 32) - 1

_MURMUR_SEED: Final = 0x9747B28C
_MURMUR_FACTOR: Final = 0x5BD1E995
_MURMUR_SHIFT: Final = 24


def metadata_partition(topic_id: Uuid, partition: int, *, partition_count: int) -> int:
    """The metadata partition of Kafka's default partitioner; it ignores the topic's name.

    Args:
        topic_id: The user topic's id.
        partition: The user topic's partition.
        partition_count: How many partitions the metadata topic has.

    Raises:
        InvalidArgument: `partition_count` is not positive.
    """
    if partition_count < 1:
        raise InvalidArgument(f"expected 1 metadata partition or more, got {partition_count}")
    high = int.from_bytes(topic_id[:8], "big")
    low = int.from_bytes(topic_id[8:], "big")
    # Java's hash of a list: the low half of the id comes before the high half.
    joined = 31 * (31 * (31 + _fold(low)) + _fold(high)) + partition
    hashed = _murmur2_of_4_bytes((joined & _UINT32).to_bytes(4, "big"))
    return (hashed & 0x7FFF_FFFF) % partition_count


def _fold(value: int) -> int:
    """Java's hash of a long: both halves, combined by exclusive or."""
    return (value ^ (value >> 32)) & _UINT32


def _murmur2_of_4_bytes(data: bytes) -> int:
    """Kafka's murmur2 of exactly four bytes, so that there is one round and no tail."""
    mixed = int.from_bytes(data, "little") * _MURMUR_FACTOR & _UINT32
    mixed ^= mixed >> _MURMUR_SHIFT
    mixed = mixed * _MURMUR_FACTOR & _UINT32
    hashed = (_MURMUR_SEED ^ len(data)) * _MURMUR_FACTOR & _UINT32
    hashed ^= mixed
    hashed ^= hashed >> 13
    hashed = hashed * _MURMUR_FACTOR & _UINT32
    return hashed ^ (hashed >> 15)
