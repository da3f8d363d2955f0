"""The keys of a store.

    {cluster}/log/{topic_id}/{partition}/{batch}
    {cluster}/state/{topic_id}/{partition}/partition
                                           epoch/{epoch}
                                           epoch/{epoch}/{table}/{page}
                                           kept/{page}
                                           segment/{id in hex}
    {cluster}/coordinator/log/{batch}
    {cluster}/service

Numbers are padded with zeros, so that keys sort by number. Every prefix ends with `/`, so that
partition 1 is never taken for partition 10, nor one cluster for another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from urllib.parse import quote, unquote

from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.backend import HIGHEST_CHARACTER

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

CLUSTER_BYTES_MAX = 512
"""Longest escaped cluster id: half of the longest key, as the rest of a key is short. (Kafka's
own ids have 22 characters.)"""

SEGMENT_HEX_DIGITS = 32


class MetadataKeyFactory(ABC):
    """Makes the keys of one Kafka cluster.

    Every key of a cluster starts with the same text, from which `cluster_of` gets the cluster's
    id. A "prefix" is the text with which all keys of a kind start, and no others.
    """

    @abstractmethod
    def log_batch(self, topic_id_partition: TopicIdPartition, batch: int) -> str:
        """The key of one batch of a partition's log; keys sort as batches do.

        A key is the log's prefix and then text without "/": see `create_each`.
        """

    @abstractmethod
    def log(self, topic_id_partition: TopicIdPartition) -> str:
        """The prefix of a partition's log."""

    @abstractmethod
    def logs(self) -> str:
        """The prefix of all partitions' logs; keys of one log are contiguous."""

    @abstractmethod
    def partition(self, topic_id_partition: TopicIdPartition) -> str:
        """The key of the partition's metadata."""

    @abstractmethod
    def leader_epoch(self, topic_id_partition: TopicIdPartition, epoch: int) -> str:
        """The key of a leader epoch's metadata; keys sort as the 32-bit epochs do."""

    @abstractmethod
    def leader_epoch_page(
        self, topic_id_partition: TopicIdPartition, epoch: int, table: str, page: int
    ) -> str:
        """The key of one page of a table of a leader epoch."""

    @abstractmethod
    def kept(self, topic_id_partition: TopicIdPartition) -> str:
        """The prefix of the segments of a partition that were kept from deletion."""

    @abstractmethod
    def kept_page(self, topic_id_partition: TopicIdPartition, page: int) -> str:
        """The key of one page of these."""

    @abstractmethod
    def leader_epochs(self, topic_id_partition: TopicIdPartition) -> str:
        """The prefix of all leader epochs of a partition, and their pages."""

    @abstractmethod
    def segment(self, topic_id_partition: TopicIdPartition, segment_id: bytes) -> str:
        """The key of a segment's metadata; keys sort as the ids' bytes do."""

    @abstractmethod
    def segments(self, topic_id_partition: TopicIdPartition) -> str:
        """The prefix of all segments of a partition."""

    @abstractmethod
    def state(self, topic_id_partition: TopicIdPartition) -> str:
        """The prefix of a partition's whole checkpoint."""

    @abstractmethod
    def states(self) -> str:
        """The prefix of all partitions' checkpoints; keys of one checkpoint are contiguous."""

    @abstractmethod
    def coordinator_batch(self, batch: int) -> str:
        """The key of one batch of the coordinator's log."""

    @abstractmethod
    def coordinator_log(self) -> str:
        """The prefix of the coordinator's log."""

    @abstractmethod
    def service(self) -> str:
        """The key of the record of the cluster's service, by which clients find it."""

    @abstractmethod
    def parse_log_batch(self, key: str) -> tuple[Uuid, int, int]:
        """Topic id, partition and batch of a key that `log_batch` made.

        Raises:
            InvalidArgument: `key` is not such a key of this cluster.
        """

    @abstractmethod
    def parse_partition(self, key: str) -> tuple[Uuid, int]:
        """Topic id and partition of any key in a partition's log or checkpoint.

        Raises:
            InvalidArgument: `key` is in no log or checkpoint of this cluster.
        """

    @abstractmethod
    def segment_id_of(self, key: str) -> bytes:
        """The 16 bytes of the segment id in `key`, which must be one that `segment` made."""

    @staticmethod
    @abstractmethod
    def cluster_of(key: str) -> str:
        """The id of the cluster that a key belongs to."""


