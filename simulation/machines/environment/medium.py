"""The store that all processes share, with all faults that real stores have shown.

A request travels, is applied at one instant, and its answer travels back. `truth` keeps every
log as it was written; the bytes that readers get may have been damaged since.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from sortedcontainers import SortedDict

from tierledger.events.errors import (
    OutcomeUnknown,
    RemoteStorageError,
    StorageUnavailable,
)
from tierledger.simulation.machines.environment.clockwork import MS, Clockwork, ProcessLife
from tierledger.simulation.machines.environment.recording import (
    Message,
    Recording,
    Slot,
)
from tierledger.simulation.machines.environment.wires import Wires
from tierledger.storage.backend import Operation, Remove
from tierledger.storage.backends.memory import MemoryBackend

T = TypeVar("T")

COORDINATOR = -1
"""Stands for a partition's number in the slots of the coordinator's log."""

REFUSE, LOSE, LOSE_ANSWER, LATE, TWICE, FALSE_EXISTS, SLOW, SLOW_ANSWER = range(8)
"""The fates of a request. `REFUSE`, `SLOW` and `SLOW_ANSWER` are for all requests, and the
others for writes."""

FATES = (
    "store refused",
    "write lost",
    "answer of a write lost",
    "write landed late",
    "write sent twice",
    "conflict that is none",
    "store slow",
    "answer slow",
)
"""The mark of each fate."""

TIMEOUT = 300 * MS
"""How long a connection waits for an answer before the outcome is unknown."""


class StoreStep(NamedTuple):
    """A request to the store: its work, which is done at one instant."""

    work: Callable[[], Coroutine[Any, Any, Any]]
    message: Message
    """As the picture shows it."""


class Medium:
    """The content of a store, and the requests that are on their way to it."""

    def __init__(self, clock: Clockwork, wires: Wires, recording: Recording) -> None:
        self.truth: dict[Slot, bytes] = {}
        self.durable_at: dict[Slot, int] = {}
        """When each slot became durable (us)."""
        self.state: SortedDict[str, bytes] = SortedDict()
        self.backend = MemoryBackend(self.state)
        self.checkpoints: dict[str, list[tuple[int, bytes]]] = {}
        """By the key of a partition's checkpoints, when (us) each value was written."""
        self.heads: dict[int, int] = {}
        """By partition, the number of its next batch."""
        self.away_until = 0
        self.mistreated: list[tuple[str, int, int]] = []
        """The site of each request that met a fault, when (us), and until when it may last."""
        self.on_created: Callable[[ProcessLife], None] | None = None
        """Called when new slots are durable, before their sender can get the answer."""
        self._clock = clock
        self._wires = wires
        self._recording = recording
        self._armed: dict[str, list[tuple[int, int, bool]]] = {}
        self._cut_off: dict[str, tuple[int, int]] = {}
        """By site, until when (us) it cannot reach the store, and the fate of its writes."""

    def heal(self) -> None:
        self._armed.clear()
        self._cut_off.clear()
        self.away_until = 0

    def cut_off(self, site: str, until: int, fate: int) -> None:
        """Refuse reads of `site` until then (us), and let its writes suffer `fate`."""
        self._cut_off[site] = (until, fate)

    def arm(self, site: str, fate: int, given: int, *, of_writes: bool = False) -> None:
        """Let the next fitting request of `site` suffer `fate`; `given`: how late it is (us).

        `of_writes`: only a write fits.
        """
        self._armed.setdefault(site, []).append((fate, given, of_writes))

    def cut_power(self, keeps: int) -> None:
        """Lose some of the requests under way: those whose bit in `keeps` is not set."""
        kept, lost = [], 0
        for entry in self._clock.heap:
            if entry[3] == self._apply:
                keeps, keep = keeps >> 1, keeps & 1
                if not keep:
                    lost += 1
                    continue
            kept.append(entry)
        if lost:
            self._recording.mark("write lost in a power cut")
            self._clock.heap[:] = sorted(kept)

    async def write_checkpoint(self, operations: Sequence[Operation]) -> None:
        """Carry out all `operations` at one instant, or none of them."""
        await self.backend.execute_atomically(operations)
        guard = operations[0]
        if not isinstance(guard, Remove):
            written = self.checkpoints.setdefault(guard.key, [])
            written.append((self._clock.now, guard.value))

    # Fates of requests.

    def _take_fate(self, life: ProcessLife, *, writes: bool) -> Any:  # noqa: ANN401
        armed = self._armed.get(life.site)
        if not armed:
            return None
        for at, (fate, given, of_writes) in enumerate(armed):
            if writes or (fate in (REFUSE, SLOW, SLOW_ANSWER) and not of_writes):
                del armed[at]
                return (fate, given)
        return None

    def ask(
        self,
        life: ProcessLife,
        step: StoreStep,
        then: Callable[..., None],
        *given: Any,  # noqa: ANN401
        writes: bool,
        conflict: object = None,
    ) -> None:
        """Carry out `step`; `then` is called with its result, or an error, and `given`.

        `conflict`: a result that says, truly or not, that another write was first.
        """
        clock = self._clock
        arrives = clock.now + self._wires.delay(life, 41)
        if self._armed or self._cut_off or clock.now < self.away_until:
            if clock.now < self.away_until:
                fate: Any = (REFUSE, 0)
            elif clock.now < self._cut_off.get(life.site, (0, 0))[0]:
                fate = (self._cut_off[life.site][1] if writes else REFUSE, 0)
            else:
                fate = self._take_fate(life, writes=writes)
            if fate is not None:
                self._recording.mark(FATES[fate[0]])
                self.mistreated.append((life.site, clock.now, arrives + fate[1] + TIMEOUT))
                self._recording.asked(life, _lands(fate, arrives), step.message)
                self._mistreat(fate, life, arrives, step, then, given, conflict)
                return
        self._recording.asked(life, arrives, step.message)
        clock.at(arrives, None, self._apply, life, step, then, given)

    def _apply(
        self,
        life: ProcessLife,
        step: StoreStep,
        then: Callable[..., None] | None,
        given: tuple[Any, ...],
    ) -> None:
        result: object
        try:
            result = completed(step.work())
        except RemoteStorageError as error:
            result = error
        delay = None
        if then is not None:
            delay = self._wires.delay(life, 53)
            self._clock.after(delay, life, then, result, *given)
        self._recording.answered(life, delay, step.message, result)

    def _mistreat(
        self,
        fate: tuple[int, int],
        life: ProcessLife,
        arrives: int,
        step: StoreStep,
        then: Callable[..., None],
        given: tuple[Any, ...],
        conflict: object,
    ) -> None:
        clock, (kind, late) = self._clock, fate
        unknown = OutcomeUnknown("the store did not answer")
        if kind == REFUSE:
            error = StorageUnavailable("the store is away")
            clock.at(arrives, life, then, error, *given)
        elif kind == SLOW:
            clock.at(arrives + late, None, self._apply, life, step, then, given)
        elif kind == SLOW_ANSWER:
            then_late = partial(clock.after, late, life, then)
            clock.at(arrives, None, self._apply, life, step, then_late, given)
        elif kind == TWICE:
            clock.at(arrives, None, self._apply, life, step, None, ())
            clock.at(arrives + late, None, self._apply, life, step, then, given)
        elif kind == FALSE_EXISTS:
            told = conflict or StorageUnavailable("conflict; retry")
            clock.at(arrives, life, then, told, *given)
        else:
            if kind != LOSE:
                lands = arrives if kind == LOSE_ANSWER else arrives + late
                clock.at(lands, None, self._apply, life, step, None, ())
            clock.at(clock.now + TIMEOUT, life, then, unknown, *given)


def _lands(fate: tuple[int, int], arrives: int) -> int | None:
    """When a request that suffers `fate` reaches the store; None: never."""
    kind, late = fate
    if kind == LOSE:
        return None
    return arrives + late if kind in (LATE, SLOW) else arrives


def completed(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, run to its end at once: it may yield, but awaits nothing."""
    try:
        while work.send(None) is None:
            pass
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the store in memory has nothing to wait for")
