"""What is in the files of backups.

    00000003-RANDOM-DIGEST.part               batches of logs, as they are stored
    00000003-20261129T060000Z-DIGEST.backup   the parts of a backup, and where its logs end
    00000005.index                            which backups there are

A part has what was new when it was written for the backup of its number, and belongs to that
one and all later ones.

Rule 1: which backups there are changes by the next index, whose name only one process can
create (`change`). Nobody needs a lock: who was too slow has changed nothing.
Rule 2: a further backup is published only behind the one whose parts it continues. So what has
the number of a published backup or a lower one, and is in none of them, is nobody's: it may be
removed (`remove_left_over`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from secrets import token_hex
from typing import NamedTuple

import msgspec

from tierledger.events.errors import (
    CorruptRemoteData,
    FormatTooNew,
    InvalidArgument,
    RemoteResourceNotFound,
    StoreRefused,
)
from tierledger.events.identifiers import Uuid
from tierledger.events.typed_fields import time_text
from tierledger.storage.backup.place import BackupPlace, checked, digest
from tierledger.storage.durable_files import name_of_unfinished
from tierledger.storage.transfer.logs import COORDINATOR, BatchPiece, LogEnd, LogId

FORMAT = 1

_PART = re.compile(r"(\d{8})-[0-9a-f]{8}-[0-9a-f]{32}\.part", re.ASCII)
_BACKUP = re.compile(r"(\d{8})-(\d{8}T\d{6}Z)-[0-9a-f]{32}\.backup", re.ASCII)
_INDEX = re.compile(r"(\d{8})\.index", re.ASCII)
_TIME = "%Y%m%dT%H%M%SZ"

NO_INDEX = -1


class BackupName(NamedTuple):
    """A backup, by the name of its file."""

    number: int
    made_s: int
    """When the reading of the store began, in s since 1970: it has all that was written."""
    name: str


class PartOfBackup(NamedTuple):
    """A file with batches."""

    name: str
    bytes: int


class _StoredEnd(NamedTuple):
    """Where a log ends: a topic's id, or `coordinator`."""

    log: str
    partition: int
    next_batch: int
    next_position: int
    chain_hash: str


class _StoredBackup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    number: int
    made_s: int
    cluster: str
    parts: tuple[PartOfBackup, ...]
    logs: tuple[_StoredEnd, ...]
    damaged: dict[str, str]


class Backup(NamedTuple):
    """All of a cluster's logs, up to where each ended when it was read."""

    cluster: str
    parts: tuple[PartOfBackup, ...]
    ends: dict[LogId, LogEnd]
    damaged: dict[str, str]
    """Logs of which only what is before a damage is in the backup, and what the damage is."""

    @property
    def events(self) -> int:
        return sum(end.next_position for end in self.ends.values())

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)


class BackupIndex(NamedTuple):
    """Which backups there are, oldest first."""

    number: int
    backups: tuple[BackupName, ...]

    @property
    def newest(self) -> BackupName | None:
        return self.backups[-1] if self.backups else None


