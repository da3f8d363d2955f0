"""Column files in a bucket, with the client of the remote tier."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from typing_extensions import override

from tierledger.events.errors import InvalidArgument, RemoteResourceNotFound, RemoteStorageError
from tierledger.pipeline.column_files.place import (
    FORMS,
    ColumnPlace,
    UnusableFile,
    file_name,
    ordered_names,
)
from tierledger.tiering.layouts.tier_url import open_bucket
from tierledger.tiering.objects.request_counts import Operation
from tierledger.tiering.objects.store import ObjectStore

T = TypeVar("T")


class ColumnBucket(ColumnPlace):
    """A place in a bucket, below a prefix. A file is written by one request: whole, or not."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""

    @override
    def __str__(self) -> str:
        return self._store.name_of(self._prefix).rstrip("/")

    @override
    def names(self) -> list[str]:
        found = _done(self._store.list(Operation.COLUMNS, self._prefix.rstrip("/")))
        return ordered_names(one.removeprefix(self._prefix) for one in found)

    @override
    def end_of(self, name: str, size: int) -> tuple[bytes, int]:
        end = self._store.get_end(Operation.COLUMNS, self._prefix + name, size)
        return _read(name, end)

    @override
    def _bytes(self, name: str) -> bytes:
        return _read(name, self._store.get(Operation.COLUMNS, self._prefix + name))

    @override
    def write(self, number: int, data: bytes) -> str:
        name = file_name(number, data)
        _done(self._store.put(Operation.COLUMNS, self._prefix + name, data))
        return name

    @override
    def remove(self, name: str) -> None:
        with suppress(RemoteResourceNotFound):
            _done(self._store.delete(Operation.COLUMNS, [self._prefix + name]))


def bucket_at(url: str) -> ColumnBucket:
    """The place at `url`; the environment has its credentials, as for a tier.

    Raises:
        InvalidArgument: It is no URL of a bucket.
    """
    try:
        return ColumnBucket(*open_bucket(url))
    except InvalidArgument as error:
        # The URL may hold a secret.
        raise InvalidArgument(f"expected where the column files are, as {FORMS}") from error


def _read(name: str, asked: Coroutine[Any, Any, T]) -> T:
    try:
        return _done(asked)
    except RemoteResourceNotFound as error:
        raise UnusableFile(name, "is gone") from error
    except RemoteStorageError as error:
        raise UnusableFile(name, f"cannot be read: {error}") from error


def _done(asked: Coroutine[Any, Any, T]) -> T:
    """What is asked, on a loop of its own: the caller's thread may have one already."""
    with ThreadPoolExecutor(1, "tierledger-columns") as pool:
        return pool.submit(asyncio.run, asked).result()
