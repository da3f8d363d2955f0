"""Objects by name: a thin layer over obstore that counts requests and translates errors.

Rule 1: all errors of obstore become those of `events.errors`, and no message shows a secret.
Rule 2: `RemoteResourceNotFound` is raised only if the store reports a missing object in a
bucket or directory that exists. No other failure is taken for a missing object.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from tierledger.events.errors import (
    CorruptRemoteData,
    InvalidArgument,
    RemoteResourceNotFound,
    RemoteStorageError,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.storage.own_process import OwnProcess
from tierledger.storage.s3_answers import answer_in
from tierledger.tiering.objects.directory import (
    ListedName,
    Unseen,
    remove_unfinished,
    sync_folder,
    sync_removal,
    walked,
)
from tierledger.tiering.objects.request_counts import Operation, RequestCounts, RequestKind

if TYPE_CHECKING:
    from obstore import GetOptions, ListStream, ObjectMeta  # Stubs alone have them.
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as ObstoreStore

T = TypeVar("T")

_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_NO_RIGHT = ("401 Unauthorized", "403 Forbidden", "(code: AccessDenied)")
"""Texts in errors of lists and bulk deletions, for which obstore has no error classes.

(A bulk deletion reports the refusal of a single object only in the body of its answer.)
"""

_NO_CREDENTIALS = {
    "/latest/api/token": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "/latest/meta-data": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "/computeMetadata/": "GOOGLE_APPLICATION_CREDENTIALS",
    "/metadata/identity": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""By part of a URL: the variables that give credentials. Without credentials a store's client
asks the machine's metadata service for a role, at these URLs."""

_NO_FOLDER = "LocalFileSystem error: Unable to create dir"

FOLDER_ATTEMPTS = 10
"""Attempts to create a file's folders, which concurrent deletions may remove while empty."""

_PAST_THE_END = re.compile(
    "status code: 416 |InMemory error: Invalid range|Requested range was invalid"
)
"""Stores' texts for a range behind the object's end. Because of their spaces they cannot match
a URL in the error, which contains the object's name."""

_REFUSED_NAME = re.compile(
    'invalid path: (?:Error parsing )?Path "(.*)"(?: contained empty|: Encountered illegal)',
    re.DOTALL,
)
"""The client's text for a name in a list that it does not accept."""

_DELETE, _BEHIND_DELETE = "\x7f", "\x80"

_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")
"""A URL with a query, which is cut from errors: it may hold a secret."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Timeouts and retries of a remote store's client; not used for directories and memory.

    The timeouts' defaults are obstore's.
    """

    connect_timeout_s: float = 5.0
    request_timeout_s: float = 30.0
    """Timeout of one request with its body: a part of 64 MiB needs 2.2 MiB/s."""
    retries_max: int = 5
    """Retries of a request that got no answer, 5xx or 429."""
    retry_timeout_s: float = 90.0
    """No retry begins later than this after the first attempt."""
    backoff_initial_s: float = 0.1
    """Delay before the first retry. It is doubled at each further one, with jitter."""
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
    """An object's entry in a list."""

    size: int
    e_tag: str
    """The content's MD5 in hex on an S3 without encryption; elsewhere any value."""


LIST_PAGE = 1000
"""Objects per page of a list, as S3 answers."""


@cache
def _client_process() -> OwnProcess:
    """The first process that uses obstore: its threads are in no process forked from it."""
    return OwnProcess(
        "the client of the tier's store",
        "read the tier only after the fork, or use multiprocessing's spawn or forkserver",
    )


class _PastTheEndError(StorageUnavailable):
    """The store reports that the object ends before the requested range."""


