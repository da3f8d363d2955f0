"""A partition's local log, as the tasks see it: the broker's side of tiering.

`tiering.local.directory` is one over Kafka's own files.
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
    """Base offset of the segment after it; for the active one, the log's end."""
    size_in_bytes: int
    """Of the log file."""
    max_timestamp_ms: int
    log_file: Path
    """Its indexes lie beside it under the same name; the producer snapshot is named after
    `next_base_offset`."""

    @property
    def end_offset(self) -> int:
        """The last offset, inclusive."""
        return self.next_base_offset - 1


class LocalLog(Protocol):
    """A replica's log on this broker. Its numbers may move between two looks."""

    @property
    def topic_id_partition(self) -> TopicIdPartition: ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read, whether it is local or remote."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """No transaction that is still open begins before it."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        ...

    @property
    def leader_epochs(self) -> Mapping[int, int]:
        """Each leader epoch and the offset at which it starts, ascending.

        As in Kafka's leader-epoch-checkpoint; epochs without records may be in it.
        """
        ...

    @property
    def highest_offset_in_remote_storage(self) -> int:
        """Local segments up to here may be removed; -1 if none is known to be remote."""
        ...

    def segments(self) -> Sequence[LocalSegment]:
        """All local segments by base offset; the last is the active one."""
        ...

    async def raise_highest_offset_in_remote_storage(self, offset: int) -> None:
        """Say that all up to `offset` is remote; never goes back."""
        ...

    async def raise_log_start_offset(self, offset: int) -> None:
        """Let nobody read before `offset` any more; durable on return; never goes back.

        Raises:
            InvalidArgument: `offset` lies behind the log's end.
        """
        ...

    async def restart_at(
        self,
        offset: int,
        leader_epochs: Mapping[int, int],
        producer_snapshot: bytes,
        start: int,
    ) -> None:
        """Drop all local segments and begin at `offset`, with the state that the tier gave.

        What is read before `offset`, from `start` on, is remote (a follower's auxiliary state).
        """
        ...
