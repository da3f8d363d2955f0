"""What is written down of a run: marks, a trace that is hashed, a timeline if asked for."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgpack

from tierledger.actors.calls import PartitionKey
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.machines.marks import MARKS
from tierledger.simulation.machines.pending import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tierledger.simulation.machines.clockwork import Clockwork, Life
    from tierledger.simulation.machines.medium import Slot


SHORT = 20
"""Bytes that are ids or hashes; longer ones are content of their own."""

DIGITS = 8
"""Of an id or hash so many are shown, as in what checkers say."""

STORE = "store"
"""The store's lane."""


class Recording:
    """Of one world. `keeps`: also everything that its picture needs."""

    def __init__(self, clock: Clockwork, *, keeps: bool = False) -> None:
        self.marks: dict[str, int] = {}
        """How often each rare situation, or fault, came about."""
        self.keeps = keeps
        self.moments: list[tuple[int, str, str, str, int | None, int | None]] = []
        """Time, lane, what, detail, session, partition."""
        self.arrows: list[tuple[int, str, str, int | None, str, str]] = []
        """Sent, from, to, received or lost, what, and its content."""
        self._clock = clock
        self._trace: list[tuple[Any, ...]] = []

    def mark(self, what: str) -> None:
        """Count a rare situation; each is declared in `marks`."""
        if what not in MARKS:
            raise KeyError(f"the mark {what!r} is not declared")
        self.marks[what] = self.marks.get(what, 0) + 1

    def message(
        self,
        source: Life,
        target: Life,
        call: Callable[..., None],
        arrives: int,
        args: Sequence[Any] = (),
    ) -> None:
        now, what = self._clock.now, call.__name__
        self._trace.append((now, source.name, target.name, what, arrives))
        if self.keeps:
            self.arrows.append((now, source.name, target.name, arrives, what, content(args)))

    def lost(
        self, source: Life, target: Life, call: Callable[..., None], args: Sequence[Any] = ()
    ) -> None:
        now, what = self._clock.now, call.__name__
        self._trace.append((now, source.name, target.name, what))
        if self.keeps:
            self.arrows.append((now, source.name, target.name, None, what, content(args)))

    def asked(
        self,
        life: Life,
        arrives: int | None,
        apply: Callable[..., Any],
        args: Sequence[Any] = (),
    ) -> None:
        """A request to the store, for the picture."""
        what = _request(apply)
        self.arrows.append((self._clock.now, life.name, STORE, arrives, what, content(args)))

    def answered(
        self, life: Life, delay: int | None, apply: Callable[..., Any], result: object
    ) -> None:
        """The store's answer, or that it is lost, for the picture."""
        now, what = self._clock.now, f"{_request(apply)} done"
        arrives = None if delay is None else now + delay
        self.arrows.append((now, STORE, life.name, arrives, what, content((result,))))

    def created(self, life: Life, slot: Slot, is_free: bool) -> None:
        self._trace.append((self._clock.now, life.name, *slot, is_free))
        if self.keeps:
            what = "append" if is_free else "append refused"
            partition = slot[0] if slot[0] >= 0 else None
            self.moment(life.name, what, f"batch {slot[1]}", None, partition)

    def event(self, what: str, *details: object) -> None:
        """Note something for the hash; details are text or numbers."""
        self._trace.append((self._clock.now, what, *details))

    def moment(
        self,
        lane: str,
        what: str,
        detail: str = "",
        session: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Note something for the picture."""
        if self.keeps:
            self.moments.append((self._clock.now, lane, what, detail, session, partition))

    def digest(self) -> str:
        """The run as one number: the same seed gives the same number, everywhere."""
        return blake2b(msgpack.packb(self._trace), digest_size=16).hexdigest()


CONTENT_MAX = 400
"""Characters of a message's content that are shown."""


def content(args: Sequence[Any]) -> str:
    """What a message says, as people read it."""
    text = "; ".join(said for one in args if (said := _said(one)))
    return text if len(text) <= CONTENT_MAX else f"{text[:CONTENT_MAX]}..."


def _said(value: Any) -> str:  # noqa: ANN401 - Whatever is sent.
    """One part of a message: of processes nothing, of calls their number."""
    if isinstance(value, Op):
        return f"call {value.number}"
    if isinstance(value, bytes):
        return _bytes_text(value)
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, TopicIdPartition | PartitionKey):
        return str(value.partition)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        given = zip(value._fields, value, strict=True)
        said = (f"{name}={_said(one)}" for name, one in given if one not in (None, ()))
        return f"{type(value).__name__}({', '.join(said)})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_said, value))}]"
    if is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in fields(value)]
        said = (
            f"{name}={_said(one)}"
            for name in names
            if (one := getattr(value, name)) is not None
        )
        return f"{type(value).__name__}({', '.join(said)})"
    if value is None or isinstance(value, str | int | float | Enum):
        return str(value)
    return ""


def _bytes_text(value: bytes) -> str:
    """Requests are text; of a topic's id the zeros before it say nothing."""
    if len(value) > SHORT:
        return f"{len(value)} bytes"
    if value.isascii() and (text := value.decode()).isprintable():
        return text
    return (value.hex().lstrip("0") if value.startswith(b"\0\0") else value.hex())[:DIGITS]


def _request(apply: Callable[..., Any]) -> str:
    """What the store is asked, as people read it."""
    name: str = getattr(apply, "__name__", "read_state")
    return name.strip("_").replace("_", " ")
