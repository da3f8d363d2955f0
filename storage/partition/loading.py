"""How the state of a partition is begun, by everybody who reads one: leader, follower, command.

Rule 1: a checkpoint counts if it verifies and the log holds the batch that it ends with. One
that does not only costs time: the log is read from its start.
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
    """The two things that a state can begin with."""

    checkpoints: CheckpointStore

    async def from_checkpoint(
        self, stored: bytes, *, tracks_changes: bool = False
    ) -> LoadedPartition:
        """A checkpoint, if it verifies."""
        ...

    async def beginning(self, *, tracks_changes: bool = False) -> LoadedPartition:
        """The log's start: a blank state, or a boundary."""
        ...


class Loading:
    """One beginning of a state, in two steps, so that what happens in between can be tried."""

    def __init__(self, reader: Beginnings, *, tracks_changes: bool = False) -> None:
        self.stored: bytes | None = None
        """The partition's value as it was last looked at: what the next checkpoint expects."""
        self.trouble: CorruptCheckpoint | None = None
        """Why the log is read from its start although there is a checkpoint."""
        self._reader = reader
        self._tracks_changes = tracks_changes
        self._attempts = 0
        self._is_renewed = True

    async def state(self) -> LoadedPartition:
        """The state: `look`, then `attempt`, until that gives one. Raises as `attempt` does."""
        loaded: LoadedPartition | None = None
        while loaded is None:
            await self.look()
            loaded = await self.attempt()
        return loaded

    async def look(self) -> None:
        """Read the partition's value."""
        before, self.stored = self.stored, await self._reader.checkpoints.read_stored()
        self._is_renewed = self._attempts == 0 or self.stored != before

    async def attempt(self) -> LoadedPartition | None:
        """The state by what was looked at; none if it may have been renewed: look again.

        Where the store knows no such partition, a blank one.

        Raises:
            CorruptLog: It does not begin with its first batch, nor with a boundary; or it ends
                before its checkpoint.
            FormatTooNew: A newer program wrote to it.
        """
        if self.stored is None:
            self.trouble = None
        elif self._is_renewed and self._attempts < LOAD_ATTEMPTS:
            self._attempts += 1
            try:
                loaded = await self._reader.from_checkpoint(
                    self.stored, tracks_changes=self._tracks_changes
                )
            except CorruptCheckpoint as error:
                self.trouble = error
                return None
            self.trouble = None
            return loaded
        return await self._reader.beginning(tracks_changes=self._tracks_changes)
