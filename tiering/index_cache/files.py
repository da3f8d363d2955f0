"""The files behind the index cache: one for each segment, with its three indexes.

Rule 1: a file appears under its name complete or not at all. There is no fsync: a file that a
power cut damaged fails its checksum, and its indexes are fetched again.
Rule 2: only files with the cache's own names are touched; all others stay as they are.
Rule 3: only one cache uses a directory, and holds a lock on it.

A file is `magic, version, segment id, start offset, three lengths, crc32c`, then offset, time
and transaction index in Kafka's own formats. The checksum covers everything but itself.
"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

import google_crc32c

from tierledger.events.errors import CorruptRemoteData, StoreRefused
from tierledger.events.identifiers import Uuid
from tierledger.storage.backends.sqlite.file import WriterLock

MAGIC: Final = b"tlix"
FORMAT_VERSION: Final = 1
SUFFIX: Final = ".indexes"
TEMPORARY_SUFFIX: Final = ".tmp"
DOOMED_SUFFIX: Final = ".deleted"
LOCK_NAME: Final = "index-cache"

_HEADER = Struct(">4sH16sq3I")
_CRC = Struct(">I")
HEADER_SIZE: Final = _HEADER.size + _CRC.size

_NAME = re.compile(r"(\d{1,19})_([A-Za-z0-9_-]{22})\.indexes", re.ASCII)
_LEFTOVER = re.compile(r"(.+)\.(\d{1,19})\.(?:tmp|deleted)", re.ASCII)


class CacheKey(NamedTuple):
    """The segment that a file belongs to."""

    segment_id: Uuid
    start_offset: int

    @property
    def file_name(self) -> str:
        """The file's name: start offset first, as in Kafka's own cache, then segment id."""
        return f"{self.start_offset}_{self.segment_id}{SUFFIX}"


class RawIndexes(NamedTuple):
    """Offset, time and transaction index in Kafka's formats."""

    offset: bytes
    time: bytes
    transaction: bytes

    @property
    def file_size(self) -> int:
        return HEADER_SIZE + sum(map(len, self))


class KnownFile(NamedTuple):
    """A file from before a restart. Its checksum is verified only when it is read."""

    key: CacheKey
    size: int


class CacheFiles(NamedTuple):
    """What a directory holds."""

    files: list[KnownFile]
    """By time of writing, ascending."""
    leftovers: list[Path]
    """Temporary and doomed files of a process that ended before it could remove them."""


def encode(key: CacheKey, indexes: RawIndexes) -> bytes:
    lengths = map(len, indexes)
    header = _HEADER.pack(MAGIC, FORMAT_VERSION, key.segment_id, key.start_offset, *lengths)
    body = b"".join(indexes)
    return header + _CRC.pack(_checksum(header, body)) + body


def decode(key: CacheKey, data: bytes) -> RawIndexes:
    """The indexes in `data`, the content of the file for `key`.

    Raises:
        CorruptRemoteData: It is not the whole, undamaged file for `key`.
    """
    if len(data) < HEADER_SIZE:
        raise _corrupt(key, f"{HEADER_SIZE} bytes or more", f"{len(data)}")
    magic, version, segment_id, start_offset, *lengths = _HEADER.unpack_from(data)
    if (magic, version) != (MAGIC, FORMAT_VERSION):
        raise _corrupt(key, f"{MAGIC!r}, version {FORMAT_VERSION}", f"{magic!r}, {version}")
    if segment_id != key.segment_id or start_offset != key.start_offset:
        raise _corrupt(key, "that segment", f"{Uuid(segment_id)} from offset {start_offset}")
    if len(data) != HEADER_SIZE + sum(lengths):
        raise _corrupt(key, f"{HEADER_SIZE + sum(lengths)} bytes", f"{len(data)}")
    body = data[HEADER_SIZE:]
    (crc,) = _CRC.unpack_from(data, _HEADER.size)
    actual = _checksum(data[: _HEADER.size], body)
    if crc != actual:
        raise _corrupt(key, f"a checksum of {crc:#010x}", f"{actual:#010x}")
    first, second, _ = itertools.accumulate(lengths)
    return RawIndexes(body[:first], body[first:second], body[second:])


