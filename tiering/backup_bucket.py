"""Backups in a bucket, with the client of the remote tier."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from tierledger.events.errors import InvalidArgument, RemoteResourceNotFound
from tierledger.tiering.layouts.tier_url import open_bucket
from tierledger.tiering.objects.request_counts import Operation
from tierledger.tiering.objects.store import ObjectStore


class BackupBucket:
    """A `BackupPlace` in a bucket, below a prefix. A file is written by one request."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    @override
    def __str__(self) -> str:
        return self._store.name_of(self._prefix).rstrip("/")

    async def prepare(self) -> None:
        """Nothing: a bucket has to be there, and a prefix needs nothing."""

    async def sizes(self) -> dict[str, int]:
        found = await self._store.list(Operation.BACKUPS, self._prefix.rstrip("/"))
        return {name.removeprefix(self._prefix): one.size for name, one in found.items()}

    async def read(self, name: str) -> bytes:
        try:
            return await self._store.get(Operation.BACKUPS, self._prefix + name)
        except RemoteResourceNotFound as error:
            raise FileNotFoundError(str(error)) from error

    async def write(self, name: str, data: bytes) -> None:
        await self._store.put(Operation.BACKUPS, self._prefix + name, data)

    async def create(self, name: str, data: bytes) -> bool:
        return await self._store.create(Operation.BACKUPS, self._prefix + name, data)

    async def remove(self, names: Iterable[str]) -> None:
        await self._store.delete(Operation.BACKUPS, [self._prefix + one for one in names])


def backup_bucket(url: str) -> BackupBucket:
    """The place at `url`; the environment has its credentials, as for a tier.

    Raises:
        InvalidArgument: It is no URL of a bucket.
    """
    try:
        return BackupBucket(*open_bucket(url))
    except InvalidArgument as error:
        # The URL may hold a secret.
        raise InvalidArgument(
            "expected where the backups are, as a folder or s3://BUCKET/PREFIX"
        ) from error
