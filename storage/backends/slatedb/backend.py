"""The store in a bucket: one process writes to it, any number read it.

Calls that wait while a commit is under way form the next one, so that a commit, which takes as
long as a request to the bucket, holds as much as there is.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, TypeVar

from typing_extensions import override

from tierledger.events.errors import (
    NoSuchStore,
    OutcomeUnknown,
    RemoteStorageError,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.storage.backend import (
    NO_FORMERS,
    CreateOutcome,
    Former,
    MetadataStorageBackend,
    Operation,
    Put,
    Remove,
    WriterReplaced,
    behind_folder,
    check_items,
    check_key,
    check_page,
    check_prefix,
)
from tierledger.storage.backends.checking import checked_beside
from tierledger.storage.backends.open_store import KEYS_PER_REMOVAL, OpenStore, removed
from tierledger.storage.backends.slatedb.database import (
    ANSWER_S,
    LOOK_S,
    Database,
    StoreMoment,
    Views,
    answered,
    oldest_commit,
)
from tierledger.storage.backends.slatedb.draft import (
    AtomicStep,
    CommitDraft,
    EachStep,
    PendingStep,
    Tails,
)
from tierledger.storage.backends.slatedb.place import DatabasePlace, Listing
from tierledger.storage.locate import StoreUrl

T = TypeVar("T")

JOINED_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of values at which no further call joins a commit."""

TAILS_MAX = 50_000
"""Folders whose tails are kept in memory, about 300 bytes each."""

BEAT_S = 10.0
"""A writer commits at least so often. One that has not for one and a half times as long, and
has not said that it closed, has ended, or writes no more once somebody else does."""

LOOKS_FOR_WRITER = 15
"""Looks for a sign of life in that time, before a store counts as left by its writer."""

WRITER = "\0writer"
"""The key under which a writer says who it is; empty: it has closed the store."""


class _WaitingStep(Generic[T]):
    """A call that waits for a commit."""

    def __init__(self, step: PendingStep[T]) -> None:
        self.step = step
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def decide(self, draft: CommitDraft) -> T | RemoteStorageError:
        try:
            return self.step.decide(draft)
        except RemoteStorageError as error:
            return error

    def tell(self, answer: T | RemoteStorageError) -> None:
        if self.answer.done():
            return  # The caller was cancelled.
        if isinstance(answer, RemoteStorageError):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


