"""The store that a job reads, as driver and tasks open it: named by settings, read only."""

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
    """Settings of a store, and the cluster that is meant. Pickled into every task."""

    config: Mapping[str, object] = field(repr=False)
    """The URL in it may hold a password."""

    cluster: str | None = None

    @classmethod
    def of(cls, store: str | Mapping[str, object], cluster: str | None = None) -> JobStore:
        """The store with that URL, or with those settings.

        Raises:
            InvalidArgument: No other process could read it.
        """
        config = {URL_SETTING: store} if isinstance(store, str) else dict(store)
        url = config.get(URL_SETTING)
        if isinstance(url, str) and parse_store_url(url).scheme == "memory":
            raise InvalidArgument("expected a store that other processes can read, got memory:")
        return cls(config, cluster)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Catalog]:
        """Its catalog of the cluster.

        Raises:
            InvalidArgument: The store holds several clusters and none was named.
            RemoteResourceNotFound: It does not hold the one that was named, or none at all.
            StoreRefused: It is no store.
        """
        connector, serde = load_connector(self.config), load_serde(self.config)
        backend = await connector.backend(read_only=True)
        try:
            cluster = self.cluster or chosen_cluster(await clusters(backend))
            yield Catalog(backend, connector.key_factory(cluster), serde, cluster)
        finally:
            await backend.close()


async def require_cluster(store: JobStore) -> JobStore:
    """The same store with its cluster named, which it holds.

    Raises:
        InvalidArgument: The store holds several clusters and none was named.
        RemoteResourceNotFound: It does not hold the one that was named, or none at all.
        StoreRefused: It is no store.
    """
    async with store.opened() as catalog:
        cluster = chosen_cluster(await clusters(catalog.backend), catalog.cluster_id)
        return JobStore(store.config, cluster)
