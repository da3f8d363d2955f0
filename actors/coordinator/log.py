"""The coordinator's log in a store."""

from __future__ import annotations

from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.slices import Slices
from tierledger.events.errors import CorruptLog, OutcomeUnknown, StoreRefused
from tierledger.storage.backend import KeyExists, MetadataStorageBackend
from tierledger.storage.catalog import Catalog
from tierledger.storage.closed_slot import COPIED
from tierledger.storage.keys import MetadataKeyFactory
from tierledger.storage.partition.event_log import BatchLog

BATCHES_PER_READ = 500


async def folded(catalog: Catalog) -> Fold:
    """The whole log of a cluster's coordinators.

    Raises:
        CorruptLog: The log does not verify.
        FormatTooNew: A newer release wrote to it.
    """
    fold = Fold(catalog.cluster_id, catalog.keys, catalog.serde)
    await read_on(fold, catalog.backend, catalog.keys)
    return fold


def coordinator_batches(backend: MetadataStorageBackend, keys: MetadataKeyFactory) -> BatchLog:
    """The batches of a cluster's coordinators."""
    return BatchLog(backend, keys.coordinator_log(), keys.coordinator_batch)


async def closed(catalog: Catalog, mark: bytes) -> Fold:
    """Close the log at its end with `mark`, so that no coordinator writes to it; what it held.

    A log that was closed for the same reason stays as it is.

    Raises:
        CorruptLog: The log does not verify.
        FormatTooNew: A newer release wrote to it.
        StoreRefused: It is closed for another reason.
    """
    fold = Fold(catalog.cluster_id, catalog.keys, catalog.serde)
    while True:
        try:
            await read_on(fold, catalog.backend, catalog.keys)
            await catalog.backend.create(catalog.keys.coordinator_batch(fold.next_batch), mark)
        except KeyExists:
            continue
        except OutcomeUnknown:
            continue  # It is read, if it is there.
        except StoreRefused as error:
            if not str(error).startswith(COPIED):
                raise
        return fold


async def read_on(
    fold: Fold, backend: MetadataStorageBackend, keys: MetadataKeyFactory
) -> None:
    """Apply the log to `fold`, from where that stands to the log's end.

    Raises:
        CorruptLog: The log does not verify: what was decided after that is not known.
        FormatTooNew: A newer release wrote to it.
    """
    batches, slices = coordinator_batches(backend, keys), Slices()
    while True:
        try:
            page = await batches.page(fold.next_batch, BATCHES_PER_READ)
        except CorruptLog as error:
            raise fold.damaged(error) from None
        for batch in page.batches:
            fold.take(batch)
            await slices.yield_if_due()
        if page.is_end:
            return
