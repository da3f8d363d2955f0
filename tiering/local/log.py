"""A partition's local log, as the tiering tasks see it.

`tiering.local.directory` implements it over Kafka's own files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tierledger.events.identifiers import TopicIdPartition


class LocalSegment(NamedTuple):
    """One segment of the local log."""

    base_offset: int
    next_base_offset: int
    """Base offset of the next segment; for the active segment, the log's end."""
    size_in_bytes: int
    """Size of the log file."""
    max_timestamp_ms: int
    log_file: Path
    """The indexes are beside it under the same name. The producer snapshot is named by
    `next_base_offset`."""

    @property
    def end_offset(self) -> int:
        """The last offset, inclusive."""
        return self.next_base_offset - 1


class LocalLog(Protocol):
    """A replica's log on this broker. Its values may change between two calls."""

    @property
    def topic_id_partition(self) -> TopicIdPartition: ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read, local or remote."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """The offset below which all records are replicated and all transactions decided."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def leader_epochs(self) -> Mapping[int, int]:
        """Each leader epoch and the offset at which it starts, ascending.

        As in Kafka's leader-epoch-checkpoint, epochs without records may be among them.
        """
        ...

    @property
    def highest_offset_in_remote_storage(self) -> int:
        """Local segments up to this offset may be removed; -1 if none is known to be remote."""
        ...

    def segments(self) -> Sequence[LocalSegment]:
        """All local segments by base offset; the last is the active one."""
        ...

    async def raise_highest_offset_in_remote_storage(self, offset: int) -> None:
        """Note that all offsets up to `offset` are remote. A lower value changes nothing."""
        ...

    async def raise_log_start_offset(self, offset: int) -> None:
        """Refuse reads before `offset` from now on; durable on return.

        A lower value than the present one changes nothing.

        Raises:
            InvalidArgument: `offset` is behind the log's end.
        """
        ...

    async def restart_at(
        self,
        offset: int,
        leader_epochs: Mapping[int, int],
        producer_snapshot: bytes,
        start: int,
    ) -> None:
        """Drop all local segments and begin at `offset`, with the given state from the tier.

        The log starts at `start`; its offsets before `offset` are remote. (This is a follower's
        auxiliary state.)
        """
        ...
