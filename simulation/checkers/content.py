"""Values as text for people, in pages and in checkers' messages.

Both write the same value in the same way, so that it can be searched for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from tierledger.actors.calls import Answered, PartitionKey
from tierledger.actors.feed.frames import Contents
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.checkers.answer_text import answer_text

SHORT = 20
"""Up to so many bytes are an id or a hash; of longer values only the length is shown."""

DIGITS = 8
"""How many digits of an id or hash are shown."""

CONTENT_MAX = 400
"""Characters of a message's content that are shown."""


def content(args: Sequence[Any]) -> str:
    """A message's arguments as text, at most about `CONTENT_MAX` characters."""
    text = "; ".join(part for one in args if (part := _text(one)))
    return text if len(text) <= CONTENT_MAX else f"{text[:CONTENT_MAX]}..."


def _text(value: Any) -> str:  # noqa: ANN401 - Whatever is sent.
    """One argument as text; empty for processes and whatever else has no text."""
    own = _own_text(value)
    if own is not None:
        return own
    if isinstance(value, bytes):
        return _bytes_text(value)
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, TopicIdPartition | PartitionKey):
        return str(value.partition)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        given = zip(value._fields, value, strict=True)
        parts = (f"{name}={_text(one)}" for name, one in given if one not in (None, ()))
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, list | tuple | set | frozenset):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(one)}: {_text(value[one])}' for one in value)}}}"
    if isinstance(value, Struct):
        names = value.__struct_fields__
        parts = (
            f"{name}={_text(one)}"
            for name in names
            if (one := getattr(value, name)) is not None
        )
        return f"{type(value).__name__}({', '.join(parts)})"
    if value is None or isinstance(value, str | int | float | Enum):
        return str(value)
    return ""


def _own_text(value: Any) -> str | None:  # noqa: ANN401
    """The text of values that have one of their own (`short_text`), or hold rows; else none."""
    if isinstance(value, Answered) and not value.cursor:
        stale = ", stale" if value.stale else ""
        return f"{answer_text(value.value)} at position {value.position}{stale}"
    if isinstance(value, Contents) and value.rows:
        return f"{_text(value._replace(rows=()))} with {answer_text(list(value.rows))}"
    own = getattr(value, "short_text", None)
    return own if isinstance(own, str) else None


def _bytes_text(value: bytes) -> str:
    """Printable bytes (request ids) as text; else hex, without a topic id's leading zeros."""
    if len(value) > SHORT:
        return f"{len(value)} bytes"
    if value.isascii() and (text := value.decode()).isprintable():
        return text
    return (value.hex().lstrip("0") if value.startswith(b"\0\0") else value.hex())[:DIGITS]


def partition_of(args: Sequence[Any]) -> int | None:
    """The partition that a message names; none if it names several or none."""
    named = set(_partitions(args))
    return named.pop() if len(named) == 1 else None


def _partitions(value: Any) -> Iterator[int]:  # noqa: ANN401 - Whatever is sent.
    if isinstance(value, TopicIdPartition | PartitionKey) or hasattr(value, "short_text"):
        yield value.partition
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _partitions(one)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _partitions(getattr(value, name))


def first_difference(found: Any, expected: Any) -> str:  # noqa: ANN401 - Any two values.
    """Where two unequal values first differ, and what each of them has there."""
    where, one, other = _apart(found, expected)
    return f"{where}{' ' if where else ''}{_shown(one)}; expected {_shown(other)}"


NOTHING = object()
"""Stands for an item behind a list's end."""

SHOWN_MAX = 300
"""Characters that are shown of a value that differs."""


def _shown(value: Any) -> str:  # noqa: ANN401
    text = "nothing" if value is NOTHING else _text(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _apart(found: Any, expected: Any) -> tuple[str, Any, Any]:  # noqa: ANN401
    """The path to the first difference, and both values there."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in (*expected, *found):
            one, other = found.get(key, NOTHING), expected.get(key, NOTHING)
            if one != other:
                return f"of {_text(key)}", one, other
    if type(found) is not type(expected) or not isinstance(found, list | tuple):
        return "", found, expected
    pairs = zip_longest(found, expected, fillvalue=NOTHING)
    at, one, other = next((at, *pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
    names = getattr(found, "_fields", None)
    where, one, other = _apart(one, other)
    if names is None:
        return where, one, other
    return f"{names[at]}{'.' if where else ''}{where}", one, other
