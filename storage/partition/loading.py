"""Loads the state with which a leader, a follower or a command begins to read a log.

Rule 1: a checkpoint counts if it verifies and the log has the batch with which it ends.
Otherwise the log is read from its start, which only costs time.
Rule 2: a log that ends before its checkpoint is damaged, not short.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tierledger.events.errors import CorruptCheckpoint
from tierledger.events.partition.state import PartitionState
from tierledger.storage.partition.checkpoint import LOAD_ATTEMPTS, CheckpointStore


class LoadedPartition(NamedTuple):
    """A state, and the number of the log's batch that follows it."""

    state: PartitionState
    next_batch: int


class Beginnings(Protocol):
    """The two sources of a first state."""

    checkpoints: CheckpointStore

    async def from_checkpoint(
        self, stored: bytes, *, tracks_changes: bool = False
    ) -> LoadedPartition:
        """The state in a checkpoint that verifies."""
        ...

    async def beginning(self, *, tracks_changes: bool = False) -> LoadedPartition:
        """The state at the log's start: blank, or that of a boundary."""
        ...


class Loading:
    """Loads a state in two steps, so that tests can let others write in between."""

    def __init__(self, reader: Beginnings, *, tracks_changes: bool = False) -> None:
        self.stored: bytes | None = None
        """The partition's value as last read, which the next checkpoint expects."""
        self.trouble: CorruptCheckpoint | None = None
        """Why the log is read from its start though there is a checkpoint."""
        self._reader = reader
        self._tracks_changes = tracks_changes
        self._attempts = 0
        """Checkpoints that did not verify; one that was not read is none of them."""
        self._unverified: bytes | None = None
        """The last of them."""

    async def state(self) -> LoadedPartition:
        """The state: `look` and `attempt`, until that returns one. Raises as `attempt` does."""
        loaded: LoadedPartition | None = None
        while loaded is None:
            await self.look()
            loaded = await self.attempt()
        return loaded

    async def look(self) -> None:
        """Read the partition's value."""
        self.stored = await self._reader.checkpoints.read_stored()

    async def attempt(self) -> LoadedPartition | None:
        """The state; None if a writer may have replaced the checkpoint, so `look` again.

        A blank state if the store has no such partition.

        Raises:
            CorruptLog: The log begins neither with its first batch nor with a boundary, or
                ends before its checkpoint.
            FormatTooNew: A newer program wrote to it.
        """
        if self.stored is None:
            self.trouble = None
        elif self.stored != self._unverified and self._attempts < LOAD_ATTEMPTS:
            try:
                loaded = await self._reader.from_checkpoint(
                    self.stored, tracks_changes=self._tracks_changes
                )
            except CorruptCheckpoint as error:
                self._attempts += 1
                self.trouble, self._unverified = error, self.stored
                return None
            self.trouble = None
            return loaded
        return await self._reader.beginning(tracks_changes=self._tracks_changes)
