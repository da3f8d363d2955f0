"""PostgreSQL keeps the contract, with any number of writers."""

from collections.abc import AsyncIterator

import pytest
from typing_extensions import override

from tests.storage.backends.backend_contract import DatabaseContract
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backends.open_store import KEYS_PER_REMOVAL
from tierledger.storage.backends.postgres.backend import PostgresBackend
from tierledger.storage.locate import StoreUrl, parse_store_url


class TestPostgresBackend(DatabaseContract):
    keys_per_removal = KEYS_PER_REMOVAL
    url: StoreUrl

    @pytest.fixture
    async def backend(self, postgres_url: str) -> AsyncIterator[PostgresBackend]:
        self.url = parse_store_url(postgres_url)
        backend = await PostgresBackend.open(self.url)
        yield backend
        await backend.close()

    @override
    async def reopen(
        self, backend: MetadataStorageBackend, *, read_only: bool = False
    ) -> MetadataStorageBackend:
        await backend.close()
        return await PostgresBackend.open(self.url, read_only=read_only)
