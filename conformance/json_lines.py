"""Reads files of one JSON object per line, plain or gzipped; errors name file and line."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from tierledger.events.errors import InvalidArgument, MetadataParseError

GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of a gzip file; the file's name is not trusted."""

SHOWN_CHARACTERS_MAX = 80
"""Most characters of an unexpected value that an error quotes: enough to search for it."""

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class JsonLine(NamedTuple):
    """One object of a file, with its path and line for errors."""

    path: Path
    number: int
    fields: dict[str, Any]

    def integer(self, name: str, *, low: int, high: int) -> int:
        """The integer in field `name`, which must be from `low` to `high`."""
        value = self.field(name)
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(name, f"a whole number from {low} to {high}", value)
        return value

    def text(self, name: str) -> str:
        """The string in field `name`."""
        value = self.field(name)
        if not isinstance(value, str):
            raise self.wrong(name, "a string", value)
        return value

    def field(self, name: str) -> object:
        """The value of a field that must exist; it may be null."""
        if name not in self.fields:
            raise self.error(f"expected a field {name!r}, found {sorted(self.fields)}")
        return self.fields[name]

    def wrong(self, name: str, expected: str, found: object) -> MetadataParseError:
        """An error about the value of the field `name`."""
        return self.error(f"expected {name!r} to be {expected}, found {_shown(found)}")

    def error(self, what: str) -> MetadataParseError:
        """An error about this line, to be raised by the caller."""
        return MetadataParseError(f"{self.path}, line {self.number}: {what}")


def read_json_lines(path: Path) -> Iterator[JsonLine]:
    """The objects of a file in its order, read lazily.

    Raises:
        InvalidArgument: The file cannot be read.
        MetadataParseError: A line is not a JSON object, or the file ends within its gzip
            stream. The lines before it were yielded.
    """
    with _opened(path) as lines:
        number = 0
        while True:
            try:
                line = lines.readline()
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise MetadataParseError(
                    f"{path}, after line {number}: expected a whole gzip stream, found it "
                    f"torn or damaged ({error})"
                ) from error
            except OSError as error:
                raise InvalidArgument(f"cannot read {path}: {error.strerror}") from error
            if not line:
                return
            number += 1
            yield JsonLine(path, number, _parsed(path, number, line))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        raw = path.open("rb")
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}") from error
    with raw:
        if raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
            with gzip.GzipFile(fileobj=raw) as unzipped:
                yield cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", unzipped)))
        else:
            yield raw


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    # RecursionError: a line with brackets nested a thousand deep is refused like any other.
    except (ValueError, RecursionError) as error:
        raise MetadataParseError(
            f"{path}, line {number}: expected a JSON object, found {_shown(line)} ({error})"
        ) from error
    if not isinstance(parsed, dict):
        raise MetadataParseError(
            f"{path}, line {number}: expected a JSON object, found {_shown(parsed)}"
        )
    return parsed


def _shown(value: object) -> str:
    shown = repr(value)
    if len(shown) <= SHOWN_CHARACTERS_MAX:
        return shown
    return f"{shown[:SHOWN_CHARACTERS_MAX]}… ({len(shown)} characters)"
