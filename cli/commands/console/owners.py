"""Who has owned the cluster's metadata since when, from the coordinator's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.coordinator.events import Owner, OwnerChanged
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.log import BATCHES_PER_READ, coordinator_batches
from tierledger.actors.slices import Slices
from tierledger.events.errors import DataError

if TYPE_CHECKING:
    from tierledger.storage.catalog import Catalog
    from tierledger.storage.partition.event_log import StoredBatch


class OwnerSince(NamedTuple):
    """A change of the owner, which began an owner epoch."""

    owner_epoch: int
    owner: str
    source: str
    """While the metadata moves: the owner before, and (`heading`) after it."""
    heading: str
    since_ms: int
    """Log time."""

    @property
    def is_moving(self) -> bool:
        return self.owner == Owner.MOVING


class PastOwners:
    """All changes of the owner, the oldest first; `read` goes on to the log's end."""

    def __init__(self) -> None:
        self.changes: list[OwnerSince] = []
        self.damage: str | None = None
        """Why the log cannot be read to its end."""
        self._fold: Fold | None = None

    async def read(self, catalog: Catalog) -> bool:
        """Read what is new; returns whether the owner has changed, or something is damaged.

        Raises:
            StorageUnavailable: The store cannot be read.
        """
        before = len(self.changes), self.damage
        try:
            await self._read(catalog)
            self.damage = None
        except DataError as error:
            self.damage = str(error)
        return before != (len(self.changes), self.damage)

    async def _read(self, catalog: Catalog) -> None:
        if self._fold is None:
            self._fold = Fold(catalog.cluster_id, catalog.keys, catalog.serde)
        batches, slices = coordinator_batches(catalog.backend, catalog.keys), Slices()
        while True:
            page = await batches.page(self._fold.next_batch, BATCHES_PER_READ)
            for batch in page.batches:
                self._take(self._fold, batch)
                await slices.yield_if_due()
            if page.is_end:
                return

    def _take(self, fold: Fold, batch: StoredBatch) -> None:
        events, last = fold.decoded(batch)
        for event in events:
            fold.apply(event)
            body: object = event.body
            if isinstance(body, OwnerChanged):
                epoch, owner, source, heading, _ = fold.state.ownership
                since_ms = event.log_time_ms
                self.changes.append(OwnerSince(epoch, owner, source, heading, since_ms))
        fold.passed(last)
