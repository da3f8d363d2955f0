"""A partition's log in a store: one key per committed batch, numbered densely.

Creating the next number's key is the only lock there is: a writer that finds the key taken was
overtaken. A batch names its first position, so a reader can enter anywhere it knows the hash.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import NamedTuple

from tierledger.events.errors import CorruptCheckpoint, CorruptLog, DataError
from tierledger.events.event_codec import chain, decode_events, encode_event
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import Event
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.events.typed_fields import Count, as_tuples, check_items, values_test
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


class LogPage(NamedTuple):
    """Batches of a log that follow each other."""

    batches: list[StoredBatch]
    is_end: bool
    """Whether the log ended behind them when they were read."""


_FIELDS = {"position": Count, "count": Count, "events": tuple[bytes, ...]}
"""Of a stored batch."""
_are_sound = values_test(_FIELDS.values())


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
        FormatTooNew: A newer program wrote it.
    """
    first, stored = stored_events(serde, batch)
    if first != position:
        raise CorruptLog(
            f"batch {batch.number}: expected events from position {position}, it says {first}"
        )
    try:
        events, chain_hash = decode_events(stored, position, previous)
    except DataError as error:
        raise type(error)(f"batch {batch.number}: {error}") from None
    return DecodedBatch(batch.number, events, chain_hash)


def stored_events(serde: MetadataSerDe, batch: StoredBatch) -> tuple[int, tuple[bytes, ...]]:
    """First position and stored events of `batch`, whose checksum holds.

    Raises:
        CorruptLog: It does not, or it is no batch.
        FormatTooNew: A newer program wrote it.
    """
    try:
        first, count, stored = fields = as_tuples(serde.deserialize("batch", batch.value))
        if not (len(fields) == len(_FIELDS) and _are_sound(*fields)):
            check_items(_FIELDS, fields)
    except (CorruptCheckpoint, ValueError, TypeError) as error:
        raise CorruptLog(f"batch {batch.number}: {error}") from error
    if not 0 < len(stored) == count:
        raise CorruptLog(f"batch {batch.number}: expected {count} events, found {len(stored)}")
    return first, stored


def apply_events(
    state: PartitionState, number: int, events: Sequence[Event], chain_hash: bytes
) -> None:
    """Carry `state` on by decoded events of batch `number`, the last of which has that hash.

    Raises:
        CorruptLog: Right in themselves, but no leader decided them; the events before the one
            that cannot be applied are in the state.
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
    """Reads a log that is kept in numbered batches.

    Rule: a batch that is missing before one that is there, or before the checkpoint's place,
    is damage. No log is believed to end there.
    """

    def __init__(
        self, backend: MetadataStorageBackend, prefix: str, key: Callable[[int], str]
    ) -> None:
        """`key` names a batch by its number; all those names start with `prefix`."""
        self.key = key
        self.reaches = 0
        """Batches that it has at least, since a checkpoint stands for them."""
        self._backend = backend
        self._prefix = prefix

    async def read(self, number: int, limit: int = BATCHES_PER_READ) -> list[StoredBatch]:
        """The batches of the `page`."""
        return (await self.page(number, limit)).batches

    async def page(self, number: int, limit: int = BATCHES_PER_READ) -> LogPage:
        """The batches from `number` on: at most `limit`, none at the log's end.

        Fewer come before a batch that is missing.

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
                f"batch {number} is missing: the log ends there, and its checkpoint stands for "
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