class _StoredIndex(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    backups: tuple[str, ...]


class PartInReading(NamedTuple):
    """A part that is being read."""

    part: PartOfBackup
    reading: asyncio.Task[bytes]

    async def checked(self) -> bytes:
        """Its bytes, which are what was written.

        Raises:
            CorruptRemoteData: The file is missing or damaged.
        """
        return await self.reading

    async def pieces(self) -> list[BatchPiece]:
        """The batches in it.

        Raises:
            CorruptRemoteData: The file is missing, damaged, or none of ours.
        """
        data = await self.checked()
        try:
            return _pieces.decode(data)
        except msgspec.MsgspecError as error:
            raise CorruptRemoteData(f"{self.part.name} has no batches: {error}") from error


class _FoundFiles(NamedTuple):
    """A place's files: their sizes, and their names by kind, in order."""

    sizes: dict[str, int]
    backups: list[BackupName]
    parts: list[str]
    indexes: list[str]
    unfinished: list[str]


class UnneededFiles(NamedTuple):
    """Files that nobody needs."""

    names: list[str]
    bytes: int


class BackupFiles:
    """The backups at one place."""

    def __init__(self, place: BackupPlace) -> None:
        self.place = place

    async def backups(self) -> tuple[BackupName, ...]:
        """All backups, oldest first. Raises as `index` does."""
        return (await self.index()).backups

    async def begun(self) -> BackupIndex:
        """Which backups there are, at a place that is there and can be changed.

        Raises:
            StoreRefused: It lets a file be created twice.
            InvalidArgument: As `index`, or the place cannot be made.
        """
        await self.place.prepare()
        while True:
            index = await self.change(lambda backups: backups)
            name, data = _index_file(index)
            # With its own bytes, so nothing is lost if it is overwritten.
            if not await self.place.create(name, data):
                return index
            if (await self.index()).number == index.number:
                raise StoreRefused(
                    f"{self.place} overwrites a file that was to be made only if it is missing "
                    "(If-None-Match: *), so two processes that make backups could not be told "
                    "apart; expected a place with conditional writes"
                )

    async def change(
        self, changed: Callable[[tuple[BackupName, ...]], tuple[BackupName, ...]]
    ) -> BackupIndex:
        """Which backups there are, once it is what `changed` makes of what there was.

        `changed` is asked again for what others have changed meanwhile, until it changes
        nothing; then what it wanted is published. What it raises is raised.
        """
        while True:
            index = await self.index()
            wanted = changed(index.backups)
            if index.number != NO_INDEX and wanted == index.backups:
                return index
            await self.place.create(*_index_file(BackupIndex(index.number + 1, wanted)))

    async def left_over(self, index: BackupIndex, newest: Backup) -> UnneededFiles:
        """What was let go, and what slow or killed processes have left, once `index` is.

        `newest` is the newest backup of `index`, which has all parts of those before it.
        """
        files = await self._names()
        names = list(_left_over(files, index, newest))
        return UnneededFiles(names, sum(files.sizes[one] for one in names))

    async def remove_left_over(self, index: BackupIndex, newest: Backup) -> UnneededFiles:
        """Remove that."""
        found = await self.left_over(index, newest)
        if found.names:
            await self.place.remove(found.names)
        return found

    async def chosen(self, as_of_ms: int | None = None) -> BackupName:
        """The newest backup, or the newest of those made up to that time.

        Raises:
            RemoteResourceNotFound: There is none.
        """
        found = await self.backups()
        if not found:
            raise RemoteResourceNotFound(f"there is no backup in {self.place}")
        early = [one for one in found if as_of_ms is None or one.made_s * 1000 <= as_of_ms]
        if not early:
            first = time_text(found[0].made_s * 1000)
            raise RemoteResourceNotFound(
                f"there is no backup of that time in {self.place}: the first is of {first}"
            )
        return early[-1]

    async def backup(self, name: BackupName) -> Backup:
        """A backup as its file tells it.

        Raises:
            CorruptRemoteData: The file is damaged, or none of ours.
            FormatTooNew: A newer release wrote it.
        """
        data = await self._read(name.name)
        try:
            if msgspec.json.decode(data, type=_Format).format > FORMAT:
                raise FormatTooNew(f"{name.name} was written by a newer release")
            stored = msgspec.json.decode(data, type=_StoredBackup)
            ends = {_log_of(one): _end_of(one) for one in stored.logs}
            if (stored.number, stored.made_s) != name[:2]:
                raise ValueError("its name was another one")
        except (msgspec.MsgspecError, ValueError) as error:
            raise CorruptRemoteData(f"{name.name} is no backup: {error}") from error
        return Backup(stored.cluster, stored.parts, ends, stored.damaged)

    async def parts(self, parts: Sequence[PartOfBackup]) -> AsyncGenerator[PartInReading, None]:
        """Each of `parts`; the next one is read while the caller works on one."""
        ahead: asyncio.Task[bytes] | None = None
        try:
            for at, part in enumerate(parts):
                reading = ahead or asyncio.create_task(self._read(part.name))
                following = parts[at + 1 : at + 2]
                ahead = None
                for one in following:
                    ahead = asyncio.create_task(self._read(one.name))
                yield PartInReading(part, reading)
                await asyncio.gather(reading, return_exceptions=True)  # If nobody did.
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)

    async def write_part(self, number: int, pieces: list[BatchPiece]) -> PartOfBackup:
        data = msgspec.msgpack.encode(pieces)
        # Nobody else's has this name, so who fails can remove it.
        name = f"{number:08d}-{token_hex(4)}-{digest(data)}.part"
        await self.place.write(name, data)
        return PartOfBackup(name, len(data))

    async def write_backup(self, number: int, made_ms: int, backup: Backup) -> BackupName:
        logs = tuple(_stored_end(log, end) for log, end in sorted(backup.ends.items()))
        made_s = made_ms // 1000
        stored = _StoredBackup(
            FORMAT, number, made_s, backup.cluster, backup.parts, logs, backup.damaged
        )
        data = msgspec.json.encode(stored)
        made = datetime.fromtimestamp(made_s, UTC).strftime(_TIME)
        name = f"{number:08d}-{made}-{digest(data)}.backup"
        await self.place.write(name, data)
        return BackupName(number, made_s, name)

    async def index(self) -> BackupIndex:
        """Which backups there are.

        Raises:
            InvalidArgument: There is no such place, or something else is there.
            CorruptRemoteData: The index is damaged.
        """
        while True:
            files = await self._names()
            if not files.indexes:
                return BackupIndex(NO_INDEX, tuple(files.backups))
            name = files.indexes[-1]
            try:
                data = await self.place.read(name)
            except FileNotFoundError:
                continue  # There is a further one, and somebody has removed this one.
            return BackupIndex(_number(name), self._indexed(name, data))

    def _indexed(self, name: str, data: bytes) -> tuple[BackupName, ...]:
        try:
            if msgspec.json.decode(data, type=_Format).format > FORMAT:
                raise FormatTooNew(f"{name} was written by a newer release")
            stored = msgspec.json.decode(data, type=_StoredIndex)
            return tuple(_backup_name(one) for one in stored.backups)
        except (msgspec.MsgspecError, ValueError) as error:
            raise CorruptRemoteData(
                f"{name} in {self.place} is no index of backups: {error}; if you remove it, "
                "all backups that are there count"
            ) from error

    async def _names(self) -> _FoundFiles:
        files = _FoundFiles(await self.place.sizes(), [], [], [], [])
        for name in sorted(files.sizes):
            if _PART.fullmatch(name):
                files.parts.append(name)
            elif _BACKUP.fullmatch(name):
                files.backups.append(_backup_name(name))
            elif _INDEX.fullmatch(name):
                files.indexes.append(name)
            elif name_of_unfinished(name) is not None:
                files.unfinished.append(name)
            else:
                raise InvalidArgument(
                    f"{name!r} in {self.place} is no file of a backup: expected a place with "
                    "nothing else"
                )
        return files

    async def _read(self, name: str) -> bytes:
        try:
            data = await self.place.read(name)
            return await asyncio.to_thread(checked, name, data)
        except FileNotFoundError:
            raise CorruptRemoteData(f"{name} is missing in {self.place}") from None


