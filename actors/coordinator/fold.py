"""The coordinator's log as bytes and as state: batches are folded, decisions become batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tierledger.actors.coordinator import rules
from tierledger.actors.coordinator.events import COORDINATOR_CODEC, CoordinatorBody
from tierledger.actors.coordinator.rules import HostWork
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.events.errors import CorruptLog, DataError
from tierledger.events.event_codec import chain, genesis
from tierledger.events.log_events import Event
from tierledger.storage.keys import MetadataKeyFactory
from tierledger.storage.partition.event_log import StoredBatch, stored_events
from tierledger.storage.serde import MetadataSerDe


class Fold:
    """What a log holds up to some batch. It alone changes the state that decisions rest on."""

    def __init__(
        self,
        cluster_id: str,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        identity: bytes | None = None,
    ) -> None:
        """`identity` tells this coordinator's batches from the same words of another."""
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
        """The next batch, of events that were decided on this state."""
        fields = [self.state.next_position, len(stored), list(stored)]
        return self._serde.serialize("batch", fields)

    def decoded(self, batch: StoredBatch) -> tuple[list[Event], bytes]:
        """The events of the next batch, and the hash that their successor carries.

        Raises:
            CorruptLog: It does not verify: what was decided after that is not known.
            FormatTooNew: A newer program wrote it.
        """
        try:
            first, stored = stored_events(self._serde, batch)
            if first != self.state.next_position:
                raise CorruptLog(f"batch {batch.number}: it says that it starts at {first}")
            return COORDINATOR_CODEC.decode(
                stored, self.state.next_position, self.state.chain_hash
            )
        except DataError as error:
            raise self.damaged(error) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # Checksums and chain are right, but no coordinator decided this.
            raise self.damaged(CorruptLog(f"cannot be applied ({error!r})")) from error

    def apply(self, event: Event) -> list[HostWork]:
        """Carry the state on by one durable event; what hosts have to be told of it."""
        return rules.evolve(self.state, event)

    def passed(self, chain_hash: bytes) -> None:
        """All events of the batch are applied."""
        self.state.chain_hash = chain_hash
        self.next_batch += 1

    def take(self, batch: StoredBatch) -> None:
        """Fold the next batch, for one who only reads.

        Raises:
            CorruptLog: As `decoded`.
            FormatTooNew: As `decoded`.
        """
        events, last = self.decoded(batch)
        for event in events:
            self.apply(event)
        self.passed(last)

    def damaged(self, error: DataError) -> DataError:
        """`error`, with where it is and what can be done."""
        return type(error)(
            f"the coordinator's log, {self.key(self.next_batch)!r}, position "
            f"{self.state.next_position}: {error}. No service can start from it: restore the "
            "store from a backup, and see what else `tierledger verify` finds"
        )