class CommitWriter:
    """The writing side: one commit at a time.

    SlateDB fences a former writer, which learns that by its next commit, or within two seconds.
    Until then it would read a state that may be older than what its successor has acknowledged:
    a leader there would find its next slot free, and answer. So each read first makes sure that
    nobody else has opened the database. Whoever opens it makes an object in the write-ahead log
    before anything else; numbers there have no gaps, and each commit makes one, too. So it is
    enough to know the number of this writer's last object, and to see that none follows it.
    """

    def __init__(self, place: DatabasePlace, database: Database, moment: StoreMoment) -> None:
        self._place = place
        self._listing = Listing(place)
        self._own = 0
        """The number of the last object in the write-ahead log that this writer has made."""
        self._looking = asyncio.Lock()
        self._looks_begun = 0
        self._looked_well = 0
        """The number of the last look that found nobody else."""
        self._database: Database | None = database
        self._moment = moment
        self._tails = Tails()
        self._waiting: list[_WaitingStep[Any]] = []
        self._run: asyncio.Task[None] | None = None
        self._commit: asyncio.Task[None] | None = None
        """The last commit."""
        self._in_doubt: asyncio.Task[None] | None = None
        """A commit for which nobody waits any more, but which may yet be carried out."""
        self._settling = asyncio.Lock()
        self._refusal: StoreRefused | None = None
        self._commits = 0
        self._beat: asyncio.Task[None] | None = None
        self.name = f"pid {os.getpid()} on {platform.node()}".encode()

    @classmethod
    async def open(cls, place: DatabasePlace, *, is_prepared: bool = False) -> CommitWriter:
        """Raises as `SlateDbBackend.open` does."""
        if not is_prepared:
            await Listing(place).require_conditions()
        # Few objects are left to look for once the database is open.
        async with _beside(_newest_commit(place)) as seen:
            database = await Database.open(place)
            try:
                writer = cls(place, database, await database.moment())
                writer._own = await seen
                await writer._begin(database, is_there=is_prepared)
            except BaseException:
                await database.close()
                raise
        writer._beat = asyncio.create_task(writer._keep_beating())
        return writer

    async def _begin(self, database: Database, *, is_there: bool) -> None:
        """Learn which objects of the write-ahead log are not a successor's.

        The newest is looked for first, and a commit is made behind it, which fails if somebody
        has opened the database since: so what was found is no successor's. An object that is
        found after that commit could be one.
        """
        async with _beside(self._listing.newest_commit(self._own)) as looking:
            missing = await database.missing(is_there=is_there)
            newest = await looking
        async with answered(self._place):
            await database.commit({**missing, WRITER.encode(): self.name})
        self._own = newest + 1
        self._moment = await database.moment()

    async def _keep_beating(self) -> None:
        while True:
            before = self._commits
            await asyncio.sleep(BEAT_S)
            if before == self._commits:
                with suppress(RemoteStorageError):  # Then the next call meets it, too.
                    await self.decided(AtomicStep([Put(WRITER, self.name)]))

    async def decided(self, step: PendingStep[T]) -> T:
        """The answer to `step`, once what it changes is durable."""
        if self._refusal is not None:
            raise type(self._refusal)(*self._refusal.args)
        waiting = _WaitingStep(step)
        self._waiting.append(waiting)
        if self._run is None:
            self._run = asyncio.create_task(self._commit_all())
        return await waiting.answer

    async def moment(self, *, may_lag: bool = False) -> StoreMoment:
        """The store after the last commit, with what is in doubt carried out or not.

        `may_lag`: also if another process has opened it for writing and this one has not
        noticed. Otherwise that is looked for, by a request for all who wait.

        Raises:
            WriterReplaced: One has.
        """
        if not may_lag:
            await self._require_current()
        await self._settle()
        return self._moment

    async def _require_current(self) -> None:
        """Return once it is certain that nobody had replaced this writer at the call."""
        # A look that is under way began before this call, and proves nothing for it. All who
        # come during that look share the next one.
        before = self._looks_begun
        async with self._looking:
            if self._looked_well <= before:
                self._looks_begun += 1
                await self._look()
                self._looked_well = self._looks_begun

    async def _look(self) -> None:
        """Look for objects of the write-ahead log that this writer has not made."""
        await self._settle()
        newest = await self._listing.newest_commit(self._own)
        # The object of an own commit is there before the commit ends and is counted.
        while newest > self._own and self._commit is not None and not self._commit.done():
            await asyncio.wait([self._commit], timeout=ANSWER_S)
            await self._settle()
        if newest > self._own:
            self._refusal = WriterReplaced(
                f"{self._place.shown}: another process has opened it for writing; this one "
                "writes no more"
            )
            raise WriterReplaced(*self._refusal.args)

    async def _commit_all(self) -> None:
        try:
            while self._waiting:
                taken = self._take()
                try:
                    answers = await self._committed(taken)
                except RemoteStorageError as error:
                    if isinstance(error, StoreRefused):
                        self._refusal = error
                    answers = [error] * len(taken)
                except Exception as error:  # noqa: BLE001 - Who waits is told, whatever it was.
                    # What it left undone is not known: the next step opens the database anew.
                    self._in_doubt = asyncio.create_task(_failed(error))
                    unknown = OutcomeUnknown(
                        f"{self._place.shown}: {error!r}, while committing"
                    )
                    answers = [unknown] * len(taken)
                for waiting, answer in zip(taken, answers, strict=True):
                    waiting.tell(answer)
        finally:
            self._run = None

    def _take(self) -> list[_WaitingStep[Any]]:
        """The calls of the next commit: at least one, and up to the first that ends it."""
        taken: list[_WaitingStep[Any]] = []
        size = 0
        while self._waiting and size <= JOINED_BYTES_MAX:
            taken.append(self._waiting.pop(0))
            size += taken[-1].step.size
            if taken[-1].step.ends_commit:
                break
        return taken

    async def _committed(self, taken: Sequence[_WaitingStep[Any]]) -> list[Any]:
        """The answers to `taken`, in order.

        Raises:
            StorageUnavailable, WriterReplaced: Nothing changed.
        """
        await self._settle()
        draft = CommitDraft(self._place.shown, self._tails)
        answers: list[Any] = []
        for one in taken:
            await self._learn(one.step, draft)
            answer = one.decide(draft)
            answers.append(answer)
            if isinstance(answer, StoreRefused):
                self._refusal = answer  # An older store: rule 4 of `storage/backend.py`.
        if self._refusal is not None:
            return [self._refusal] * len(taken)
        if draft.changes:
            try:
                await self._write(draft)
            except OutcomeUnknown as error:
                # What failed may have failed because of what is in doubt now.
                return [error] * len(taken)
        return answers

    async def _learn(self, step: PendingStep[Any], draft: CommitDraft) -> None:
        """Read what `step` needs to know."""
        while any(needs := step.needs(draft)):
            folders, keys = sorted(needs.folders), sorted(needs.keys)
            tails = await self._moment.tails(folders)
            values = await self._moment.values(keys)
            draft.learn(
                dict(zip(keys, values, strict=True)), dict(zip(folders, tails, strict=True))
            )

    async def _write(self, draft: CommitDraft) -> None:
        """Carry out what `draft` has gathered.

        Raises:
            OutcomeUnknown: It is in doubt, and stays so until `_settle`.
        """
        assert self._database is not None, "it was opened when the last commit was settled"
        changes = {key.encode(): value for key, value in draft.changes.items()}
        commit = self._commit = asyncio.create_task(self._counted(self._database, changes))
        try:
            await asyncio.wait([commit], timeout=ANSWER_S)
            if not commit.done():
                raise StorageUnavailable(
                    f"{self._place.shown} does not answer within {ANSWER_S:g} s"
                )
            commit.result()
            self._moment = await self._database.moment()
        except RemoteStorageError as error:
            self._in_doubt = commit
            raise OutcomeUnknown(f"{error}, while committing") from error
        self._commits += 1
        self._remember(draft)

    async def _counted(self, database: Database, changes: Mapping[bytes, bytes | None]) -> None:
        await database.commit(changes)
        self._own += 1

    def _remember(self, draft: CommitDraft) -> None:
        for folder, tail in draft.read_tails.items():
            self._tails.setdefault(folder, tail)
        for key, value in draft.changes.items():
            self._tails.note(key, value)
        while len(self._tails) > TAILS_MAX:
            del self._tails[next(iter(self._tails))]

    async def _settle(self) -> None:
        """Have the commit in doubt carried out, or made impossible.

        Raises:
            WriterReplaced: Another process has opened the store for writing.
            StorageUnavailable: It is still in doubt.
        """
        async with self._settling:
            if isinstance(self._refusal, WriterReplaced):
                raise WriterReplaced(*self._refusal.args)
            if self._in_doubt is not None:
                try:
                    await self._end_doubt(self._in_doubt)
                except WriterReplaced as error:
                    self._refusal = error
                    raise
                self._in_doubt = None

    async def _end_doubt(self, commit: asyncio.Task[None]) -> None:
        await asyncio.wait([commit], timeout=ANSWER_S)
        if not commit.done():
            raise StorageUnavailable(
                f"{self._place.shown} does not answer; what was written last is in doubt"
            )
        error = commit.exception()
        if isinstance(error, WriterReplaced):
            raise WriterReplaced(*error.args)
        self._tails.clear()  # They do not tell whether that commit is there.
        if error is not None or self._database is None:
            # What is not durable by now never will be.
            if self._database is not None:
                await self._database.close()
                self._database = None
            self._database = await Database.open(self._place)
        await self._begin(self._database, is_there=True)

    async def replaced(self) -> None:
        """Return once another process has opened the store for writing."""
        # SlateDB tells it to nobody who does not ask.
        while not isinstance(self._refusal, WriterReplaced) and (  # noqa: ASYNC110
            self._database is None or not self._database.is_replaced
        ):
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
        with suppress(RemoteStorageError):  # Then the next writer waits a little.
            await self.decided(AtomicStep([Put(WRITER, b"")]))
        while self._run is not None:
            await asyncio.wait([self._run])
        if self._database is not None:
            await self._database.close()