class ObjectStore:
    """A store of objects, whose names are paths below its root. Safe for concurrent use.

    Every method raises `StorageUnavailable` (a retry is safe) and `StoreRefused` (no such
    bucket, or no permission); both name the object.
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
        """Use `store`, which messages call `url`.

        `directory` is the root if objects are files. `is_near` means that reads are cheap.
        """
        self._store = store
        self._directory = directory
        self.url = url
        self.counts = counts
        self.is_near = is_near or directory is not None

    def name_of(self, name: str) -> str:
        """The object's name in messages, with the store's URL."""
        return f"{self.url.rstrip('/')}/{name}" if "/" in self.url else f"{self.url}{name}"

    async def put(self, operation: Operation, name: str, data: bytes) -> None:
        """Write or overwrite `name` in one request; readers see all of it or nothing."""

        def send() -> Awaitable[object]:
            return obstore.put_async(self._store, name, data, use_multipart=False)

        for attempts_left in reversed(range(1 if self._directory is None else FOLDER_ATTEMPTS)):
            try:
                await self._ask(operation, RequestKind.PUT, name, send)
                break
            except RemoteResourceNotFound as error:
                raise StoreRefused(f"{self.name_of(name)}: there is no such place") from error
            except StorageUnavailable as error:
                # A concurrent deletion removed one of the folders while it was empty: retry.
                if _NO_FOLDER not in str(error) or not attempts_left:
                    raise
        self.counts.bytes_written += len(data)

    async def create(self, operation: Operation, name: str, data: bytes) -> bool:
        """Write `name` in one request if nothing has that name; whether it was written.

        A store without conditional writes replaces what is there, and says that it wrote.
        """

        async def send() -> bool:
            try:
                await obstore.put_async(
                    self._store, name, data, mode="create", use_multipart=False
                )
            except AlreadyExistsError:
                return False
            return True

        is_written = await self._ask(operation, RequestKind.PUT, name, send)
        self.counts.bytes_written += len(data) * is_written
        return is_written

    async def get(self, operation: Operation, name: str) -> bytes:
        """The whole content of `name`.

        Raises:
            RemoteResourceNotFound: There is no such object.
        """
        data = await self._ask(operation, RequestKind.GET, name, lambda: self._whole(name))
        self.counts.bytes_read += len(data)
        return data

    async def get_range(
        self, operation: Operation, name: str, start: int, end: int, size: int
    ) -> bytes:
        """The bytes of `name` from `start` to `end` (exclusive), never fewer.

        The store also reports the size of the whole object, which must be `size`.

        Raises:
            RemoteResourceNotFound: There is no such object.
            CorruptRemoteData: The object has not `size` bytes, or the answer has too few.
        """

        async def send() -> tuple[int, bytes]:
            answer = await obstore.get_async(self._store, name, options={"range": (start, end)})
            return answer.meta["size"], bytes(await answer.bytes_async())

        try:
            found, data = await self._ask(operation, RequestKind.GET, name, send)
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

    async def get_end(self, operation: Operation, name: str, length: int) -> tuple[bytes, int]:
        """The last `length` bytes of `name`, or all if it has fewer, and the size of the whole.

        Raises:
            RemoteResourceNotFound: There is no such object.
        """

        async def send() -> tuple[bytes, int]:
            options: GetOptions = {"range": {"suffix": length}}
            answer = await obstore.get_async(self._store, name, options=options)
            return bytes(await answer.bytes_async()), answer.meta["size"]

        found = await self._ask(operation, RequestKind.GET, name, send)
        self.counts.bytes_read += len(found[0])
        return found

    async def list(self, operation: Operation, folder: str) -> dict[str, StoredObject]:
        """All objects below `folder` by their full names, ascending."""

        def send() -> Awaitable[Sequence[ObjectMeta]]:
            return obstore.list(self._store, prefix=folder).collect_async()

        found = await self._ask(operation, RequestKind.LIST, folder, send)
        self._check_directory()
        listed = {one["path"]: StoredObject(one["size"], one["e_tag"] or "") for one in found}
        return dict(sorted(listed.items()))

    async def pages(
        self, folder: str, on_unseen: Callable[[Unseen], None]
    ) -> AsyncIterator[Sequence[ListedName]]:
        """All objects below `folder` (empty: in the whole store), page by page in no order.

        Objects that are written or deleted meanwhile may be listed or not. What cannot be
        listed goes to `on_unseen`: in a directory, folders without the right to list them. In
        other stores, a name that the client does not accept, with up to 1,000 names before it:
        the client drops the whole answer.
        """
        if self._directory is not None:
            # Walked here, since the client fails at the first name that has a line end.
            self._check_directory()
            walk = walked(self._directory, folder, on_unseen)
            while files := await asyncio.to_thread(lambda: list(islice(walk, LIST_PAGE))):
                yield files
            return
        page, last = self._page_by_page(folder), ""
        is_one_by_one = False
        while True:
            try:
                found = await self._ask(Operation.LIST, RequestKind.LIST, folder, page)
            except StorageUnavailable as error:
                refused = _REFUSED_NAME.search(str(error))
                behind = None if refused is None else _behind_refused(refused[1])
                if refused is None or behind is None or behind <= last:
                    raise
                # The client drops what it has gathered; one by one, only the store's answer.
                is_one_by_one = not is_one_by_one
                if not is_one_by_one:
                    reason = f"{refused[1]}: the store's client does not accept this name"
                    on_unseen(Unseen(last, behind, reason))
                    last = behind
                page = self._page_by_page(folder, last, 1 if is_one_by_one else LIST_PAGE)
                continue
            if not found:
                return
            last = max(last, *(one["path"] for one in found))
            yield [
                ListedName(one["path"], one["size"], one["last_modified"], one["e_tag"])
                for one in found
            ]

    async def delete(self, operation: Operation, names: Iterable[str]) -> None:
        """Delete `names`. Idempotent: missing objects are no error."""
        wanted = list(names)
        if not wanted:
            return
        try:
            await self._delete(operation, wanted[0], wanted)
        except RemoteResourceNotFound:
            for name in wanted:  # A missing file ended the request; others may still exist.
                with suppress(RemoteResourceNotFound):
                    await self._delete(operation, name, [name])

    async def _delete(self, operation: Operation, name: str, wanted: Sequence[str]) -> None:
        def send() -> Awaitable[object]:
            try:
                return obstore.delete_async(self._store, wanted)
            except TypeError as error:  # The client does not accept one of the names.
                raise ValueError(f"{error}: {wanted}") from error

        await self._ask(operation, RequestKind.DELETE, name, send)

    async def move(self, operation: Operation, source: str, target: str, size: int) -> None:
        """Give the object `source` the name `target`; a repeat finds it there.

        An object store copies it first, and then deletes it: a failure may leave both.

        Raises:
            RemoteResourceNotFound: It has neither name.
            CorruptRemoteData: What has the name `target` now has not `size` bytes.
        """

        async def send() -> None:
            await obstore.rename_async(self._store, source, target)

        with suppress(RemoteResourceNotFound):  # The next step tells if it was moved before.
            await self._ask(operation, RequestKind.MOVE, source, send)
        await self._check_length(operation, target, size)

    async def make_durable(self, folder: str) -> None:
        """Fsync everything below `folder`, if the store is a directory; else nothing."""
        if self._directory is not None:
            await asyncio.to_thread(sync_folder, self._directory, self._directory / folder)

    async def make_removal_durable(self, folder: str) -> None:
        """Make removals from `folder` durable, if the store is a directory; else nothing."""
        if self._directory is not None:
            await asyncio.to_thread(sync_removal, self._directory, self._directory / folder)

    async def remove_leftovers(self, folder: str) -> None:
        """Remove files in `folder` that a killed writer left unfinished; lists omit them.

        Then remove `folder` and its parents as far as they are empty. Only in a directory.
        """
        if self._directory is not None:
            root, path = self._directory, self._directory / folder
            await asyncio.to_thread(remove_unfinished, root, path)

    def _page_by_page(
        self, folder: str, after: str = "", size: int = LIST_PAGE
    ) -> Callable[[], Awaitable[Sequence[ObjectMeta]]]:
        """A function that requests the next page of `size`; an empty page follows the last.

        The first begins behind the name `after`.
        """
        pages: list[ListStream[Sequence[ObjectMeta]]] = []

        async def send() -> Sequence[ObjectMeta]:
            if not pages:
                pages.append(
                    obstore.list(
                        self._store,
                        prefix=folder or None,
                        offset=after or None,
                        chunk_size=size,
                    )
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

        found = (await self._ask(operation, RequestKind.HEAD, name, send))["size"]
        self._check_size(name, found, size)

    def _check_size(self, name: str, found: int, expected: int) -> None:
        if found != expected:
            raise CorruptRemoteData(
                f"{self.name_of(name)}: expected {expected} bytes, it has {found}"
            )

    async def _ask(
        self,
        operation: Operation,
        request: RequestKind,
        name: str,
        send: Callable[[], Awaitable[T]],
    ) -> T:
        _client_process().check()
        self.counts.requests[operation, request] += 1
        try:
            return await send()
        except Exception as error:
            if not _is_obstores(error):
                raise
            documented = self._documented(request, name, error)
            if not isinstance(documented, RemoteResourceNotFound):
                self.counts.failures[operation, request] += 1
            raise documented from None  # obstore's error is long, and may show secrets.

    def _documented(
        self, request: RequestKind, name: str, error: Exception
    ) -> RemoteStorageError:
        """The error of `events.errors` for one of obstore's."""
        # The rest of the text is a dump of obstore's internals.
        reason = _QUERY.sub(r"\1?...", str(error).partition("\n\nDebug source:")[0])
        why = answer_in(reason) or reason
        message = f"{self.name_of(name)}: {request.value} failed: {why}"
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
        """Refuse a missing directory: if it is not mounted, its objects are not missing."""
        if self._directory is not None and not self._directory.is_dir():
            raise StoreRefused(f"{self.url}: there is no such directory")


def _behind_refused(name: str) -> str | None:
    """A name behind `name` that the client accepts, with only refused names between.

    None if it is not known why the client refused `name`.
    """
    at = 0
    parts = name.split("/")
    for number, part in enumerate(parts):
        for place, char in enumerate(part):
            if char < " " or char == _DELETE:
                return name[: at + place] + (" " if char < " " else _BEHIND_DELETE)
        is_last = number == len(parts) - 1
        if part in {".", ".."} and is_last:
            return f"{name} "
        if (part in {".", ".."} or not part) and not is_last:
            # The character behind the separator: no other name is between.
            return name[: at + len(part)] + "0"
        at += len(part) + 1
    return None


def _is_obstores(error: Exception) -> bool:
    # A panic's class cannot be imported.
    is_panic = type(error).__module__ == "pyo3_async_runtimes"
    return is_panic or isinstance(error, BaseError | OSError | ValueError)
