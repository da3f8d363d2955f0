"""A partition's log in a store: one key per committed batch, numbered without gaps.

Creating the key of the next batch is the only lock, and fences writers: one that finds the key
taken was overtaken by a newer leader. A batch has its first position, so a reader can begin at
any batch if it knows the hash of the event before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import NamedTuple

from tierledger.events.errors import CorruptCheckpoint, CorruptLog, DataError, LogClosed
from tierledger.events.event_codec import chain, decode_events, encode_event
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import Event
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.events.typed_fields import Count, made_of
from tierledger.storage.backend import Former, MetadataStorageBackend
from tierledger.storage.closed_slot import why_closed
from tierledger.storage.keys import MetadataKeyFactory
from tierledger.storage.serde import MetadataSerDe

BATCHES_PER_READ = 200
"""Batches that a reader has in memory at a time: 13 MB if each has 64 KiB."""


class EncodedBatch(NamedTuple):
    """A batch's stored form, and the chain hash for the event that follows it."""

    value: bytes
    chain_hash: bytes


class StoredBatch(NamedTuple):
    """A batch as it was read from the store."""

    number: int
    value: bytes


class LogPage(NamedTuple):
    """Consecutive batches of a log."""

    batches: list[StoredBatch]
    is_end: bool
    """Whether the log ended after them when they were read."""


class _BatchValue(NamedTuple):
    """The fields of a stored batch."""

    first: Count
    total: Count
    events: tuple[bytes, ...]


class DecodedBatch(NamedTuple):
    """A batch's events, verified, and the hash of the last."""

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
    """The events of `batch`, which must begin at `position` after the hash `previous`.

    Raises:
        CorruptLog: The batch does not verify.
        FormatTooNew: A newer program wrote it.
    """
    first, stored = stored_events(serde, batch)
    if first != position:
        raise CorruptLog(
            f"batch {batch.number}: expected events from position {position}, got {first}"
        )
    try:
        events, chain_hash = decode_events(stored, position, previous)
    except DataError as error:
        raise type(error)(f"batch {batch.number}: {error}") from None
    return DecodedBatch(batch.number, events, chain_hash)


def stored_events(serde: MetadataSerDe, batch: StoredBatch) -> tuple[int, tuple[bytes, ...]]:
    """First position and stored events of `batch`, after a check of its checksum.

    Raises:
        CorruptLog: The checksum is wrong, or it is no batch.
        FormatTooNew: A newer program wrote it.
        LogClosed: The slot closes its log.
    """
    try:
        first, count, stored = made_of(_BatchValue, serde.deserialize("batch", batch.value))
    except (CorruptCheckpoint, ValueError, TypeError) as error:
        why = why_closed(serde, batch.value)
        if why is not None:
            raise LogClosed(why) from None
        raise CorruptLog(f"batch {batch.number}: {error}") from error
    if not 0 < len(stored) == count:
        raise CorruptLog(f"batch {batch.number}: expected {count} events, found {len(stored)}")
    return first, stored


def apply_events(
    state: PartitionState, number: int, events: Sequence[Event], chain_hash: bytes
) -> None:
    """Apply decoded events of batch `number` to `state`; `chain_hash` is that of the last.

    Raises:
        CorruptLog: The events verify, but no leader can have decided them. The state has those
            before the one that cannot be applied.
    """
    try:
        evolve_all(state, events, chain_hash)
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CorruptLog(
            f"batch {number}: position {state.next_position}: cannot be applied ({error!r})"
        ) from error
    except DataError as error:
        raise CorruptLog(f"batch {number}: {error}") from error


class BatchLog:
    """Reads a log that is stored in numbered batches.

    Rule: a batch that is missing before a stored one, or before the checkpoint's, is damage;
    it is never taken for the log's end.
    """

    def __init__(
        self, backend: MetadataStorageBackend, prefix: str, key: Callable[[int], str]
    ) -> None:
        """`key` gives a batch's key by its number; all begin with `prefix`."""
        self.key = key
        self.reaches = 0
        """Batches that the log must have, as a checkpoint includes them."""
        self._backend = backend
        self._prefix = prefix

    def require(self, batches: int) -> None:
        """Take a log with fewer `batches` for damaged from now on: a checkpoint has them."""
        self.reaches = max(self.reaches, batches)

    def former(self, number: int, beginning: bytes = b"") -> Former | None:
        """What has to be there before batch `number`, as who created or read it knows."""
        return Former(self.key(number - 1), beginning) if number else None

    async def read(self, number: int, limit: int = BATCHES_PER_READ) -> list[StoredBatch]:
        """The batches of `page(number, limit)`."""
        return (await self.page(number, limit)).batches

    async def page(self, number: int, limit: int = BATCHES_PER_READ) -> LogPage:
        """The batches from `number` on, at most `limit`; empty at the log's end.

        There are fewer if a batch after them is missing.

        Raises:
            CorruptLog: Batch `number` is missing.
        """
        after = self.key(number - 1) if number > 0 else None
        found = await self._backend.get_like(self._prefix, after=after, limit=limit)
        batches = []
        for expected, (key, value) in enumerate(found, number):
            if key != self.key(expected):
                break
            batches.append(StoredBatch(expected, value))
        if not batches and found:
            raise CorruptLog(f"batch {number} is missing: the log goes on with {found[0][0]!r}")
        if not batches and number < self.reaches:
            raise CorruptLog(
                f"batch {number} is missing: the log ends there, and its checkpoint covers "
                f"{self.reaches} batches"
            )
        is_whole = len(batches) == len(found) < limit
        return LogPage(batches, is_whole and number + len(batches) >= self.reaches)

    async def batches(
        self, number: int = 0, limit: int = BATCHES_PER_READ
    ) -> AsyncIterator[StoredBatch]:
        """All batches from `number` to the log's end, `limit` in memory at a time."""
        while found := await self.read(number, limit):
            for batch in found:
                yield batch
            number = found[-1].number + 1


class EventLog(BatchLog):
    """Reads the log of one partition."""

    def __init__(
        self,
        backend: MetadataStorageBackend,
        keys: MetadataKeyFactory,
        topic_id_partition: TopicIdPartition,
    ) -> None:
        key = partial(keys.log_batch, topic_id_partition)
        super().__init__(backend, keys.log(topic_id_partition), key)
