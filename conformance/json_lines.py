"""Files of one JSON object per line, plain or gzipped, and errors that say where."""

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
"""How every gzip file begins; names are not trusted, people rename files."""

SHOWN_CHARACTERS_MAX = 80
"""How much of an unexpected value an error quotes: enough to find it with a search."""

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class JsonLine(NamedTuple):
    """One object of a file, and where it stands, for errors about it."""

    path: Path
    number: int
    fields: dict[str, Any]

    def integer(self, name: str, *, low: int, high: int) -> int:
        """The whole number in field `name`; refused outside of `low` to `high`."""
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
        """The value of a field that has to be there, possibly null."""
        if name not in self.fields:
            raise self.error(f"expected a field {name!r}, found {sorted(self.fields)}")
        return self.fields[name]

    def wrong(self, name: str, expected: str, found: object) -> MetadataParseError:
        """An error that says what `name` should have been."""
        return self.error(f"expected {name!r} to be {expected}, found {_shown(found)}")

    def error(self, what: str) -> MetadataParseError:
        """An error about this line, to be raised by the caller."""
        return MetadataParseError(f"{self.path}, line {self.number}: {what}")


def read_json_lines(path: Path) -> Iterator[JsonLine]:
    """Yield the objects of a file in its order; the next one is read when asked for.

    Raises:
        InvalidArgument: The file cannot be read at all.
        MetadataParseError: A line is not a JSON object, or the file ends within its gzip
            stream. The lines before it have been yielded.
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
    # RecursionError: brackets nested a thousand deep are as wrong as any other line.
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
