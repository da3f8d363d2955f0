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
from tierledger.events.errors import (
    CorruptLog,
    OutcomeUnknown,
    RemoteStorageError,
    RetryableError,
)
from tierledger.events.event_codec import chain, genesis
from tierledger.events.log_events import Event
from tierledger.storage.backend import CreateOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.actors.coordinator import HostWork
    from tierledger.actors.coordinator_events import CoordinatorBody
    from tierledger.actors.ports import Clock
    from tierledger.storage.backend import MetadataStorageBackend
    from tierledger.storage.keys import MetadataKeyFactory
    from tierledger.storage.serde import MetadataSerDe

BATCHES_PER_READ = 500

BATCHES_PER_SLICE = 20
"""Batches that are folded before others may run: some thousand placements."""

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
        self._works: list[HostWork] = []
        self._turn = asyncio.Lock()
        """Reading and appending both fold, and each must fold behind the other."""

    def take_work(self) -> list[HostWork]:
        """What hosts have to be told because of all that was read and appended since."""
        works, self._works = self._works, []
        return works

    async def read_on(self) -> bool:
        """Read to the end of the log; whether there was anything new."""
        async with self._turn:
            return await self._read_on()

    async def _read_on(self) -> bool:
        known = self._next_batch
        prefix, key_of = self._keys.coordinator_log(), self._keys.coordinator_batch
        while True:
            number = self._next_batch
            after = key_of(number - 1) if number else None
            found = await self._backend.get_like(prefix, after=after, limit=BATCHES_PER_READ)
            for expected, (key, value) in enumerate(found, number):
                if key != key_of(expected):
                    raise CorruptLog(f"coordinator: expected batch {expected}, got {key}")
                self._evolve(value)
                if expected % BATCHES_PER_SLICE == 0:
                    await asyncio.sleep(0)
            if len(found) < BATCHES_PER_READ:
                # A list may be behind. Whoever says "nothing new" has to have seen the end.
                following = await self._backend.get(key_of(self._next_batch))
                if following is None:
                    return self._next_batch > known
                self._evolve(following)

    def events_of(self, bodies: Sequence[CoordinatorBody], position: int) -> list[Event]:
        """`bodies` as events from `position` on."""
        now_ms = self._clock.now_ms()
        return [
            Event(position + offset, 0, now_ms, -1, self._identity, body)  # type: ignore[arg-type] # A codec of its own.
            for offset, body in enumerate(bodies)
        ]

    async def append(self, bodies: Sequence[CoordinatorBody]) -> bool:
        """Make `bodies` durable and fold them; false if another coordinator was first.

        Whatever that one wrote has been read on return: who wrote it may have died before
        telling anybody.

        Raises:
            RetryableError: Nothing was kept.
            OutcomeUnknown: It may have been kept; the next append finds out.
        """
        async with self._turn:
            value = self._encode(bodies)
            key = self._keys.coordinator_batch(self._next_batch)
            if not await self._create(key, value):
                await self._read_on()
                return False
            self._evolve(value)
            return True

    async def _create(self, key: str, value: bytes) -> bool:
        """Whether `value` is what stands under `key`, durably."""
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        while True:
            try:
                (outcome,) = await self._backend.create_each([(key, value)])
                if outcome is CreateOutcome.CREATED or deadline is None:
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

    def _evolve(self, value: bytes) -> None:
        state = self.state
        first, _, stored = self._serde.deserialize("batch", value)
        events, state.chain_hash = COORDINATOR_CODEC.decode(
            stored, state.next_position, state.chain_hash
        )
        if first != events[0].position:
            raise CorruptLog(f"coordinator: batch {self._next_batch} starts at {first}")
        self._next_batch += 1
        for event in events:
            self._works += rules.evolve(state, event)

    def _encode(self, bodies: Sequence[CoordinatorBody]) -> bytes:
        position, previous = self.state.next_position, self.state.chain_hash
        stored = []
        for event in self.events_of(bodies, position):
            stored.append(COORDINATOR_CODEC.encode(event, previous))
            previous = chain(stored[-1])
        return self._serde.serialize("batch", [position, len(stored), stored])
