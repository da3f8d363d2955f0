"""Makes, verifies and restores backups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import NamedTuple

from tierledger.events.errors import (
    CorruptRemoteData,
    DataError,
    InvalidArgument,
    RejectedError,
    RemoteResourceNotFound,
    RemoteStorageError,
    StoreRefused,
)
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backup.files import (
    Backup,
    BackupFiles,
    BackupIndex,
    BackupName,
    PartInReading,
    PartOfBackup,
    UnneededFiles,
)
from tierledger.storage.backup.keeping import KeepRules, kept
from tierledger.storage.catalog import Catalog
from tierledger.storage.transfer.logs import BatchPiece, ClusterLogs, LogEnd, LogId
from tierledger.storage.transfer.source import StoreSource
from tierledger.storage.transfer.target import StoreTarget

PART_BYTES = 8 << 20
"""About how many bytes of batches a part has; two are in memory at a time."""

NOT_RESTORED = (
    "the store is being restored from a backup, or that was interrupted: no service starts on "
    "it; `tierledger backup restore` begins anew"
)

Progress = Callable[[int], None]


class MadeBackup(NamedTuple):
    """What a run has done."""

    name: BackupName
    backup: Backup
    events: int
    """Events that no backup had before."""
    bytes: int
    """Bytes of the new parts."""


async def make(
    files: BackupFiles, catalog: Catalog, made_ms: int, on_batches: Progress
) -> MadeBackup:
    """Write what no backup at that place has yet, and then which files are the new backup.

    Raises:
        InvalidArgument: Something else is there, or backups of another cluster.
        RejectedError: Another process has made a backup there meanwhile.
        StoreRefused: The store does not have what is in the newest backup; or the place cannot
            tell apart two processes that make backups.
        CorruptLog: The coordinator's log is damaged.
        CorruptRemoteData: The newest backup's file is damaged.
        StorageUnavailable: The store cannot be reached.
        OSError: A file cannot be written. The backups before are as they were.
    """
    before = (await files.begun()).newest
    last = None if before is None else await files.backup(before)
    cluster = catalog.cluster_id
    if last is not None and last.cluster != cluster:
        raise InvalidArgument(
            f"{files.place} has backups of cluster {last.cluster!r}, and the store has "
            f"{cluster!r}: expected a place for each"
        )
    source = StoreSource(catalog, last.ends if last is not None else {})
    number = 1 if before is None else before.number + 1
    new = list[PartOfBackup]()
    try:
        async for pieces in _parts_of(source, on_batches):
            new.append(await files.write_part(number, pieces))
        damaged = {str(log): str(error) for log, error in source.damaged.items()}
        parts = () if last is None else last.parts
        backup = Backup(cluster, (*parts, *new), source.ends, damaged)
        name = await files.write_backup(number, made_ms, backup)
    except BaseException:
        with suppress(OSError, RemoteStorageError):
            await files.place.remove([one.name for one in new])
        raise

    def added(backups: tuple[BackupName, ...]) -> tuple[BackupName, ...]:
        if name in backups:
            return backups
        if (backups[-1] if backups else None) != before:
            raise RejectedError(
                f"another process has made a backup in {files.place} meanwhile: there is none "
                "of this command"
            )
        return (*backups, name)

    index = await files.change(added)
    with suppress(StoreRefused):  # Who may only add files can make backups.
        await files.remove_left_over(index, backup)
    known = 0 if last is None else last.events
    return MadeBackup(name, backup, backup.events - known, sum(one.bytes for one in new))


class PrunedBackups(NamedTuple):
    """Which backups stay and why, and what was removed."""

    kept: dict[BackupName, list[str]]
    removed: list[BackupName]
    left_over: UnneededFiles
    """All files that were removed, those of the backups among them."""


async def prune(
    files: BackupFiles, rules: KeepRules, on_parts: Progress, *, is_dry: bool = False
) -> PrunedBackups:
    """Let go the backups that no rule keeps, and what slow or killed processes have left.

    All of the newest backup is read first. What is let go is gone in one step, and its files
    after it. Whoever makes a backup meanwhile notices nothing.

    Raises:
        RemoteResourceNotFound: There is no backup.
        CorruptRemoteData: The newest backup is damaged, so an older one may be the last that
            is good. Nothing is removed.
        StoreRefused: There is no right to remove; what is let go is gone nevertheless.
    """
    index = await files.index()
    if not is_dry and index.backups:
        index = await files.begun()
    if index.newest is None:
        raise RemoteResourceNotFound(f"there is no backup in {files.place}")
    try:
        newest = await files.backup(index.newest)
        async with aclosing(files.parts(newest.parts)) as parts:
            async for one in parts:
                await one.checked()
                on_parts(1)
    except CorruptRemoteData as error:
        raise CorruptRemoteData(f"{error}; nothing is removed") from error
    stay = kept(index.backups, rules)
    gone = [one for one in index.backups if one not in stay]

    def without(backups: tuple[BackupName, ...]) -> tuple[BackupName, ...]:
        return tuple(one for one in backups if one not in gone)

    if is_dry:
        # The next index, which would take the place of the present one.
        changed = BackupIndex(index.number + bool(gone), without(index.backups))
        left = await files.left_over(changed, newest)
        return PrunedBackups(stay, gone, left)
    index, before = await files.change(without), index.newest
    if index.newest is not None and index.newest != before:
        newest = await files.backup(index.newest)
    return PrunedBackups(stay, gone, await files.remove_left_over(index, newest))


async def _parts_of(
    source: StoreSource, on_batches: Progress
) -> AsyncIterator[list[BatchPiece]]:
    some, size = list[BatchPiece](), 0
    async for piece in source.pieces():
        on_batches(len(piece.values))
        some.append(piece)
        size += piece.size
        if size >= PART_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


async def restore(
    files: BackupFiles,
    backup: Backup,
    backend: MetadataStorageBackend,
    logs: ClusterLogs,
    on_parts: Progress,
) -> None:
    """Fill a store that has nothing of the cluster; it is the cluster's when this returns.

    Raises:
        RejectedError: The store has something of the cluster, or somebody else writes to it.
        CorruptRemoteData: A part is missing, damaged, or none of ours. The store is left
            closed: another attempt begins anew.
        CorruptLog: The batches of a log do not follow one another; as above.
        StorageUnavailable: The store cannot be reached; as above.
        OutcomeUnknown: A step is in doubt; as above.
    """
    target = await StoreTarget.begun(backend, logs, NOT_RESTORED)
    try:
        async with aclosing(files.parts(backup.parts)) as parts:
            async for one in parts:
                for piece in await one.pieces():
                    await target.append(piece)
                on_parts(1)
        await target.finish(backup.ends)
    finally:
        await target.close()


class VerifiedBackup(NamedTuple):
    """A backup, and what is wrong with it, if anything is."""

    name: BackupName
    backup: Backup | None
    error: DataError | None


async def verified(
    files: BackupFiles, logs_of: Callable[[str], ClusterLogs], on_parts: Progress
) -> list[VerifiedBackup]:
    """All backups, oldest first, each after all of its files were read as a restore reads them.

    A part is read once: later backups have it in the same place.
    """
    ends = dict[LogId, LogEnd]()
    read = list[PartOfBackup]()
    broken: DataError | None = None
    done = list[VerifiedBackup]()
    for name in await files.backups():
        backup, error = None, None
        try:
            backup = await files.backup(name)
            logs = logs_of(backup.cluster)
            if list(backup.parts[: len(read)]) != read:
                raise CorruptRemoteData(f"{name.name} does not continue the backup before it")
            async with aclosing(files.parts(backup.parts[len(read) :])) as parts:
                async for one in parts:
                    read.append(one.part)
                    if broken is None:
                        try:
                            await _follow(one, logs, ends)
                        except DataError as found:
                            broken = found
                    on_parts(1)
            if broken is None and backup.ends != ends:
                raise CorruptRemoteData(f"{name.name}: its parts end elsewhere than it says")
        except DataError as found:
            error = found
        done.append(VerifiedBackup(name, backup, error or broken))
    return done


async def _follow(one: PartInReading, logs: ClusterLogs, ends: dict[LogId, LogEnd]) -> None:
    for piece in await one.pieces():
        found = logs.followed(ends.get(piece.log) or logs.start(piece.log), piece)
        if found.error is not None:
            raise type(found.error)(f"{one.part.name}: {found.error}")
        ends[piece.log] = found.end
