"""Writes to the log of a partition that nobody leads, so that it needs no leader for that.

Rule: one atomic step appends a batch and proves that both logs still end where they were read,
the partition's and the coordinator's. So each hold and each claim that comes before the batch
was known when it was decided, and whoever leads later reads it as any other batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.holding import deletions
from tierledger.actors.coordinator.log import read_on
from tierledger.actors.due import heeding
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import RejectedError, StorageUnavailable
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.partition.decide import Accepted, Limits, Rejected, Undecided, decide
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState
from tierledger.storage.backend import AtomicConflict, ConflictReason, Create, Remove, Update
from tierledger.storage.catalog import Catalog
from tierledger.storage.partition.event_log import encode_batch
from tierledger.storage.partition.forgetting import refuse_led

TRIES_MAX = 50
"""Times that a batch is decided anew because something else was written meanwhile."""

PAUSE_S = 0.02
"""How long a coordinator gives itself to fold what it has appended."""


def hosting(fold: Fold, tip: TopicIdPartition) -> list[int]:
    """The brokers that lead or follow a partition."""
    route = fold.state.route(PartitionKey.of(tip))
    leader = [] if route.leader is None else [route.leader]
    return sorted({one.broker_id for one in (*route.followers, *leader)})


class UnledLog:
    """The log of one partition, and its state at the log's end."""

    def __init__(
        self,
        catalog: Catalog,
        fold: Fold,
        loaded: tuple[PartitionState, int],
        *,
        is_coordinator: bool,
    ) -> None:
        self.state, self._next_batch = loaded
        self._catalog = catalog
        self._fold = fold
        self._is_coordinator = is_coordinator
        self._reader = catalog.reader(self.state.topic_id_partition)

    @classmethod
    async def read(
        cls,
        catalog: Catalog,
        fold: Fold,
        tip: TopicIdPartition,
        *,
        is_coordinator: bool = False,
    ) -> Self:
        """Read it; `fold` is of the coordinator's log, and is read on as needed.

        `is_coordinator`: a coordinator reads it on itself, and knows all claims. So a session
        that was left open is no leader to it.

        Raises:
            CorruptLog: It does not verify.
            RemoteResourceNotFound: The store has no such partition.
        """
        loaded = await catalog.reader(tip).state()
        return cls(catalog, fold, loaded, is_coordinator=is_coordinator)

    def refuse_led(self) -> None:
        """Check that nobody leads or follows the partition.

        Raises:
            RejectedError: Somebody does.
        """
        if not self._is_coordinator:
            refuse_led(self.state)
        brokers = hosting(self._fold, self.state.topic_id_partition)
        if brokers:
            named = ", ".join(map(str, brokers))
            raise RejectedError(f"{self.state.topic_id_partition} is hosted by brokers {named}")

    async def write(
        self, command: cmd.StartPurges | cmd.EndPurges | cmd.EndSegments, now_ms: int
    ) -> Sequence[log.Event]:
        """Append what `command` leads to; the events, or none if there was nothing to do.

        Raises:
            RejectedError: Somebody leads the partition, or the command is refused.
            StorageUnavailable: Others write all the time; nothing was written.
            OutcomeUnknown: The batch is stored, or not: read the log again.
        """
        for tried in range(TRIES_MAX):
            await self._read_on(tried)
            self.refuse_led()
            view = Overlay(self.state)
            closed = self._close(view, now_ms)
            wish = heeding(view, command, deletions(self._fold.state), now_ms)
            decision = decide(view, wish, now_ms, Limits())
            if isinstance(decision, Rejected):
                raise decision.error
            assert not isinstance(decision, Undecided), "only a claim to lead is undecided"
            if not decision.events:
                return ()
            try:
                await self._append([*closed, *decision.events])
            except AtomicConflict as conflict:
                if conflict.key != self._fold.key(self._fold.next_batch):
                    self.state, self._next_batch = await self._reader.state()
            else:
                return decision.events
        raise StorageUnavailable(
            f"{self.state.topic_id_partition}: others wrote at each of {TRIES_MAX} tries"
        )

    def _close(self, view: Overlay, now_ms: int) -> Sequence[log.Event]:
        """The end of a session that nobody closed: its leader was lost, or is overtaken now."""
        session = view.session
        if session is None or not session.is_open:
            return ()
        close = cmd.CloseSession(session.claim, "no broker hosts the partition")
        decision = decide(view, close, now_ms, Limits())
        return decision.events if isinstance(decision, Accepted) else ()

    async def _read_on(self, tried: int) -> None:
        if not self._is_coordinator:
            await read_on(self._fold, self._catalog.backend, self._catalog.keys)
        elif tried:
            await asyncio.sleep(PAUSE_S)

    async def _append(self, events: Sequence[log.Event]) -> None:
        slot, number = self._reader.log.key, self._next_batch
        batch = encode_batch(self._catalog.serde, events, self.state.chain_hash)
        end_of_coordinators = self._fold.key(self._fold.next_batch)
        former = await self._catalog.backend.get(slot(number - 1))
        if former is None:  # The log was forgotten meanwhile.
            raise AtomicConflict(slot(number - 1), ConflictReason.MISSING)
        await self._catalog.backend.execute_atomically(
            [
                Update(slot(number - 1), former, former),
                Create(slot(number), batch.value),
                Create(end_of_coordinators, b"end"),
                Remove(end_of_coordinators),
            ]
        )
        evolve_all(self.state, events, batch.chain_hash)
        self._next_batch += 1
