"""The logs of a cluster as chains of stored batches: partitions' and the coordinator's.

Nothing here decodes what events say, so the logs of newer releases are followed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from typing_extensions import override

from tierledger.events.errors import CorruptLog, DataError, StoreRefused
from tierledger.events.event_codec import chain, genesis, linked
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.keys import MetadataKeyFactory
from tierledger.storage.partition.checkpoint import boundary_in
from tierledger.storage.partition.event_log import StoredBatch, stored_events
from tierledger.storage.serde import MetadataSerDe

_COORDINATOR = b"coordinator"


class LogId(NamedTuple):
    """A partition's log, or the coordinator's."""

    topic_id: bytes
    partition: int

    @property
    def is_coordinators(self) -> bool:
        return self.topic_id == _COORDINATOR

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        """The partition, without its topic's name."""
        return TopicIdPartition(Uuid(self.topic_id), self.partition, "")

    @override
    def __str__(self) -> str:
        if self.is_coordinators:
            return "the coordinator's log"
        return f"{Uuid(self.topic_id)}-{self.partition}"


COORDINATOR = LogId(_COORDINATOR, 0)


class LogEnd(NamedTuple):
    """Where a log ends; what follows begins there."""

    next_batch: int
    next_position: int
    chain_hash: bytes


class BatchPiece(NamedTuple):
    """Consecutive batches of one log, as they are stored.

    If `first` is behind the end of what came before, the log was forgotten up to there.
    """

    log: LogId
    first: int
    values: Sequence[bytes]

    @property
    def size(self) -> int:
        return sum(map(len, self.values))


class FollowedLog(NamedTuple):
    """How far a piece continues its log."""

    end: LogEnd
    batches: int
    """Batches of the piece up to there."""
    error: DataError | StoreRefused | None
    """Why the next of its batches does not continue the log; refused: it is closed there."""


class ClusterLogs:
    """The keys of a cluster's logs, and what continues them."""

    def __init__(self, keys: MetadataKeyFactory, serde: MetadataSerDe, cluster_id: str) -> None:
        self.keys = keys
        self.serde = serde
        self.cluster_id = cluster_id

    def batch_keys(self, log: LogId) -> Callable[[int], str]:
        """The key of a batch of `log` by its number."""
        if log.is_coordinators:
            return self.keys.coordinator_batch
        return partial(self.keys.log_batch, log.topic_id_partition)

    def prefix(self, log: LogId) -> str:
        if log.is_coordinators:
            return self.keys.coordinator_log()
        return self.keys.log(log.topic_id_partition)

    def start(self, log: LogId) -> LogEnd:
        """Where a log begins that was never forgotten."""
        return LogEnd(0, 0, genesis(self.cluster_id, *log))

    def followed(self, end: LogEnd, piece: BatchPiece) -> FollowedLog:
        """How far `piece` continues the log that ended at `end`."""
        count = 0
        try:
            for number, value in enumerate(piece.values, piece.first):
                end = self._after(end, piece.log, number, value)
                count += 1
        except StoreRefused as error:
            return FollowedLog(end, count, error)
        except DataError as error:
            return FollowedLog(end, count, type(error)(f"{piece.log}: {error}"))
        return FollowedLog(end, count, None)

    def ends_with(self, end: LogEnd, log: LogId, value: bytes | None) -> bool:
        """Whether `value`, of the log's last slot before `end`, is what the log ended with.

        Raises:
            CorruptLog: It is damaged.
        """
        if value is None:
            return False
        number = end.next_batch - 1
        boundary = self._boundary(log, number, value)
        if boundary is not None:
            return boundary == end
        _, stored = stored_events(self.serde, StoredBatch(number, value))
        return chain(stored[-1]) == end.chain_hash

    def _after(self, end: LogEnd, log: LogId, number: int, value: bytes) -> LogEnd:
        if number != end.next_batch:
            boundary = self._boundary(log, number, value)
            if boundary is None or boundary.next_position < end.next_position:
                raise CorruptLog(f"batch {end.next_batch} is missing")
            return boundary
        try:
            first, stored = stored_events(self.serde, StoredBatch(number, value))
        except CorruptLog:
            boundary = self._boundary(log, number, value)
            if boundary is None or boundary.next_position != end.next_position:
                raise
            return boundary
        if first != end.next_position:
            raise CorruptLog(
                f"batch {number}: expected events from position {end.next_position}, "
                f"got {first}"
            )
        try:
            chain_hash = linked(stored, first, end.chain_hash)
        except CorruptLog as error:
            raise CorruptLog(f"batch {number}: {error}") from None
        return LogEnd(number + 1, first + len(stored), chain_hash)

    def _boundary(self, log: LogId, number: int, value: bytes) -> LogEnd | None:
        if log.is_coordinators:
            return None
        found = boundary_in(self.serde, log.topic_id_partition, number, value)
        if found is None:
            return None
        return LogEnd(number + 1, found.next_position, found.chain_hash)