class SlateDbBackend(MetadataStorageBackend):
    """A store in a bucket or, for tests, in a folder."""

    def __init__(self, place: DatabasePlace, writer: CommitWriter | None, views: Views) -> None:
        """Not called directly: see `open`."""
        self._opened = OpenStore(f"the open store {place.shown}", place.shown)
        self._place = place
        self._writer = writer
        self._views = views

    @classmethod
    async def open(
        cls,
        url: StoreUrl,
        *,
        read_only: bool = False,
        takes_over: bool = False,
        is_prepared: bool = False,
        patience_s: float = 0.0,
    ) -> SlateDbBackend:
        """The store at `url`; a writer makes it if it is missing.

        A writer that `takes_over` waits for nobody: whoever wrote the store before writes no
        more, and each of its calls raises `WriterReplaced`. Another one is refused while a
        writer lives, and waits 15 s for a sign of one that has not closed the store.

        `is_prepared`: the store was seen there, and that its bucket has conditional writes.

        `patience_s`: by how much a reader may be behind, which looks for newer commits less
        often then: each look is a request.

        Raises:
            NoSuchStore: There is none, and it was opened for reading.
            StoreRefused: Another process writes it; there is no such bucket, no right to it,
                another program's database, or an object store without conditional writes.
            FormatTooNew: A newer release made it.
            StorageUnavailable: The bucket does not answer.
            InvalidArgument: The packages of the extra `bucket` are missing.
        """
        place = DatabasePlace.of(url)
        views = Views(place, patience_s)
        try:
            if read_only:
                async with views.moment():
                    return cls(place, None, views)
            if not takes_over:
                await _refuse_second(place, views)
                await views.close()  # A writer reads what it has written.
            writer = await CommitWriter.open(place, is_prepared=is_prepared)
            return cls(place, writer, views)
        except BaseException:
            await views.close()
            raise

    @asynccontextmanager
    async def _moment(self, *, may_lag: bool = False) -> AsyncIterator[StoreMoment]:
        if self._writer is not None:
            yield await self._writer.moment(may_lag=may_lag)
            return
        async with self._views.moment() as moment:
            yield moment

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        for key in keys:
            check_key(key)

        async def read() -> list[bytes | None]:
            async with self._moment() as moment:
                return await moment.values(keys)

        return await self._opened.finished(read())

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        check_page(prefix, after, limit)

        async def read() -> list[tuple[str, bytes]]:
            async with self._moment() as moment:
                return await moment.page(prefix, after, limit)

        return await self._opened.finished(read())

    @override
    async def get_firsts(
        self, prefix: str, levels: int, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        check_page(prefix, after, limit)

        async def read() -> list[tuple[str, bytes]]:
            found, behind = list[tuple[str, bytes]](), after
            async with self._moment() as moment:
                while len(found) < limit and (page := await moment.page(prefix, behind, 1)):
                    found += page
                    behind = behind_folder(prefix, page[0][0], levels)
            return found

        return await self._opened.finished(read())

    @override
    async def last_keys(self, prefixes: Sequence[str]) -> list[str | None]:
        return await self._last_keys(prefixes, may_lag=False)

    @override
    async def last_keys_seen(self, prefixes: Sequence[str]) -> list[str | None]:
        return await self._last_keys(prefixes, may_lag=True)

    async def _last_keys(self, prefixes: Sequence[str], *, may_lag: bool) -> list[str | None]:
        for prefix in prefixes:
            check_prefix(prefix)

        async def read() -> list[str | None]:
            async with self._moment(may_lag=may_lag) as moment:
                return [one.key or None for one in await moment.tails(prefixes)]

        return await self._opened.finished(read())

    @override
    async def remove_like(self, prefix: str) -> int:
        check_prefix(prefix)
        writer = self._writing()
        return await removed(lambda: self._opened.finished(_removed(writer, prefix)))

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        await checked_beside(operations)
        await self._opened.finished(self._writing().decided(AtomicStep(operations)))

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        check_items(items)
        return await self._opened.finished(self._writing().decided(EachStep(items, formers)))

    def _writing(self) -> CommitWriter:
        if self._writer is None:
            raise StoreRefused(f"{self._place.shown} was opened for reading only")
        return self._writer

    @override
    async def is_replaced(self) -> bool:
        if self._writer is not None:
            await self._writer.replaced()
        return self._writer is not None

    @override
    async def close(self) -> None:
        # SlateDB's threads are not in a forked process.
        await self._opened.close(self._close)

    async def _close(self) -> None:
        await self._views.close()
        if self._writer is not None:
            await self._writer.close()


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """A task of `work` that runs beside the block, and has ended when the block has."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _newest_commit(place: DatabasePlace) -> int:
    """The number of the newest commit; 0: there is no database yet."""
    try:
        return await Listing(place).newest_commit(await oldest_commit(place))
    except NoSuchStore:
        return 0


async def _present_writer(views: Views) -> bytes | None:
    """Who writes the store, or has ended without closing it."""
    try:
        async with views.moment() as moment:
            (name,) = await moment.values([WRITER])
    except NoSuchStore:
        return None
    return name or None


async def _refuse_second(place: DatabasePlace, views: Views) -> None:
    """Return once it is clear that no writer lives.

    Raises:
        StoreRefused: One does.
    """
    name = await _present_writer(views)
    for _ in range(LOOKS_FOR_WRITER):
        if not name:
            return
        await asyncio.sleep(1.5 * BEAT_S / LOOKS_FOR_WRITER)
        if await views.has_newer():
            name = await _present_writer(views)
            if not name:
                return  # What it wrote last is that it closed the store.
            raise StoreRefused(
                f"{place.shown} is written by another process, {name.decode()}: end it first"
            )


async def _failed(error: Exception) -> None:
    raise error


async def _removed(writer: CommitWriter, prefix: str) -> int:
    """The number of keys that one step of a removal removes."""
    moment = await writer.moment(may_lag=True)  # The commit finds out.
    page = await moment.page(prefix, None, KEYS_PER_REMOVAL)
    await writer.decided(AtomicStep([Remove(key) for key, _ in page]))
    return len(page)
