"""Where a database is, in a bucket or a folder, and what is asked there without SlateDB."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from tierledger.events.errors import StorageUnavailable, StoreRefused
from tierledger.events.extras import naming_extras
from tierledger.storage.backends.slatedb.binding import (
    Error,
    ObjectStore,
    ObjectStoreBuilder,
    ObjectStoreType,
)
from tierledger.storage.locate import StoreUrl
from tierledger.storage.s3_answers import answer_in

with naming_extras():
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError
    from obstore.store import LocalStore, S3Store

RETRY_TIMEOUT_S = 10.0
"""No retry begins later than this after the first attempt."""

LIST_PAGE = 1000
"""Objects of one answer."""

HEADS_AT_ONCE = 8
"""Objects that are asked for at the same time."""

_NO_BUCKET = "NoSuchBucket"
_NO_RIGHT = ("403 Forbidden", "401 Unauthorized", "AccessDenied", "SignatureDoesNotMatch")
_NO_CREDENTIALS = "/latest/"
"""Part of the URL of a machine's metadata, which is asked for a role without credentials."""


class DatabasePlace(NamedTuple):
    """The place of one database."""

    bucket: str
    """The bucket's name; empty: the place is a folder."""
    path: str
    """The prefix in the bucket; or the folder, absolute."""

    @classmethod
    def of(cls, url: StoreUrl) -> DatabasePlace:
        if url.path is not None:
            return cls("", str(url.path))
        bucket, _, prefix = url.server.removeprefix("s3://").partition("/")
        return cls(bucket, prefix)

    @property
    def shown(self) -> str:
        """The place as its URL names it."""
        root = f"s3://{self.bucket}/" if self.bucket else "file:"
        return f"slatedb:{root}{self.path}"

    def objects(self) -> ObjectStore:
        """What SlateDB reaches the place by; credentials come from the environment.

        Raises:
            InvalidArgument: The packages of the extra `bucket` are missing.
            StoreRefused: The environment's settings are wrong.
        """
        try:
            if not self.bucket:
                self.check_folder()
                local = ObjectStoreBuilder(ObjectStoreType.LOCAL)
                local.with_config("local_path", str(Path(self.path).parent))
                return local.build()
            remote = ObjectStoreBuilder.from_env(ObjectStoreType.S3)
            remote.with_url(f"s3://{self.bucket}")
            return remote.build()
        except Error as error:
            raise StoreRefused(f"{self.shown}: {error}") from error

    def check_folder(self) -> None:
        """Refuse a path in a missing folder: who mistypes it must not get an empty store."""
        folder = Path(self.path).parent
        if not folder.is_dir():
            raise StoreRefused(f"{self.shown}: there is no folder {folder}")

    @property
    def name(self) -> str:
        """The database's path below the root of `objects`."""
        return self.path if self.bucket else Path(self.path).name


class Listing:
    """Requests that SlateDB has no name for."""

    def __init__(self, place: DatabasePlace) -> None:
        self._place = place
        self._bucket = _bucket_of(place)

    async def has_database(self) -> bool:
        """Whether a SlateDB database is there, of whatever program; one request.

        Raises as `newest_commit` does.
        """
        with self._explained():
            async for page in obstore.list(
                self._bucket, prefix=f"{self._place.name}/manifest", chunk_size=1
            ):
                return bool(page)
        return False

    async def newest_commit(self, after: int) -> int:
        """The number of the newest object of the write-ahead log, at least `after`.

        Objects are asked for by their numbers, which have no gaps: most often two at once are
        enough. A list of them takes as long as there are many on some servers.

        Raises:
            StoreRefused: There is no such bucket, or no right to list it.
            StorageUnavailable: It does not answer.
        """
        is_there, has_next = await asyncio.gather(self._exists(after), self._exists(after + 1))
        if not has_next:
            # What is not needed any more is removed from the oldest on.
            return after if is_there else await self._newest_listed(after)
        newest, missing, reach = after + 1, None, 1
        while missing is None or missing - newest > 1:
            if missing is None:
                asked = [newest + (reach << nth) for nth in range(HEADS_AT_ONCE)]
                reach <<= HEADS_AT_ONCE
            else:
                stride = -((newest - missing) // (HEADS_AT_ONCE + 1))
                asked = list(range(newest + stride, missing, stride))
            found = await asyncio.gather(*map(self._exists, asked))
            there = [number for number, exists in zip(asked, found, strict=True) if exists]
            newest = max(there, default=newest)
            missing = min((one for one in asked if one > newest), default=missing)
        return newest

    async def _newest_listed(self, after: int) -> int:
        newest = after
        while len(numbers := await self._commits(newest)) == LIST_PAGE:
            newest = max(numbers)
        return max(numbers, default=newest)

    async def _exists(self, number: int) -> bool:
        with self._explained():
            try:
                await obstore.head_async(self._bucket, self._name(number))
            except FileNotFoundError:
                return False
        return True

    def _name(self, number: int) -> str:
        return f"{self._place.name}/wal/{number:020}.sst"

    async def _commits(self, after: int) -> list[int]:
        """The numbers of a page of objects behind `after`, by one request.

        Not by the client's own pages: their requests have both `start-after` and a token, which
        some servers refuse.
        """
        with self._explained():
            async for page in obstore.list(
                self._bucket,
                prefix=f"{self._place.name}/wal",
                offset=self._name(after),
                chunk_size=LIST_PAGE,
            ):
                names = [PurePosixPath(one["path"]).stem for one in page]
                return [int(name) for name in names if name.isdecimal()]
        return []

    async def require_conditions(self) -> None:
        """Prove that the place keeps an object that is there from being made anew.

        SlateDB tells two writers apart by that alone.

        Raises:
            StoreRefused: It overwrites; or as `newest_commit` does.
        """
        name = f"{self._place.name}/probe-{secrets.token_hex(8)}"
        with self._explained():
            await obstore.put_async(self._bucket, name, b"1", mode="create")
            try:
                await obstore.put_async(self._bucket, name, b"2", mode="create")
            except AlreadyExistsError:
                return
            finally:
                await obstore.delete_async(self._bucket, name)
        raise StoreRefused(
            f"{self._place.shown}: this object store overwrites an object that was to be made "
            "only if it is missing (If-None-Match: *), so two writers could not be told apart; "
            "expected a store with conditional writes"
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            reason = str(error).partition("\n\n")[0]
            if _NO_BUCKET in reason:
                raise StoreRefused(f"{self._place.shown}: there is no such bucket") from error
            if _NO_CREDENTIALS in reason:
                raise StoreRefused(
                    f"{self._place.shown}: no credentials: expected AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY in the environment"
                ) from error
            answer = answer_in(reason)
            if any(one in reason for one in _NO_RIGHT):
                why = answer or f"no right: {reason}"
                raise StoreRefused(f"{self._place.shown}: {why}") from error
            raise StorageUnavailable(f"{self._place.shown}: {answer or reason}") from error


def _bucket_of(place: DatabasePlace) -> LocalStore | S3Store:
    if not place.bucket:
        place.check_folder()
        return LocalStore(Path(place.path).parent)
    retries: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=RETRY_TIMEOUT_S)}
    return S3Store(place.bucket, retry_config=retries)