class CacheDirectory:
    """The directory of one cache. Methods block; those that rename take microseconds."""

    def __init__(self, path: Path) -> None:
        """Use `path`, from `open` on."""
        self.path = path
        self._lock: WriterLock | None = None
        self._numbers = itertools.count()

    def open(self) -> CacheFiles:
        """Make and lock the directory; return what it holds.

        Raises:
            StoreRefused: Another cache uses it, or it cannot be made, locked or listed.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self._lock is None:
                self._lock = WriterLock.acquire(self.path / LOCK_NAME)
            return self._find()
        except StoreRefused as error:
            raise StoreRefused(
                f"{error}; an index cache needs a directory of its own"
            ) from error
        except OSError as error:
            self.release()
            raise StoreRefused(
                f"index cache directory {self.path} cannot be used: {error}"
            ) from error

    def release(self) -> None:
        """Release the lock, so that another cache may use the directory; files stay."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read(self, key: CacheKey) -> RawIndexes:
        """The indexes of the segment `key`.

        Raises:
            OSError: The file is not there, or cannot be read.
            CorruptRemoteData: The file is damaged.
        """
        return decode(key, (self.path / key.file_name).read_bytes())

    def temporary(self, key: CacheKey) -> Path:
        """A new, unique path to which `write_temporary` may write the file of `key`."""
        return self._numbered(key.file_name, TEMPORARY_SUFFIX)

    def write_temporary(self, path: Path, key: CacheKey, indexes: RawIndexes) -> None:
        """Write the complete file of `key` to `path`; `keep` gives it its final name.

        Raises:
            OSError: The file could not be written, and was removed.
        """
        try:
            self.write(path, encode(key, indexes))
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def write(self, path: Path, data: bytes) -> None:
        """Write a file; tests override this to simulate a full disk."""
        path.write_bytes(data)

    def keep(self, temporary: Path, key: CacheKey) -> None:
        """Give a written file its final name; it replaces a file that has the name now."""
        temporary.replace(self.path / key.file_name)

    def doom(self, key: CacheKey) -> Path | None:
        """Rename the file of `key`; the path to remove, or none if there is no such file.

        Raises:
            OSError: The file could not be renamed.
        """
        doomed = self._numbered(key.file_name, DOOMED_SUFFIX)
        try:
            (self.path / key.file_name).rename(doomed)
        except FileNotFoundError:
            return None
        return doomed

    def remove(self, path: Path) -> None:
        """Remove a temporary or doomed file; one that is gone already is ignored."""
        path.unlink(missing_ok=True)

    def _numbered(self, name: str, suffix: str) -> Path:
        return self.path / f"{name}.{next(self._numbers)}{suffix}"

    def _find(self) -> CacheFiles:
        known: list[tuple[int, KnownFile]] = []
        found = CacheFiles([], [])
        numbers = [-1]
        with os.scandir(self.path) as entries:
            for entry in entries:
                if (number := _leftover_number(entry.name)) is not None:
                    numbers.append(number)
                    if entry.is_file(follow_symlinks=False):
                        found.leftovers.append(Path(entry.path))
                elif (key := _key_of(entry.name)) and entry.is_file(follow_symlinks=False):
                    stat = entry.stat(follow_symlinks=False)
                    known.append((stat.st_mtime_ns, KnownFile(key, stat.st_size)))
        found.files.extend(file for _, file in sorted(known))
        # Leftovers are removed while new files are written, so their names must differ.
        self._numbers = itertools.count(max(numbers) + 1)
        return found


def _leftover_number(name: str) -> int | None:
    matched = _LEFTOVER.fullmatch(name)
    return int(matched[2]) if matched and _key_of(matched[1]) else None


def _key_of(name: str) -> CacheKey | None:
    if (matched := _NAME.fullmatch(name)) is None:
        return None
    key = CacheKey(Uuid.parse(matched[2]), int(matched[1]))
    return key if key.file_name == name else None


def _checksum(header: bytes, body: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(header), body))


def _corrupt(key: CacheKey, expected: str, got: str) -> CorruptRemoteData:
    return CorruptRemoteData(f"cache file {key.file_name}: expected {expected}, got {got}")
