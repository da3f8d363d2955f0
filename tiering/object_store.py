"""Objects by name: a thin layer over obstore that counts requests and knows our errors.

Rule 1: no error of obstore's leaves this file, and none of ours shows a secret.
Rule 2: "there is no such object" is said only when the store said so of a bucket or directory
that exists; whatever else goes wrong is never taken for it.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from tierledger.events.errors import (
    CorruptRemoteData,
    InvalidArgument,
    RemoteResourceNotFound,
    RemoteStorageError,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.tiering.request_counts import Operation, Request, RequestCounts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence

    from obstore import ListStream, ObjectMeta
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as ObstoreStore

T = TypeVar("T")

_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_NO_RIGHT = ("401 Unauthorized", "403 Forbidden")
"""obstore has errors of their own for these, but not for a list."""

_UNFINISHED = re.compile(r".*#[0-9]+", re.DOTALL)
"""What a directory's writer calls a file that it has not finished; no list shows it."""

_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")
"""Of a URL in an error: a store may have been given its secret there."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How patient a store's client is. A directory and memory have no use for it.

    The timeouts' defaults are obstore's.
    """

    connect_timeout_s: float = 5.0
    request_timeout_s: float = 30.0
    """For one request with its body: a part of 64 MiB needs 2.2 MiB/s."""
    retries_max: int = 5
    """Repeats of a request that got no answer, 5xx or 429."""
    retry_timeout_s: float = 90.0
    """From the first attempt on; no repeat begins after it."""
    backoff_initial_s: float = 0.1
    """Doubled at each repeat, with jitter."""
    backoff_max_s: float = 5.0

    def client_options(self) -> ClientConfig:
        """As obstore takes them."""
        return {
            "connect_timeout": timedelta(seconds=self.connect_timeout_s),
            "timeout": timedelta(seconds=self.request_timeout_s),
        }

    def retry_config(self) -> RetryConfig:
        """As obstore takes it."""
        return {
            "max_retries": self.retries_max,
            "retry_timeout": timedelta(seconds=self.retry_timeout_s),
            "backoff": {
                "init_backoff": timedelta(seconds=self.backoff_initial_s),
                "max_backoff": timedelta(seconds=self.backoff_max_s),
                "base": 2,
            },
        }


class StoredObject(NamedTuple):
    """What a list says about an object."""

    size: int
    e_tag: str
    """The MD5 of the content in hex, on an S3 that does not encrypt; else anything."""


class ListedName(NamedTuple):
    """An object in a list of everything."""

    path: str
    size: int
    last_modified: datetime
    e_tag: str | None


LIST_PAGE = 1000
"""Objects in one page of a list: what S3 answers at once."""


