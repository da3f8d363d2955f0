"""Stores in PostgreSQL for tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tierledger.storage.backends.postgres.backend import PostgresBackend
from tierledger.storage.locate import parse_store_url


@asynccontextmanager
async def opened(url: str, *, read_only: bool = False) -> AsyncIterator[PostgresBackend]:
    backend = await PostgresBackend.open(parse_store_url(url), read_only=read_only)
    try:
        yield backend
    finally:
        await backend.close()
