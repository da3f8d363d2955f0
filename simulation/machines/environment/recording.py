"""The recording of a run: marks, a trace that is hashed, and a picture's contents if wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from typing import Any

import msgpack

from tierledger.simulation.checkers.content import content, partition_of
from tierledger.simulation.machines.environment.clockwork import Clockwork, ProcessLife
from tierledger.simulation.machines.environment.marks import MARKS

Slot = tuple[int, int]
"""The numbers of a partition and of a batch, in place of a real store's key."""

_FIRST_NUMBER_IS_PARTITION = {"take_ready", "reported_ready"}
"""Messages whose first number is the partition's."""

STORE = "store"
"""The store's lane."""


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
        self.arrows: list[tuple[int, str, str, int | None, str, str, int | None]] = []
        """Sent (us), sender, receiver, received (us; None: lost), kind, content, partition."""
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
        self,
        source: ProcessLife,
        target: ProcessLife,
        call: Callable[..., None],
        arrives: int,
        args: Sequence[Any] = (),
    ) -> None:
        now, what = self._clock.now, call.__name__
        self._trace.append((now, source.name, target.name, what, arrives))
        if self.keeps:
            self._arrow(source.name, target.name, arrives, what, args)

    def lost(
        self,
        source: ProcessLife,
        target: ProcessLife,
        call: Callable[..., None],
        args: Sequence[Any] = (),
    ) -> None:
        now, what = self._clock.now, call.__name__
        self._trace.append((now, source.name, target.name, what))
        if self.keeps:
            self._arrow(source.name, target.name, None, what, args)

    def fed(
        self,
        source: ProcessLife,
        target: ProcessLife,
        call: Callable[..., None],
        arrives: int | None,
        args: Sequence[Any],
    ) -> None:
        """A message between a replica and its source, for the picture."""
        if self.keeps:
            what = f"feed {call.__name__.strip('_')}"
            self._arrow(source.name, target.name, arrives, what, args)

    def _arrow(
        self, source: str, target: str, arrives: int | None, what: str, args: Sequence[Any]
    ) -> None:
        partition = partition_of(args)
        if what in _FIRST_NUMBER_IS_PARTITION:
            partition = next(one for one in args if isinstance(one, int))
        now = self._clock.now
        self.arrows.append((now, source, target, arrives, what, content(args), partition))

    def asked(
        self,
        life: ProcessLife,
        arrives: int | None,
        apply: Callable[..., Any],
        args: Sequence[Any] = (),
    ) -> None:
        """A request to the store, for the picture."""
        slots = _slots(apply, args)
        text = ", ".join(map(_slot_text, slots)) or content(args)
        now, partition = self._clock.now, _partition_of(slots)
        self.arrows.append((now, life.name, STORE, arrives, _request(apply), text, partition))

    def answered(
        self,
        life: ProcessLife,
        delay: int | None,
        apply: Callable[..., Any],
        args: Sequence[Any],
        result: object,
    ) -> None:
        """The store's answer, or that it is lost, for the picture."""
        now, what = self._clock.now, f"{_request(apply)} done"
        arrives = None if delay is None else now + delay
        text, partition = content((result,)), _partition_of(_slots(apply, args))
        self.arrows.append((now, STORE, life.name, arrives, what, text, partition))

    def created(self, life: ProcessLife, slot: Slot, is_free: bool) -> None:
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
        """A hash of the trace: the same seed gives the same one on every machine."""
        return blake2b(msgpack.packb(self._trace), digest_size=16).hexdigest()


def _request(apply: Callable[..., Any]) -> str:
    """The name of a request to the store, as text."""
    name: str = getattr(apply, "__name__", "read_state")
    return name.strip("_").replace("_", " ")


def _slots(apply: Callable[..., Any], args: Sequence[Any]) -> list[Slot]:
    """The slots that a request to the store is about."""
    match _request(apply):
        case "create":
            return [slot for slot, _ in args[1]]
        case "read slots":
            return list(args[0])
        case "read log":
            return [args[0]]
        case _:
            return []


def _slot_text(slot: Slot) -> str:
    partition, batch = slot
    return f"{f'partition {partition}' if partition >= 0 else 'coordinator'} batch {batch}"


def _partition_of(slots: Sequence[Slot]) -> int | None:
    named = {partition for partition, _ in slots}
    return max(named) if len(named) == 1 and min(named) >= 0 else None
