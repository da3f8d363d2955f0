"""What leaders and followers share: the state that a log is folded into, and its feed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tierledger.actors import messages as msg
from tierledger.actors.feed.source import FeedSource
from tierledger.events.commands import Claim
from tierledger.events.errors import CorruptLog, RemoteStorageError
from tierledger.events.log_events import Event
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.storage.backend import FORMER_BYTES
from tierledger.storage.partition.event_log import StoredBatch, decode_batch
from tierledger.storage.serde import MetadataSerDe


class Replaying(ABC):
    """A machine that replays one partition's log."""

    def __init__(self, serde: MetadataSerDe) -> None:
        self.state: PartitionState | None = None
        self.next_batch = 0
        self._beginning = b""
        """The first bytes of the batch before; empty if it was not read, but a checkpoint."""
        self._feed: FeedSource | None = None
        self._serde = serde
        self._trouble: RemoteStorageError | None = None

    @property
    def position(self) -> int:
        """The last position that is durable and applied; -1 before the first."""
        return -1 if self.state is None else self.state.next_position - 1

    @abstractmethod
    def session_under(self, claim: Claim) -> int | None:
        """The number of the session under which replicas may be ready for `claim`, if any."""

    def open_feed(self) -> FeedSource:
        """The source that feeds replicas with this state; from now on it gets every change."""
        if self._feed is None:
            self._feed = FeedSource(self, self.session_under)
        return self._feed

    def close_feed(self) -> None:
        """Drop the source: no replica has subscribed for some time."""
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def _begin(self, loaded: msg.StateLoaded) -> None:
        self.state, self.next_batch = loaded.state, loaded.next_batch
        self._beginning = b""
        if self._feed is not None:
            self._feed.restarted()

    def _take(self, state: PartitionState, batch: StoredBatch) -> int:
        """Apply the next batch of the log; returns the number of its events.

        Raises:
            DataError: It does not verify; nothing of it was applied.
        """
        decoded = decode_batch(self._serde, batch, state.next_position, state.chain_hash)
        self._apply(state, decoded.events, decoded.chain_hash)
        self._go_behind(batch.number, batch.value)
        return len(decoded.events)

    def _go_behind(self, number: int, value: bytes) -> None:
        """Go on behind batch `number`, which is durable and applied."""
        self.next_batch, self._beginning = number + 1, value[:FORMER_BYTES]

    def _apply(self, state: PartitionState, events: Sequence[Event], chain_hash: bytes) -> None:
        """Apply events. After an unforeseen error the state, perhaps half changed, is gone."""
        self.state = None
        try:
            evolve_all(state, events, chain_hash)
        except CorruptLog:  # Raised before the event changes anything.
            self.state = state
            raise
        self.state = state
        if self._feed is not None:
            self._feed.changed(events)


def quarantine_alarm(cause: str, story: str) -> msg.Alarm:
    """The alarm of a partition in quarantine; `story`: its last steps, if one failed."""
    message = f"{cause}; the steps before: {story}" if story else cause
    return msg.Alarm("quarantined", message)
