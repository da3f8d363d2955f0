"""The store that a job reads. Driver and tasks open it by its settings, read-only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tierledger.events.errors import InvalidArgument
from tierledger.storage.catalog import Catalog, chosen_cluster, clusters
from tierledger.storage.connector import URL_SETTING, load_connector, load_serde
from tierledger.storage.locate import parse_store_url


@dataclass(frozen=True, slots=True)
class JobStore:
    """Settings of a store, and the chosen cluster. Pickled into every task."""

    config: Mapping[str, object] = field(repr=False)
    """The URL in it may hold a password."""

    cluster: str | None = None

    @classmethod
    def of(cls, store: str | Mapping[str, object], cluster: str | None = None) -> JobStore:
        """The store with a URL or settings.

        Raises:
            InvalidArgument: The store is in memory, so that other processes cannot read it.
        """
        config = {URL_SETTING: store} if isinstance(store, str) else dict(store)
        url = config.get(URL_SETTING)
        if isinstance(url, str) and parse_store_url(url).scheme == "memory":
            raise InvalidArgument("expected a store that other processes can read, got memory:")
        return cls(config, cluster)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Catalog]:
        """The store's catalog of the cluster, read-only while the block lasts.

        A named cluster is not checked here: see `require_cluster`.

        Raises:
            InvalidArgument: The store holds several clusters and none was named.
            RemoteResourceNotFound: No cluster was named and the store holds none.
            StoreRefused: The URL does not lead to a store.
        """
        connector, serde = load_connector(self.config), load_serde(self.config)
        backend = await connector.backend(read_only=True)
        try:
            cluster = self.cluster or chosen_cluster(await clusters(backend))
            yield Catalog(backend, connector.key_factory(cluster), serde, cluster)
        finally:
            await backend.close()


async def require_cluster(store: JobStore) -> JobStore:
    """The job's store with its cluster named, after a check that the store holds it.

    Raises:
        InvalidArgument: The store holds several clusters and none was named.
        RemoteResourceNotFound: The store does not hold the named cluster, or holds none.
        StoreRefused: The URL does not lead to a store.
    """
    async with store.opened() as catalog:
        return await with_cluster(store, catalog)


async def with_cluster(store: JobStore, catalog: Catalog) -> JobStore:
    """The job's store with its cluster named, as of `require_cluster`, if it is open."""
    cluster = chosen_cluster(await clusters(catalog.backend), catalog.cluster_id)
    return JobStore(store.config, cluster)
