"""The store that all processes share, with all faults that real stores have shown.

A request travels, is applied at one instant, and its answer travels back. `truth` keeps every
log as it was written; the bytes that readers get may have been damaged since.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from sortedcontainers import SortedDict
from typing_extensions import override

from tierledger.events.errors import (
    OutcomeUnknown,
    RemoteStorageError,
    StorageUnavailable,
)
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.machines.environment.clockwork import MS, Clockwork, ProcessLife
from tierledger.simulation.machines.environment.recording import Recording, Slot
from tierledger.simulation.machines.environment.wires import Wires
from tierledger.storage.backend import CreateOutcome, Operation, Remove
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.keys import MetadataKeyFactory

T = TypeVar("T")

COORDINATOR = -1
"""Stands for a partition's number in the slots of the coordinator's log."""

REFUSE, LOSE, LOSE_ANSWER, LATE, TWICE, FALSE_EXISTS, SLOW, STALE, SLOW_ANSWER = range(9)
"""The fates of a request. `STALE` is for listings; `REFUSE`, `SLOW` and `SLOW_ANSWER` are for
all requests, and the others for writes."""

FATES = (
    "store refused",
    "write lost",
    "answer of a write lost",
    "write landed late",
    "write sent twice",
    "conflict that is none",
    "store slow",
    "listing stale",
    "answer slow",
)
"""The mark of each fate."""

TIMEOUT = 300 * MS
"""How long a connection waits for an answer before the outcome is unknown."""


class KeyedMedium(MemoryBackend):
    """The medium as a store with keys: checkpoints, and the log of one partition."""

    def __init__(
        self, medium: Medium, keys: MetadataKeyFactory, tip: TopicIdPartition, number: int
    ) -> None:
        super().__init__(medium.state)
        self._medium = medium
        self._keys = keys
        self._tip = tip
        self._number = number

    @override
    async def get(self, key: str) -> bytes | None:
        if not key.startswith(self._keys.log(self._tip)):
            return await super().get(key)
        return self._medium.log.get((self._number, self._keys.parse_log_batch(key)[2]))

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        if prefix != self._keys.log(self._tip):
            return await super().get_like(prefix, after=after, limit=limit)
        first = 0 if after is None else self._keys.parse_log_batch(after)[2] + 1
        log, partition = self._medium.log, self._number
        slots = range(first, self._medium.heads.get(partition, 0))
        there = (slot for slot in slots if (partition, slot) in log)
        return [
            (self._keys.log_batch(self._tip, slot), log[partition, slot])
            for slot in islice(there, limit)
        ]


class Medium:
    """A store: log slots that are created once each, and keys and values for checkpoints."""

    def __init__(self, clock: Clockwork, wires: Wires, recording: Recording) -> None:
        self.log: dict[Slot, bytes] = {}
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
        self._power_cuts = 0

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

    # Requests. `then` is called with the result, or an error, followed by `given`.

    def create(
        self,
        life: ProcessLife,
        items: Sequence[tuple[Slot, bytes]],
        then: Callable[..., None],
        *given: Any,  # noqa: ANN401
    ) -> None:
        """Create slots in one durable step; the result is a list with an outcome for each."""
        conflict = [CreateOutcome.EXISTS] * len(items)
        self._ask(life, True, self._create, (life, items), then, given, conflict)

    def _create(
        self, life: ProcessLife, items: Sequence[tuple[Slot, bytes]]
    ) -> list[CreateOutcome]:
        log, outcomes = self.log, []
        for slot, value in items:
            partition, number = slot
            if slot in log:
                outcome = CreateOutcome.EXISTS
            elif number < self.heads.get(partition, 0):
                outcome = CreateOutcome.PASSED
            else:
                outcome = CreateOutcome.CREATED
                log[slot] = self.truth[slot] = value
                self.durable_at[slot] = self._clock.now
                self.heads[partition] = number + 1
            outcomes.append(outcome)
            self._recording.created(life, slot, outcome is CreateOutcome.CREATED)
        if self.on_created is not None and CreateOutcome.CREATED in outcomes:
            self.on_created(life)
        return outcomes

    def read_slots(
        self,
        life: ProcessLife,
        slots: Sequence[Slot],
        then: Callable[..., None],
        *given: Any,  # noqa: ANN401
    ) -> None:
        """Read slots; the result is a list of values, with None for free slots."""
        self._ask(life, False, self._read_slots, (slots,), then, given)

    def _read_slots(self, slots: Sequence[Slot]) -> list[bytes | None]:
        return [self.log.get(slot) for slot in slots]

    def read_log(
        self,
        life: ProcessLife,
        first: Slot,
        limit: int,
        then: Callable[..., None],
        *given: Any,  # noqa: ANN401
    ) -> None:
        """Read up to `limit` batches from `first` on: a listing, which may be stale."""
        is_stale = self._take_fate(life, STALE) is not None
        self._ask(life, False, self._read_log, (first, limit, is_stale), then, given)

    def _read_log(self, first: Slot, limit: int, is_stale: bool) -> list[bytes]:
        partition, number = first
        log = self.log
        values: list[bytes] = []
        while len(values) < limit and (value := log.get((partition, number))) is not None:
            values.append(value)
            number += 1
        if is_stale and values:
            self._recording.mark(FATES[STALE])
            values.pop()
        return values

    def ask_state(
        self,
        life: ProcessLife,
        work: Callable[[], Any],
        then: Callable[..., None],
        *given: Any,  # noqa: ANN401
    ) -> None:
        """Read checkpoints with `work`, which runs at one instant; the result is its own."""
        self._ask(life, False, work, (), then, given)

    def change_state(
        self,
        life: ProcessLife,
        work: Callable[[], Any],
        then: Callable[..., None],
        *given: Any,  # noqa: ANN401
        conflict: object = None,
    ) -> None:
        """Change what is stored with `work`, likewise: the request is a write.

        `conflict`: a result that says, truly or not, that another write was first.
        """
        self._ask(life, True, work, (), then, given, conflict)

    def write_state(
        self,
        life: ProcessLife,
        operations: Sequence[Operation],
        then: Callable[..., None],
        *given: Any,  # noqa: ANN401
    ) -> None:
        """Carry out all `operations` at one instant, or none of them."""
        self._ask(life, True, self._write_state, (operations,), then, given)

    async def write_checkpoint(self, operations: Sequence[Operation]) -> None:
        """Carry out all `operations` at one instant, or none of them."""
        self._write_state(operations)

    def _write_state(self, operations: Sequence[Operation]) -> None:
        completed(self.backend.execute_atomically(operations))
        guard = operations[0]
        if not isinstance(guard, Remove):
            written = self.checkpoints.setdefault(guard.key, [])
            written.append((self._clock.now, guard.value))

    # Fates of requests.

    def _take_fate(
        self, life: ProcessLife, wanted: int | None = None, *, writes: bool = True
    ) -> Any:  # noqa: ANN401
        armed = self._armed.get(life.site)
        if not armed:
            return None
        for at, (fate, given, of_writes) in enumerate(armed):
            fits = fate == wanted if wanted is not None else fate != STALE
            if fits and (
                writes or (fate in (REFUSE, SLOW, SLOW_ANSWER, STALE) and not of_writes)
            ):
                del armed[at]
                return (fate, given)
        return None

    def _ask(
        self,
        life: ProcessLife,
        writes: bool,
        apply: Callable[..., Any],
        args: tuple[Any, ...],
        then: Callable[..., None],
        given: tuple[Any, ...],
        conflict: object = None,
    ) -> None:
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
                if self._recording.keeps:
                    self._recording.asked(life, _lands(fate, arrives), apply, args)
                self._mistreat(fate, life, arrives, apply, args, then, given, conflict)
                return
        if self._recording.keeps:
            self._recording.asked(life, arrives, apply, args)
        clock.at(arrives, None, self._apply, life, apply, args, then, given)

    def _apply(
        self,
        life: ProcessLife,
        apply: Callable[..., Any],
        args: tuple[Any, ...],
        then: Callable[..., None] | None,
        given: tuple[Any, ...],
    ) -> None:
        try:
            result = apply(*args)
        except RemoteStorageError as error:
            result = error
        delay = None
        if then is not None:
            delay = self._wires.delay(life, 53)
            self._clock.after(delay, life, then, result, *given)
        if self._recording.keeps:
            self._recording.answered(life, delay, apply, args, result)

    def _mistreat(
        self,
        fate: tuple[int, int],
        life: ProcessLife,
        arrives: int,
        apply: Callable[..., Any],
        args: tuple[Any, ...],
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
            clock.at(arrives + late, None, self._apply, life, apply, args, then, given)
        elif kind == SLOW_ANSWER:
            then_late = partial(clock.after, late, life, then)
            clock.at(arrives, None, self._apply, life, apply, args, then_late, given)
        elif kind == TWICE:
            clock.at(arrives, None, self._apply, life, apply, args, None, ())
            clock.at(arrives + late, None, self._apply, life, apply, args, then, given)
        elif kind == FALSE_EXISTS:
            told = conflict or StorageUnavailable("conflict; retry")
            clock.at(arrives, life, then, told, *given)
        else:
            if kind != LOSE:
                lands = arrives if kind == LOSE_ANSWER else arrives + late
                clock.at(lands, None, self._apply, life, apply, args, None, ())
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
