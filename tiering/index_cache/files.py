"""The files behind the index cache: one for each segment, with its three indexes.

Rule 1: a file appears under its name complete or not at all; nothing waits for the disk, since
a file that a power cut damaged fails its checksum and is fetched again.
Rule 2: only names of ours are touched. Whatever else lies in the directory stays there.
Rule 3: one cache uses a directory, and holds a lock on it.

A file is `magic, version, segment id, start offset, three lengths, crc32c`, then offset, time
and transaction index in Kafka's own formats. The checksum covers all of it but itself.
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


class SegmentKey(NamedTuple):
    """Which segment a file is for."""

    segment_id: Uuid
    start_offset: int

    @property
    def file_name(self) -> str:
        """As in Kafka's own cache, the start offset comes first."""
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
    """A file from before a restart; whether it is sound is seen when it is read."""

    key: SegmentKey
    size: int


class Found(NamedTuple):
    """What lies in a directory."""

    files: list[KnownFile]
    """The last written last."""
    leftovers: list[Path]
    """Temporary and doomed files of a process that ended before it could remove them."""


def encode(key: SegmentKey, indexes: RawIndexes) -> bytes:
    lengths = map(len, indexes)
    header = _HEADER.pack(MAGIC, FORMAT_VERSION, key.segment_id, key.start_offset, *lengths)
    body = b"".join(indexes)
    return header + _CRC.pack(_checksum(header, body)) + body


def decode(key: SegmentKey, data: bytes) -> RawIndexes:
    """The indexes in `data`, if it is the whole file for `key`.

    Raises:
        CorruptRemoteData: It is not.
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

    def open(self) -> Found:
        """What lies there, once the directory is made and locked.

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
        """Let another cache use the directory; files stay."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def read(self, key: SegmentKey) -> RawIndexes:
        """The indexes of that segment.

        Raises:
            OSError: The file is not there, or cannot be read.
            CorruptRemoteData: It is not what was written.
        """
        return decode(key, (self.path / key.file_name).read_bytes())

    def temporary(self, key: SegmentKey) -> Path:
        """Where `write_temporary` may put a file for `key`; no two are the same."""
        return self._numbered(key.file_name, TEMPORARY_SUFFIX)

    def write_temporary(self, path: Path, key: SegmentKey, indexes: RawIndexes) -> None:
        """Make a complete file under another name; `keep` gives it its own.

        Raises:
            OSError: It could not be written; nothing is left of it.
        """
        try:
            self.write(path, encode(key, indexes))
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def write(self, path: Path, data: bytes) -> None:
        """Make a file; where a test lets the disk be full."""
        path.write_bytes(data)

    def keep(self, temporary: Path, key: SegmentKey) -> None:
        """Give a written file its name, in place of what has it now."""
        temporary.replace(self.path / key.file_name)

    def doom(self, key: SegmentKey) -> Path | None:
        """Take a file's name away; the path to remove, or none if it is gone.

        Raises:
            OSError: It keeps its name.
        """
        doomed = self._numbered(key.file_name, DOOMED_SUFFIX)
        try:
            (self.path / key.file_name).rename(doomed)
        except FileNotFoundError:
            return None
        return doomed

    def remove(self, path: Path) -> None:
        """Remove a file that has no name in the cache any more; silent if it is gone."""
        path.unlink(missing_ok=True)

    def _numbered(self, name: str, suffix: str) -> Path:
        return self.path / f"{name}.{next(self._numbers)}{suffix}"

    def _find(self) -> Found:
        known: list[tuple[int, KnownFile]] = []
        found = Found([], [])
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
        # Leftovers are removed while new files are made: no name may be one of theirs.
        self._numbers = itertools.count(max(numbers) + 1)
        return found


def _leftover_number(name: str) -> int | None:
    matched = _LEFTOVER.fullmatch(name)
    return int(matched[2]) if matched and _key_of(matched[1]) else None


def _key_of(name: str) -> SegmentKey | None:
    if (matched := _NAME.fullmatch(name)) is None:
        return None
    key = SegmentKey(Uuid.parse(matched[2]), int(matched[1]))
    return key if key.file_name == name else None


def _checksum(header: bytes, body: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(header), body))


def _corrupt(key: SegmentKey, expected: str, got: str) -> CorruptRemoteData:
    return CorruptRemoteData(f"cache file {key.file_name}: expected {expected}, got {got}")
