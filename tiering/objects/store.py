"""Objects by name: a thin layer over obstore that counts requests and knows our errors.

Rule 1: no error of obstore's leaves this file, and none of ours shows a secret.
Rule 2: "there is no such object" is said only when the store said so of a bucket or directory
that exists; whatever else goes wrong is never taken for it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
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
from tierledger.tiering.objects.directory import (
    ListedName,
    remove_unfinished,
    sync_folder,
    sync_removal,
    walked,
)
from tierledger.tiering.objects.request_counts import Operation, Request, RequestCounts

if TYPE_CHECKING:
    from obstore import ListStream, ObjectMeta  # Stubs alone have them.
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as ObstoreStore

T = TypeVar("T")

_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_NO_RIGHT = ("401 Unauthorized", "403 Forbidden", "(code: AccessDenied)")
"""obstore has errors of their own for these, but not for a list.

Nor for one of many objects to be deleted, of which the store says so in its answer's body.
"""

_NO_CREDENTIALS = {
    "/latest/api/token": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "/latest/meta-data": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "/computeMetadata/": "GOOGLE_APPLICATION_CREDENTIALS",
    "/metadata/identity": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""Where a store's client asks the machine for a role when it was given no credentials, by that
part of the address; and which variables give it some."""

_NO_FOLDER = "LocalFileSystem error: Unable to create dir"

FOLDER_ATTEMPTS = 10
"""To make the folders of a file, while deletions remove empty ones."""

_PAST_THE_END = re.compile(
    "status code: 416 |InMemory error: Invalid range|Requested range was invalid"
)
"""How stores word it. With the spaces, it cannot be of a URL, which has the object's name."""

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
        return {
            "connect_timeout": timedelta(seconds=self.connect_timeout_s),
            "timeout": timedelta(seconds=self.request_timeout_s),
        }

    def retry_config(self) -> RetryConfig:
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


LIST_PAGE = 1000
"""Objects in one page of a list: what S3 answers at once."""