class ObjectStore:
    """A place for objects, whose names are paths below it. Safe for concurrent use.

    Every method raises `StorageUnavailable` (trying again is safe) and `StoreRefused` (no such
    bucket, or no right to it); both name the object.
    """

    def __init__(
        self,
        store: ObstoreStore,
        url: str,
        counts: RequestCounts,
        *,
        directory: Path | None = None,
        is_near: bool = False,
    ) -> None:
        """Take `store`, which is called `url` in messages.

        `directory` is where objects are files; `is_near` says that reading costs next to
        nothing.
        """
        self._store = store
        self._directory = directory
        self.url = url
        self.counts = counts
        self.is_near = is_near or directory is not None

    def name_of(self, name: str) -> str:
        """How a message calls the object `name`."""
        return f"{self.url.rstrip('/')}/{name}" if "/" in self.url else f"{self.url}{name}"

    async def put(self, operation: Operation, name: str, data: bytes) -> None:
        """Write `name` in one request, over whatever is there; all or nothing is seen."""
        sent = obstore.put_async(self._store, name, data, use_multipart=False)
        try:
            await self._ask(operation, Request.PUT, name, sent)
        except RemoteResourceNotFound as error:
            raise StoreRefused(f"{self.name_of(name)}: there is no such place") from error
        self.counts.bytes_written += len(data)

    async def get(self, operation: Operation, name: str) -> bytes:
        """All of `name`.

        Raises:
            RemoteResourceNotFound: It is not there.
        """
        data = await self._ask(operation, Request.GET, name, self._whole(name))
        self.counts.bytes_read += len(data)
        return data

    async def get_range(self, operation: Operation, name: str, start: int, end: int) -> bytes:
        """`name` from byte `start` to before byte `end`: exactly so many.

        Raises:
            RemoteResourceNotFound: It is not there.
            CorruptRemoteData: It ends before `end`.
        """
        sent = obstore.get_range_async(self._store, name, start=start, end=end)
        try:
            data = bytes(await self._ask(operation, Request.GET, name, sent))
        except StorageUnavailable as error:
            if "range" in str(error).lower():  # Each store words it differently.
                await self._check_length(operation, name, end)
            raise
        self.counts.bytes_read += len(data)
        if len(data) != end - start:
            raise CorruptRemoteData(
                f"{self.name_of(name)}: expected {end - start} bytes from {start} on, "
                f"got {len(data)}"
            )
        return data

    async def list(self, operation: Operation, folder: str) -> dict[str, StoredObject]:
        """All objects below `folder`, by their whole names, ascending."""
        stream = obstore.list(self._store, prefix=folder)
        found = await self._ask(operation, Request.LIST, folder, stream.collect_async())
        self._check_directory()
        listed = {one["path"]: StoredObject(one["size"], one["e_tag"] or "") for one in found}
        return dict(sorted(listed.items()))

    async def pages(self, folder: str) -> AsyncIterator[Sequence[ListedName]]:
        """All objects below `folder`, or of all there are, some at a time and in no order.

        What is written or deleted meanwhile is there or not.

        Raises:
            CorruptRemoteData: A name that the store's client does not take; nothing can be
                listed behind it.
        """
        if self._directory is not None:
            # The client gives up at the first name with a line end in it.
            self._check_directory()
            walk = _walked(self._directory, folder)
            while files := await asyncio.to_thread(lambda: list(islice(walk, LIST_PAGE))):
                yield files
            return
        stream = obstore.list(self._store, prefix=folder or None, chunk_size=LIST_PAGE)
        while True:
            try:
                found = await self._ask(Operation.LIST, Request.LIST, folder, _next(stream))
            except StorageUnavailable as error:
                if "invalid path" in str(error):
                    raise CorruptRemoteData(str(error)) from None
                raise
            if not found:
                return
            yield [
                ListedName(one["path"], one["size"], one["last_modified"], one["e_tag"])
                for one in found
            ]

    async def delete(self, operation: Operation, names: Iterable[str]) -> None:
        """Remove `names`; silent about what is not there."""
        wanted = list(names)
        if not wanted:
            return
        sent = obstore.delete_async(self._store, wanted)
        try:
            await self._ask(operation, Request.DELETE, wanted[0], sent)
        except RemoteResourceNotFound:
            for name in wanted:  # A file was gone already; the others may be there still.
                one = obstore.delete_async(self._store, name)
                with suppress(RemoteResourceNotFound):
                    await self._ask(operation, Request.DELETE, name, one)

    async def make_durable(self, folder: str) -> None:
        """Let what is below `folder` survive a power cut; only a directory needs this."""
        if self._directory is not None:
            await asyncio.to_thread(_sync_folder, self._directory, self._directory / folder)

    async def remove_leftovers(self, folder: str) -> None:
        """Remove what a killed writer left unfinished in `folder`, which no list shows.

        And every directory from there up that has nothing else in it.
        """
        if self._directory is not None:
            root, path = self._directory, self._directory / folder
            await asyncio.to_thread(_remove_unfinished, root, path)

    async def _whole(self, name: str) -> bytes:
        answer = await obstore.get_async(self._store, name)
        return bytes(await answer.bytes_async())

    async def _check_length(self, operation: Operation, name: str, end: int) -> None:
        sent = obstore.head_async(self._store, name)
        size = (await self._ask(operation, Request.HEAD, name, sent))["size"]
        if size < end:
            raise CorruptRemoteData(
                f"{self.name_of(name)}: expected at least {end} bytes, it has {size}"
            )

    async def _ask(
        self, operation: Operation, request: Request, name: str, sent: Awaitable[T]
    ) -> T:
        self.counts.requests[operation, request] += 1
        try:
            return await sent
        except (BaseError, OSError, ValueError) as error:
            told = self._told(request, name, error)
            if not isinstance(told, RemoteResourceNotFound):
                self.counts.failures[operation, request] += 1
            raise told from None  # Its dump is long, and may show what `told` does not.

    def _told(self, request: Request, name: str, error: Exception) -> RemoteStorageError:
        """Our error for one of obstore's."""
        # The rest is a dump of its insides.
        reason = _QUERY.sub(r"\1?...", str(error).partition("\n\nDebug source:")[0])
        message = f"{self.name_of(name)}: {request.value} failed: {reason}"
        if any(word in reason for word in _NO_BUCKET):
            return StoreRefused(f"{self.url}: there is no such bucket: {reason}")
        if isinstance(error, FileNotFoundError):
            self._check_directory()
            return RemoteResourceNotFound(f"{self.name_of(name)} is not there")
        refusals = (PermissionDeniedError, UnauthenticatedError, PermissionError)
        if isinstance(error, refusals) or any(word in reason for word in _NO_RIGHT):
            return StoreRefused(message)
        if isinstance(error, ValueError):
            return InvalidArgument(message)
        return StorageUnavailable(message)

    def _check_directory(self) -> None:
        """A directory that is away (not mounted) is not one without objects."""
        if self._directory is not None and not self._directory.is_dir():
            raise StoreRefused(f"{self.url}: there is no such directory")


async def _next(stream: ListStream[Sequence[ObjectMeta]]) -> Sequence[ObjectMeta]:
    try:
        return await anext(stream)
    except StopAsyncIteration:
        return ()


def _walked(root: Path, below: str) -> Iterator[ListedName]:
    for folder, _, files in os.walk(root / below, onerror=_unless_gone):
        for name in files:
            if _UNFINISHED.fullmatch(name) is not None:
                continue
            path = Path(folder, name)
            try:
                found = path.stat()
            except FileNotFoundError:
                continue  # Deleted meanwhile.
            text = os.fsencode(path.relative_to(root)).decode("utf-8", "backslashreplace")
            modified = datetime.fromtimestamp(found.st_mtime, UTC)
            yield ListedName(text, found.st_size, modified, None)


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise StorageUnavailable(f"cannot be listed: {error}") from error


def _sync_folder(root: Path, folder: Path) -> None:
    """Write through all files below `folder`, then every directory from it up to `root`."""
    folders = [folder, *(one for one in folder.parents if one.is_relative_to(root))]
    try:
        for path in [*(one for one in sorted(folder.rglob("*")) if one.is_file()), *folders]:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except OSError as error:
        raise StorageUnavailable(f"{folder}: cannot be made durable: {error}") from error


def _remove_unfinished(root: Path, folder: Path) -> None:
    # Its writer calls a file `<name>#<number>` at first, and leaves it so when it is killed.
    for path in list(folder.glob("*#*")):
        path.unlink(missing_ok=True)
    for one in (folder, *folder.parents):
        if one == root:
            return
        try:
            one.rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # Not empty.
            return