class DefaultMetadataKeyFactory(MetadataKeyFactory):
    """Makes keys as the head of this module shows."""

    def __init__(self, cluster_id: str) -> None:
        """A factory for `cluster_id`, which may have any character.

        Raises:
            InvalidArgument: The id is empty, too long, or not Unicode.
        """
        if not cluster_id:
            raise InvalidArgument("expected the id of a Kafka cluster, got an empty one")
        try:
            self._cluster = quote(cluster_id, safe="")
        except UnicodeEncodeError as error:
            raise InvalidArgument(
                f"expected a cluster id of Unicode characters, got {cluster_id!r}"
            ) from error
        if len(self._cluster) > CLUSTER_BYTES_MAX:
            raise InvalidArgument(
                f"expected a cluster id of at most {CLUSTER_BYTES_MAX} bytes when escaped, "
                f"got {len(self._cluster)}: {cluster_id[:64]!r}…"
            )
        self.cluster_id = cluster_id
        self._logs = f"{self._cluster}/log/"
        self._states = f"{self._cluster}/state/"

    @override
    def log_batch(self, topic_id_partition: TopicIdPartition, batch: int) -> str:
        return f"{self.log(topic_id_partition)}{_batch(batch)}"

    @override
    def log(self, topic_id_partition: TopicIdPartition) -> str:
        return f"{self._logs}{_partition(topic_id_partition)}/"

    @override
    def logs(self) -> str:
        return self._logs

    @override
    def partition(self, topic_id_partition: TopicIdPartition) -> str:
        return f"{self.state(topic_id_partition)}partition"

    @override
    def leader_epoch(self, topic_id_partition: TopicIdPartition, epoch: int) -> str:
        return f"{self.leader_epochs(topic_id_partition)}{_epoch(epoch)}"

    @override
    def leader_epoch_page(
        self, topic_id_partition: TopicIdPartition, epoch: int, table: str, page: int
    ) -> str:
        _check_range("a page", page, INT32_MAX)
        if not table or not table.isascii() or not table.replace("_", "a").isalnum():
            raise InvalidArgument(
                f"expected a table's name of letters and digits, got {table!r}"
            )
        return f"{self.leader_epoch(topic_id_partition, epoch)}/{table}/{page:010d}"

    @override
    def kept(self, topic_id_partition: TopicIdPartition) -> str:
        return f"{self.state(topic_id_partition)}kept/"

    @override
    def kept_page(self, topic_id_partition: TopicIdPartition, page: int) -> str:
        _check_range("a page", page, INT32_MAX)
        return f"{self.kept(topic_id_partition)}{page:010d}"

    @override
    def leader_epochs(self, topic_id_partition: TopicIdPartition) -> str:
        return f"{self.state(topic_id_partition)}epoch/"

    @override
    def segment(self, topic_id_partition: TopicIdPartition, segment_id: bytes) -> str:
        return f"{self.segments(topic_id_partition)}{segment_id.hex()}"

    @override
    def segments(self, topic_id_partition: TopicIdPartition) -> str:
        return f"{self.state(topic_id_partition)}segment/"

    @override
    def state(self, topic_id_partition: TopicIdPartition) -> str:
        return f"{self._states}{_partition(topic_id_partition)}/"

    @override
    def states(self) -> str:
        return self._states

    @override
    def coordinator_batch(self, batch: int) -> str:
        return f"{self.coordinator_log()}{_batch(batch)}"

    @override
    def coordinator_log(self) -> str:
        return f"{self._cluster}/coordinator/log/"

    @override
    def service(self) -> str:
        return f"{self._cluster}/service"

    @override
    def parse_log_batch(self, key: str) -> tuple[Uuid, int, int]:
        topic_id, partition = self.parse_partition(key)
        batch = key.rpartition("/")[2]
        folder = f"{self._logs}{_partition_text(topic_id, partition)}/"
        if not batch.isdecimal() or folder + _batch(int(batch)) != key:
            raise InvalidArgument(f"expected the key of a batch of a log, got {key!r}")
        return topic_id, partition, int(batch)

    @override
    def parse_partition(self, key: str) -> tuple[Uuid, int]:
        for prefix in (self._logs, self._states):
            if key.startswith(prefix):
                topic_id, first, rest = key[len(prefix) :].partition("/")
                partition, second, _ = rest.partition("/")
                found = _parsed_partition(topic_id, partition) if first and second else None
                if found is not None:
                    return found
        raise InvalidArgument(f"expected a key of a partition, got {key!r}")

    @override
    def segment_id_of(self, key: str) -> bytes:
        return bytes.fromhex(key[-SEGMENT_HEX_DIGITS:])

    @staticmethod
    @override
    def cluster_of(key: str) -> str:
        return unquote(key.partition("/")[0])


def behind(prefix: str) -> str:
    """A text after every key that starts with `prefix`, to skip them all in a list."""
    return prefix + HIGHEST_CHARACTER


def _partition(topic_id_partition: TopicIdPartition) -> str:
    return _partition_text(topic_id_partition.topic_id, topic_id_partition.partition)


@lru_cache(maxsize=8192)
def _partition_text(topic_id: Uuid, partition: int) -> str:
    return f"{topic_id}/{partition:010d}"


@lru_cache(maxsize=8192)
def _parsed_partition(topic_id: str, partition: str) -> tuple[Uuid, int] | None:
    """What the two parts of a folder's name say; None if a factory would not write them so.

    Raises:
        InvalidArgument: The first is no id.
    """
    if not partition.isdecimal():
        return None
    tip = TopicIdPartition(Uuid.parse(topic_id), int(partition), "")
    written = _partition_text(tip.topic_id, tip.partition)
    return (tip.topic_id, tip.partition) if written == f"{topic_id}/{partition}" else None


def _batch(batch: int) -> str:
    _check_range("a batch", batch, INT64_MAX)
    return f"{batch:020d}"


def _epoch(epoch: int) -> str:
    """`epoch` as text that sorts as numbers do: "-" sorts before all digits."""
    if not -(INT32_MAX + 1) <= epoch <= INT32_MAX:
        raise InvalidArgument(f"expected a leader epoch of 32 bits, got {epoch}")
    return f"{epoch:010d}" if epoch >= 0 else f"-{epoch + INT32_MAX + 1:010d}"


def _check_range(what: str, number: int, highest: int) -> None:
    if not 0 <= number <= highest:
        raise InvalidArgument(f"expected {what} from 0 to {highest}, got {number}")