class _Format(msgspec.Struct):
    format: int


def _number(name: str) -> int:
    return int(name[:8])


def _backup_name(name: str) -> BackupName:
    """A backup by the name of its file. Raises `ValueError` if it is none."""
    found = _BACKUP.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is the name of no backup")
    made = datetime.strptime(found[2], _TIME).replace(tzinfo=UTC)
    return BackupName(int(found[1]), int(made.timestamp()), name)


def _index_file(index: BackupIndex) -> tuple[str, bytes]:
    """The name of an index, and what is in it."""
    names = tuple(one.name for one in index.backups)
    return f"{index.number:08d}.index", msgspec.json.encode(_StoredIndex(FORMAT, names))


def _left_over(files: _FoundFiles, index: BackupIndex, newest: Backup) -> Iterator[str]:
    assert index.newest is not None, "somebody has published one"
    number = index.newest.number
    needed = {part.name for part in newest.parts} | {one.name for one in index.backups}
    for name in (*files.parts, *(one.name for one in files.backups)):
        if _number(name) <= number and name not in needed:
            yield name
    for name in files.indexes:
        if _number(name) < index.number:
            yield name
    for name in files.unfinished:
        wanted = name_of_unfinished(name) or ""
        last = index.number if _INDEX.fullmatch(wanted) else number
        if not wanted[:8].isdecimal() or _number(wanted) <= last:
            yield name


_pieces = msgspec.msgpack.Decoder(list[BatchPiece])


def _stored_end(log: LogId, end: LogEnd) -> _StoredEnd:
    topic = COORDINATOR.topic_id.decode() if log.is_coordinators else str(Uuid(log.topic_id))
    return _StoredEnd(topic, log.partition, *end[:2], end.chain_hash.hex())


def _log_of(stored: _StoredEnd) -> LogId:
    if stored.log == COORDINATOR.topic_id.decode():
        return COORDINATOR
    return LogId(bytes(Uuid.parse(stored.log)), stored.partition)


def _end_of(stored: _StoredEnd) -> LogEnd:
    return LogEnd(stored.next_batch, stored.next_position, bytes.fromhex(stored.chain_hash))
