"""The coordinator's own log: read to its end, appended to, folded.

Any number of coordinators may append. Who finds the slot taken reads on and decides anew, so
nothing is ever decided on half of the log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tierledger.actors import coordinator as rules
from tierledger.actors.coordinator_events import COORDINATOR_CODEC
from tierledger.actors.coordinator_state import CoordinatorState
from tierledger.actors.slices import Slices
from tierledger.events.errors import (
    CorruptLog,
    DataError,
    OutcomeUnknown,
    RemoteStorageError,
    RetryableError,
)
from tierledger.events.event_codec import chain, genesis
from tierledger.events.log_events import Event
from tierledger.storage.backend import CreateOutcome
from tierledger.storage.event_log import BatchLog, StoredBatch, stored_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.actors.coordinator import HostWork
    from tierledger.actors.coordinator_events import CoordinatorBody
    from tierledger.actors.ports import Clock
    from tierledger.storage.backend import MetadataStorageBackend
    from tierledger.storage.keys import MetadataKeyFactory
    from tierledger.storage.serde import MetadataSerDe

BATCHES_PER_READ = 500

DOUBT_S = 5.0
"""How long the slot of an append without an answer is looked at before its caller hears so."""

DOUBT_PAUSE_S = 0.05


class CoordinatorLog:
    """Owns the state; nobody else changes it."""

    def __init__(
        self,
        cluster_id: str,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        clock: Clock,
        backend: MetadataStorageBackend,
        identity: bytes | None,
    ) -> None:
        """`identity` tells this coordinator's appends from the same words of another."""
        self.state = CoordinatorState(genesis(cluster_id, b"coordinator", 0))
        self._keys = keys
        self._serde = serde
        self._clock = clock
        self._backend = backend
        self._identity = identity
        self._next_batch = 0
        self._log = BatchLog(backend, keys.coordinator_log(), keys.coordinator_batch)
        self._works: list[HostWork] = []
        self._turn = asyncio.Lock()
        """Reading and appending both fold, and each must fold behind the other."""

    def take_work(self) -> list[HostWork]:
        """What hosts have to be told because of all that was read and appended since."""
        works, self._works = self._works, []
        return works

    async def read_on(self) -> bool:
        """Read to the end of the log; whether there was anything new.

        Raises:
            CorruptLog: It does not verify: what was decided after that is not known.
            FormatTooNew: A newer program wrote to it.
        """
        async with self._turn:
            return await self._read_on()

    async def _read_on(self) -> bool:
        known, slices = self._next_batch, Slices()
        while True:
            try:
                page = await self._log.page(self._next_batch, BATCHES_PER_READ)
            except CorruptLog as error:
                raise self._damaged(error) from None
            for batch in page.batches:
                await self._evolve(batch.value, slices)
            if page.is_end:
                # A list may be behind. Whoever says "nothing new" has to have seen the end.
                following = await self._backend.get(self._log.key(self._next_batch))
                if following is None:
                    return self._next_batch > known
                await self._evolve(following, slices)

    def encoded(
        self, bodies: Sequence[CoordinatorBody], position: int, previous: bytes
    ) -> tuple[list[Event], list[bytes]]:
        """`bodies` as the events that follow the one of hash `previous`, and their bytes."""
        now_ms = self._clock.now_ms()
        events, stored = [], []
        for offset, body in enumerate(bodies):
            event = Event(position + offset, 0, now_ms, -1, self._identity, body)  # type: ignore[arg-type] # A codec of its own.
            events.append(event)
            stored.append(COORDINATOR_CODEC.encode(event, previous))
            previous = chain(stored[-1])
        return events, stored

    async def append(self, stored: Sequence[bytes], position: int) -> bool:
        """Make events durable and fold them; false if they were not decided on all of the log.

        They were decided on the log up to `position`, where they are to stand. Whatever another
        coordinator wrote there has been read on return: it may have died before telling
        anybody.

        Raises:
            RetryableError: Nothing was kept.
            OutcomeUnknown: It may have been kept; the next append finds out.
        """
        async with self._turn:
            if position != self.state.next_position:
                return False
            value = self._serde.serialize("batch", [position, len(stored), list(stored)])
            key = self._keys.coordinator_batch(self._next_batch)
            if not await self._create(key, value):
                await self._read_on()
                return False
            await self._evolve(value, Slices())
            return True

    async def _create(self, key: str, value: bytes) -> bool:
        """Whether `value` is what stands under `key`, durably."""
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        while True:
            try:
                (outcome,) = await self._backend.create_each([(key, value)])
                # What stands there may be ours; where others have passed nothing stands.
                if outcome is not CreateOutcome.EXISTS or deadline is None:
                    return outcome is CreateOutcome.CREATED
                stored = await self._backend.get(key)
                if stored is not None:
                    return stored == value
            except (OutcomeUnknown, RetryableError) as error:
                if deadline is None and not isinstance(error, OutcomeUnknown):
                    raise  # It was the first attempt, and kept nothing.
                deadline = deadline or loop.time() + DOUBT_S
                if loop.time() > deadline:
                    raise OutcomeUnknown(f"{key}: {error}") from error
                await asyncio.sleep(DOUBT_PAUSE_S)
            except RemoteStorageError as error:
                if deadline is not None:
                    raise OutcomeUnknown(f"{key}: {error}") from error
                raise

    async def _evolve(self, value: bytes, slices: Slices) -> None:
        state, batch = self.state, StoredBatch(self._next_batch, value)
        try:
            first, stored = stored_events(self._serde, batch)
            if first != state.next_position:
                raise CorruptLog(f"batch {batch.number}: it says that it starts at {first}")
            events, last = COORDINATOR_CODEC.decode(
                stored, state.next_position, state.chain_hash
            )
            for event in events:
                self._works += rules.evolve(state, event)
                await slices.breathe()
        except DataError as error:
            raise self._damaged(error) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # Checksums and chain are right, but no coordinator decided this.
            raise self._damaged(CorruptLog(f"cannot be applied ({error!r})")) from error
        state.chain_hash = last
        self._next_batch += 1

    def _damaged(self, error: DataError) -> DataError:
        """`error`, with where it is and what can be done."""
        return type(error)(
            f"the coordinator's log, {self._log.key(self._next_batch)!r}, position "
            f"{self.state.next_position}: {error}. No service can start from it: restore the "
            "store from a backup, and see what else `tierledger verify` finds"
        )
