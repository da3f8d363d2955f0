"""A partition's log in a store: one key per committed batch, numbered densely.

Creating the next number's key is the only lock there is: whoever finds the key taken was
overtaken. A batch names its first position, so a reader can enter anywhere it knows the hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.events.errors import CorruptCheckpoint, CorruptLog
from tierledger.events.event_codec import chain, decode_events, encode_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.events.log_events import Event
    from tierledger.storage.backend import MetadataStorageBackend
    from tierledger.storage.keys import MetadataKeyFactory
    from tierledger.storage.serde import MetadataSerDe

BATCHES_PER_READ = 200
"""Batches a reader takes at once: with 64 KiB batches, 13 MB."""


class EncodedBatch(NamedTuple):
    """Events as they will be stored, and the hash that their successor carries."""

    value: bytes
    chain_hash: bytes


class StoredBatch(NamedTuple):
    """One key of the log as it was read."""

    number: int
    value: bytes


class DecodedBatch(NamedTuple):
    """What one batch says."""

    number: int
    events: list[Event]
    chain_hash: bytes


def encode_batch(
    serde: MetadataSerDe, events: Sequence[Event], previous: bytes
) -> EncodedBatch:
    """The stored form of consecutive `events`, which follow the event hashed `previous`."""
    stored: list[bytes] = []
    for event in events:
        stored.append(encode_event(event, previous))
        previous = chain(stored[-1])
    value = serde.serialize("batch", [events[0].position, len(stored), stored])
    return EncodedBatch(value, previous)


def decode_batch(
    serde: MetadataSerDe, batch: StoredBatch, position: int, previous: bytes
) -> DecodedBatch:
    """The events of `batch`, which must start at `position` after the hash `previous`.

    Raises:
        CorruptLog: Anything about it does not verify.
    """
    try:
        first, count, stored = serde.deserialize("batch", batch.value)
    except (CorruptCheckpoint, ValueError, TypeError) as error:
        raise CorruptLog(f"batch {batch.number}: {error}") from error
    if first != position or not isinstance(stored, list) or not 0 < count == len(stored):
        raise CorruptLog(
            f"batch {batch.number}: expected events from position {position}, it says {first}"
        )
    events, chain_hash = decode_events(stored, position, previous)
    return DecodedBatch(batch.number, events, chain_hash)


class EventLog:
    """Reads the log of one partition."""

    def __init__(
        self,
        backend: MetadataStorageBackend,
        keys: MetadataKeyFactory,
        topic_id_partition: TopicIdPartition,
    ) -> None:
        self._backend = backend
        self._prefix = keys.log(topic_id_partition)
        self._keys = keys
        self._topic_id_partition = topic_id_partition

    def key(self, number: int) -> str:
        """The key of batch `number`."""
        return self._keys.log_batch(self._topic_id_partition, number)

    async def read(self, number: int, limit: int = BATCHES_PER_READ) -> list[StoredBatch]:
        """The batches from `number` on, at most `limit`; empty at the log's end.

        Raises:
            CorruptLog: A number is missing before one that is there.
        """
        after = self.key(number - 1) if number > 0 else None
        found = await self._backend.get_like(self._prefix, after=after, limit=limit)
        batches = []
        for expected, (key, value) in enumerate(found, number):
            if key != self.key(expected):
                raise CorruptLog(f"expected batch {expected} of the log, found {key}")
            batches.append(StoredBatch(expected, value))
        return batches

    async def batches(
        self, number: int = 0, limit: int = BATCHES_PER_READ
    ) -> AsyncIterator[StoredBatch]:
        """All batches from `number` to the log's end, `limit` in memory at a time."""
        while found := await self.read(number, limit):
            for batch in found:
                yield batch
            number = found[-1].number + 1
