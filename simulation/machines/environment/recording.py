"""The recording of a run: marks, a trace that is hashed, and a picture's contents if wanted."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgpack

from tierledger.actors.calls import CommandCall
from tierledger.simulation.checkers.content import content, partition_of
from tierledger.simulation.machines.environment.clockwork import Clockwork, ProcessLife
from tierledger.simulation.machines.environment.marks import MARKS

Slot = tuple[int, int]
"""The numbers of a partition and of a batch, in place of a real store's key."""

STORE = "store"
"""The store's lane."""


class Message(NamedTuple):
    """A message as the picture shows it."""

    what: str
    about: Sequence[Any] = ()
    """Its content; see `content`."""
    partition: int | None = None
    """None: the one that the content names."""


class DrawnMessage(NamedTuple):
    """A message in the picture, from its sender to its receiver."""

    sent: int
    source: str
    target: str
    arrives: int | None
    """None: it is lost."""
    what: str
    text: str
    partition: int | None


def request_message(request: object, call: str | None) -> Message:
    """A request under the name of its class; `call`: which of the history's calls it is for."""
    name = type(request).__name__.removesuffix("Call")
    content = request.command if isinstance(request, CommandCall) else request
    about = [one for one in (call, content) if one is not None]
    what = re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()
    return Message(what, about, partition_of((request,)))


class Recording:
    """The recording of one world. `keeps`: it also holds all that a picture needs."""

    def __init__(
        self, clock: Clockwork, *, keeps: bool = False, further: Collection[str] = ()
    ) -> None:
        """`further`: marks that only this world may set, besides those in `marks`."""
        self.marks: dict[str, int] = {}
        """How often each rare situation, or fault, came about."""
        self.keeps = keeps
        self.moments: list[tuple[int, str, str, str, int | None, int | None]] = []
        """Time, lane, what, detail, session, partition."""
        self.arrows: list[DrawnMessage] = []
        self._clock = clock
        self._further = further
        self._trace: list[tuple[Any, ...]] = []

    def mark(self, what: str) -> None:
        """Count a rare situation.

        Raises:
            KeyError: `what` is declared neither in `marks` nor by `further`.
        """
        if what not in MARKS and what not in self._further:
            raise KeyError(f"the mark {what!r} is not declared")
        self.marks[what] = self.marks.get(what, 0) + 1

    def message(
        self, source: ProcessLife, target: ProcessLife, message: Message, arrives: int
    ) -> None:
        self._trace.append((self._clock.now, source.name, target.name, message.what, arrives))
        if self.keeps:
            self.arrow(source.name, target.name, arrives, message)

    def lost(self, source: ProcessLife, target: ProcessLife, message: Message) -> None:
        self._trace.append((self._clock.now, source.name, target.name, message.what))
        if self.keeps:
            self.arrow(source.name, target.name, None, message)

    def arrow(self, source: str, target: str, arrives: int | None, message: Message) -> int:
        """Note a message for the picture; returns its number."""
        what, about, partition = message
        if partition is None:
            partition = partition_of(about)
        now, text = self._clock.now, content(about)
        self.arrows.append(DrawnMessage(now, source, target, arrives, what, text, partition))
        return len(self.arrows) - 1

    def never_arrives(self, arrow: int) -> None:
        """Note that a message is lost that was noted as one that arrives."""
        self.arrows[arrow] = self.arrows[arrow]._replace(arrives=None)

    def asked(self, life: ProcessLife, arrives: int | None, request: Message) -> None:
        """Note a request to the store for the picture."""
        if self.keeps:
            self.arrow(life.name, STORE, arrives, request)

    def answered(
        self, life: ProcessLife, delay: int | None, request: Message, result: object
    ) -> None:
        """Note the store's answer for the picture; it is lost without a `delay`."""
        if self.keeps:
            what, _, partition = request
            arrives = None if delay is None else self._clock.now + delay
            told = Message(f"{what} done", (result,), partition)
            self.arrow(STORE, life.name, arrives, told)

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
        """A hash of the trace: the same seed gives the same one on every machine."""
        return blake2b(msgpack.packb(self._trace), digest_size=16).hexdigest()
