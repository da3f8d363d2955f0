"""The coordinator's log as bytes and as state: folds batches, encodes decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tierledger.actors.coordinator import evolve
from tierledger.actors.coordinator.events import COORDINATOR_CODEC, CoordinatorBody
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.events.errors import CorruptLog, DataError, StoreRefused
from tierledger.events.event_codec import chain, genesis
from tierledger.events.log_events import Event
from tierledger.storage.keys import MetadataKeyFactory
from tierledger.storage.partition.event_log import StoredBatch, stored_events
from tierledger.storage.serde import MetadataSerDe


class Fold:
    """The state of a log up to some batch. Nothing else changes that state."""

    def __init__(
        self,
        cluster_id: str,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        identity: bytes | None = None,
    ) -> None:
        """`identity` distinguishes this coordinator's batches from equal ones of another."""
        self.state = CoordinatorState(genesis(cluster_id, b"coordinator", 0))
        self.next_batch = 0
        self.key = keys.coordinator_batch
        self._serde = serde
        self._identity = identity

    def events_of(
        self, bodies: Iterable[CoordinatorBody], after: CoordinatorState, now_ms: int
    ) -> tuple[list[Event], list[bytes]]:
        """`bodies` as the events that follow the state `after`, and their bytes."""
        events: list[Event] = []
        stored: list[bytes] = []
        previous = after.chain_hash
        for position, body in enumerate(bodies, after.next_position):
            event = Event(position, 0, now_ms, -1, self._identity, body)  # type: ignore[arg-type] # A codec of its own.
            events.append(event)
            stored.append(COORDINATOR_CODEC.encode(event, previous))
            previous = chain(stored[-1])
        return events, stored

    def batch_of(self, stored: Sequence[bytes]) -> bytes:
        """The bytes of the next batch, from events that were decided on this state."""
        fields = [self.state.next_position, len(stored), list(stored)]
        return self._serde.serialize("batch", fields)

    def decoded(self, batch: StoredBatch) -> tuple[list[Event], bytes]:
        """The events of the next batch, and the chain hash that the event after them carries.

        Raises:
            CorruptLog: The batch does not verify: what was decided after that is not known.
            FormatTooNew: A newer release wrote it.
            StoreRefused: The log is closed, as that of a store that is not restored yet.
        """
        try:
            first, stored = stored_events(self._serde, batch)
            if first != self.state.next_position:
                raise CorruptLog(f"batch {batch.number}: it starts at position {first}")
            return COORDINATOR_CODEC.decode(
                stored, self.state.next_position, self.state.chain_hash
            )
        except StoreRefused:
            raise
        except DataError as error:
            raise self.damaged(error) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # Checksums and chain are right, but no coordinator writes such a batch.
            raise self.damaged(CorruptLog(f"cannot be applied ({error!r})")) from error

    def apply(self, event: Event) -> list[HostWork]:
        """Apply one durable event to the state; the work for hosts that follows from it."""
        return evolve.evolve(self.state, event)

    def passed(self, chain_hash: bytes) -> None:
        """Note that all events of the next batch are applied; go on behind it."""
        self.state.chain_hash = chain_hash
        self.next_batch += 1

    def take(self, batch: StoredBatch) -> None:
        """Fold the next batch at once, for processes that only read the log.

        Raises:
            CorruptLog: As `decoded`.
            FormatTooNew: As `decoded`.
        """
        events, last = self.decoded(batch)
        for event in events:
            self.apply(event)
        self.passed(last)

    def damaged(self, error: DataError) -> DataError:
        """`error` with a message that says where the damage is and what an operator can do."""
        return type(error)(
            f"the coordinator's log, {self.key(self.next_batch)!r}, position "
            f"{self.state.next_position}: {error}. No service can start from it: restore the "
            "store from a backup, and see what else `tierledger verify` finds"
        )
