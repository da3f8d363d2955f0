"""What is in the files of backups.

    00000007-DIGEST.part                      batches of logs, as they are stored
    00000003-20261129T060000Z-DIGEST.backup   the parts of a backup, and where its logs end

A part has what was new when it was written, and belongs to that backup and all later ones.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from tierledger.events.errors import (
    CorruptRemoteData,
    FormatTooNew,
    InvalidArgument,
    RemoteResourceNotFound,
)
from tierledger.events.identifiers import Uuid
from tierledger.events.typed_fields import time_text
from tierledger.storage.backup.place import BackupPlace, checked, digest
from tierledger.storage.transfer.logs import COORDINATOR, BatchPiece, LogEnd, LogId

FORMAT = 1

_PART = re.compile(r"(\d{8})-[0-9a-f]{32}\.part", re.ASCII)
_BACKUP = re.compile(r"(\d{8})-(\d{8}T\d{6}Z)-[0-9a-f]{32}\.backup", re.ASCII)
_TIME = "%Y%m%dT%H%M%SZ"


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


class BackupFiles:
    """The backups at one place."""

    def __init__(self, place: BackupPlace) -> None:
        self.place = place

    async def backups(self) -> list[BackupName]:
        """All backups, oldest first.

        Raises:
            InvalidArgument: There is no such place, or something else is there.
        """
        return (await self._names())[0]

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

    async def pieces(self, part: PartOfBackup) -> list[BatchPiece]:
        """The batches in a part.

        Raises:
            CorruptRemoteData: The file is missing, damaged, or none of ours.
        """
        data = await self._read(part.name)
        try:
            return _pieces.decode(data)
        except msgspec.MsgspecError as error:
            raise CorruptRemoteData(f"{part.name} has no batches: {error}") from error

    async def write_part(self, number: int, pieces: list[BatchPiece]) -> PartOfBackup:
        data = msgspec.msgpack.encode(pieces)
        name = f"{number:08d}-{digest(data)}.part"
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

    async def parts(self) -> list[str]:
        """The names of all parts, in the order in which they were written."""
        return (await self._names())[1]

    async def _names(self) -> tuple[list[BackupName], list[str]]:
        backups, parts = list[BackupName](), list[str]()
        for name in await self.place.names():
            if _PART.fullmatch(name):
                parts.append(name)
            elif found := _BACKUP.fullmatch(name):
                made = datetime.strptime(found[2], _TIME).replace(tzinfo=UTC)
                backups.append(BackupName(int(found[1]), int(made.timestamp()), name))
            else:
                raise InvalidArgument(
                    f"{name!r} in {self.place} is no file of a backup: expected a folder with "
                    "nothing else"
                )
        return backups, parts

    async def _read(self, name: str) -> bytes:
        try:
            return checked(name, await self.place.read(name))
        except FileNotFoundError:
            raise CorruptRemoteData(f"{name} is missing in {self.place}") from None


def part_number(name: str) -> int:
    """The number of a part, by its name."""
    return int(name[:8])


class _Format(msgspec.Struct):
    format: int


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