class _PastTheEndError(StorageUnavailable):
    """The object ends before the range that was asked for, if the store is right."""


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

        def send() -> Awaitable[object]:
            return obstore.put_async(self._store, name, data, use_multipart=False)

        for attempts_left in reversed(range(1 if self._directory is None else FOLDER_ATTEMPTS)):
            try:
                await self._ask(operation, Request.PUT, name, send)
                break
            except RemoteResourceNotFound as error:
                raise StoreRefused(f"{self.name_of(name)}: there is no such place") from error
            except StorageUnavailable as error:
                # A deletion beside it removed a folder, which it had emptied, under its hands.
                if _NO_FOLDER not in str(error) or not attempts_left:
                    raise
        self.counts.bytes_written += len(data)

    async def get(self, operation: Operation, name: str) -> bytes:
        """All of `name`.

        Raises:
            RemoteResourceNotFound: It is not there.
        """
        data = await self._ask(operation, Request.GET, name, lambda: self._whole(name))
        self.counts.bytes_read += len(data)
        return data

    async def get_range(
        self, operation: Operation, name: str, start: int, end: int, size: int
    ) -> bytes:
        """`name` from byte `start` to before byte `end`: exactly so many.

        The store tells with them how large all of it is, which must be `size`.

        Raises:
            RemoteResourceNotFound: It is not there.
            CorruptRemoteData: It is shorter or longer than `size`.
        """

        async def send() -> tuple[int, bytes]:
            answer = await obstore.get_async(self._store, name, options={"range": (start, end)})
            return answer.meta["size"], bytes(await answer.bytes_async())

        try:
            found, data = await self._ask(operation, Request.GET, name, send)
        except _PastTheEndError:
            await self._check_length(operation, name, size)
            raise
        self.counts.bytes_read += len(data)
        self._check_size(name, found, size)
        if len(data) != end - start:
            raise CorruptRemoteData(
                f"{self.name_of(name)}: expected {end - start} bytes from {start} on, "
                f"got {len(data)}"
            )
        return data

    async def list(self, operation: Operation, folder: str) -> dict[str, StoredObject]:
        """All objects below `folder`, by their whole names, ascending."""

        def send() -> Awaitable[Sequence[ObjectMeta]]:
            return obstore.list(self._store, prefix=folder).collect_async()

        found = await self._ask(operation, Request.LIST, folder, send)
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
            walk = walked(self._directory, folder)
            while files := await asyncio.to_thread(lambda: list(islice(walk, LIST_PAGE))):
                yield files
            return
        page = self._page_by_page(folder)
        while True:
            try:
                found = await self._ask(Operation.LIST, Request.LIST, folder, page)
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
        try:
            await self._delete(operation, wanted[0], wanted)
        except RemoteResourceNotFound:
            for name in wanted:  # A file was gone already; the others may be there still.
                with suppress(RemoteResourceNotFound):
                    await self._delete(operation, name, [name])

    async def _delete(self, operation: Operation, name: str, wanted: Sequence[str]) -> None:
        def send() -> Awaitable[object]:
            try:
                return obstore.delete_async(self._store, wanted)
            except TypeError as error:  # It takes one of the names for none.
                raise ValueError(f"{error}: {wanted}") from error

        await self._ask(operation, Request.DELETE, name, send)

    async def make_durable(self, folder: str) -> None:
        """Let what is below `folder` survive a power cut; only a directory needs this."""
        if self._directory is not None:
            await asyncio.to_thread(sync_folder, self._directory, self._directory / folder)

    async def make_removal_durable(self, folder: str) -> None:
        """Let what was removed from `folder` stay away after a power cut, as it does above."""
        if self._directory is not None:
            await asyncio.to_thread(sync_removal, self._directory, self._directory / folder)

    async def remove_leftovers(self, folder: str) -> None:
        """Remove what a killed writer left unfinished in `folder`, which no list shows.

        And every directory from there up that has nothing else in it.
        """
        if self._directory is not None:
            root, path = self._directory, self._directory / folder
            await asyncio.to_thread(remove_unfinished, root, path)

    def _page_by_page(self, folder: str) -> Callable[[], Awaitable[Sequence[ObjectMeta]]]:
        """Each call asks for the next page; one without objects is behind the last."""
        pages: list[ListStream[Sequence[ObjectMeta]]] = []

        async def send() -> Sequence[ObjectMeta]:
            if not pages:
                pages.append(
                    obstore.list(self._store, prefix=folder or None, chunk_size=LIST_PAGE)
                )
            try:
                return await anext(pages[0])
            except StopAsyncIteration:
                return ()

        return send

    async def _whole(self, name: str) -> bytes:
        answer = await obstore.get_async(self._store, name)
        return bytes(await answer.bytes_async())

    async def _check_length(self, operation: Operation, name: str, size: int) -> None:

        def send() -> Awaitable[ObjectMeta]:
            return obstore.head_async(self._store, name)

        found = (await self._ask(operation, Request.HEAD, name, send))["size"]
        self._check_size(name, found, size)

    def _check_size(self, name: str, found: int, expected: int) -> None:
        if found != expected:
            raise CorruptRemoteData(
                f"{self.name_of(name)}: expected {expected} bytes, it has {found}"
            )

    async def _ask(
        self,
        operation: Operation,
        request: Request,
        name: str,
        send: Callable[[], Awaitable[T]],
    ) -> T:
        self.counts.requests[operation, request] += 1
        try:
            return await send()
        except Exception as error:
            if not _is_obstores(error):
                raise
            told = self._told(request, name, error)
            if not isinstance(told, RemoteResourceNotFound):
                self.counts.failures[operation, request] += 1
            raise told from None  # Its dump is long, and may show what `told` does not.

    def _told(self, request: Request, name: str, error: Exception) -> RemoteStorageError:
        """Our error for one of obstore's."""
        # The rest is a dump of its insides.
        reason = _QUERY.sub(r"\1?...", str(error).partition("\n\nDebug source:")[0])
        message = f"{self.name_of(name)}: {request.value} failed: {reason}"
        for path, variables in _NO_CREDENTIALS.items():
            if path in reason:
                message = (
                    f"{self.url}: no credentials were given, and this machine has no role that "
                    f"brings some; set {variables} in the environment"
                )
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
        if _PAST_THE_END.search(reason):
            return _PastTheEndError(message)
        return StorageUnavailable(message)

    def _check_directory(self) -> None:
        """A directory that is away (not mounted) is not one without objects."""
        if self._directory is not None and not self._directory.is_dir():
            raise StoreRefused(f"{self.url}: there is no such directory")


def _is_obstores(error: Exception) -> bool:
    # A panic's class cannot be imported.
    is_panic = type(error).__module__ == "pyo3_async_runtimes"
    return is_panic or isinstance(error, BaseError | OSError | ValueError)
