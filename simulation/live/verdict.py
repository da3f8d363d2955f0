"""The verdict on a live run: its history compared with its store, and the cost of faults."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events import errors
from tierledger.events.errors import DataError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.checkers.all import Minimums
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.calls import OK, WRITE, CallHistory, Operation
from tierledger.simulation.history.final_log import LoggedBatch
from tierledger.simulation.live.memory import MemoryGrowth
from tierledger.simulation.live.run import LiveRun
from tierledger.simulation.record.record import (
    RecordedCheckpoint,
    RecordedLog,
    RecordSettings,
    RunRecord,
    judged,
)
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.partition.checkpoint import CheckpointStore
from tierledger.storage.partition.event_log import EventLog

REFUSALS = frozenset(
    one.__name__
    for one in vars(errors).values()
    if isinstance(one, type)
    and issubclass(one, (errors.RejectedError, errors.Fenced))
    and one is not errors.InvalidArgument
)
"""Errors that the rules demand: brokers make bad calls, some by mistake, some on purpose."""

CHECK_EVERY = 500
"""Events between two checks of a state's invariants while a log is folded."""


class Strike(NamedTuple):
    """One fault and its victim, with the times (ns) at which it began and was undone."""

    fault: str
    victim: str
    began_ns: int
    ended_ns: int


class Fared(NamedTuple):
    """How many calls there were, and how they ended."""

    calls: int
    ok: int
    answered: int
    """Calls that were ok, or were refused as the rules demand."""

    @property
    def ok_share(self) -> float:
        return self.ok / max(self.calls, 1)

    @property
    def answered_share(self) -> float:
        return self.answered / max(self.calls, 1)


class FaultRow(NamedTuple):
    """All strikes of one fault.

    The gap of a strike is the longest time that any partition went without an acknowledged
    write, from before the strike to after it.
    """

    fault: str
    strikes: int
    median_gap_s: float
    max_gap_s: float
    fared: Fared
    """Calls that were under way during a strike."""


class LiveVerdict(NamedTuple):
    """A run's outcome."""

    seed: int
    seconds: float
    violations: list[Violation]
    fared: Fared
    calm: Fared
    """Calls that met no fault."""
    ok_writes: int
    errors: dict[str, int]
    """How often calls ended with which error; some are what the rules demand."""
    elections: int
    leadership_changes: int
    """Sessions after the first, over all partitions."""
    events: int
    checkpoints: int
    """Partitions with a checkpoint, each of which was folded again."""
    faults: list[FaultRow]
    well_after_s: float | None
    memory: MemoryGrowth | None
    """None if the run was too short to say."""
    checking_s: float


class Stored(NamedTuple):
    """The store's content of a run's partitions; the log of a damaged one may be missing."""

    logs: list[RecordedLog]
    checkpoints: list[RecordedCheckpoint]
    damage: list[Violation]


async def recorded(
    run: LiveRun, origin: str = "", minimums: Minimums | None = None
) -> RunRecord:
    """The record of a run whose brokers have stopped, from which it can be judged again.

    Args:
        run: The run; its store is read, so the service need not run any more.
        origin: The command that made it, for people.
        minimums: What the run must have seen, so that finding nothing means something.
    """
    stored = await stored_by(run.settings, run.tips)
    settings = RecordSettings(
        run.settings.cluster_id,
        origin,
        run.settings.limits.custom_metadata_bytes_max,
        CHECK_EVERY,
        minimums,
    )
    findings = [*_of_the_run(run), *stored.damage]
    history = run.recorder.history()
    return RunRecord(settings, history, stored.logs, stored.checkpoints, findings)


def verdict_of(
    run: LiveRun,
    record: RunRecord,
    strikes: Sequence[Strike] = (),
    memory: MemoryGrowth | None = None,
) -> LiveVerdict:
    """The verdict of all checkers on a recorded run."""
    began_ns = run.now_ns()
    ended_ns = run.ended_ns or began_ns
    history = record.history
    violations, logs = judged(record)
    ended = Counter((op.kind, op.outcome) for op in history.operations)
    return LiveVerdict(
        seed=run.plan.seed,
        seconds=(ended_ns - run.began_ns) / 1e9,
        violations=violations,
        fared=fared(history.operations),
        calm=fared(calls_between(history, strikes)),
        ok_writes=ended[WRITE, OK],
        errors=dict(Counter(op.error for op in history.operations if op.error).most_common()),
        elections=run.controller.changes,
        leadership_changes=sum(max(0, len(log.sessions) - 1) for log in logs.values()),
        events=sum(len(log.events) for log in logs.values()),
        checkpoints=len(record.checkpoints),
        faults=fault_rows(history, strikes, ended_ns),
        well_after_s=run.well_after_s,
        memory=memory,
        checking_s=(run.now_ns() - began_ns) / 1e9,
    )


def _of_the_run(run: LiveRun) -> list[Violation]:
    """Violations that need no log: unexpected errors, and a service that did not recover."""
    found = [
        Violation("unforeseen_failure", None, f"{type(error).__name__}: {error}")
        for error in run.failures
    ]
    if run.well_after_s is None:
        found.append(Violation("liveness", None, "not well again after all had healed"))
    return found


async def stored_by(settings: ServiceSettings, tips: Sequence[TopicIdPartition]) -> Stored:
    """Every partition's log and checkpoint, straight from the store."""
    backend = await settings.connector().backend(read_only=True)
    stored = Stored([], [], [])
    try:
        for tip in tips:
            try:
                # The checkpoint first: a running service only appends to the log meanwhile.
                stored.checkpoints.extend(await _checkpoint(settings, backend, tip))
                stored.logs.append(await _log(settings, backend, tip))
            except DataError as error:
                key = PartitionKey.of(tip)
                stored.damage.append(Violation(type(error).__name__, key, str(error)))
    finally:
        await backend.close()
    return stored


async def _log(
    settings: ServiceSettings, backend: MetadataStorageBackend, tip: TopicIdPartition
) -> RecordedLog:
    keys = settings.connector().key_factory(settings.cluster_id)
    batches = EventLog(backend, keys, tip).batches()
    return RecordedLog(tip, [LoggedBatch(one.number, one.value) async for one in batches])


async def _checkpoint(
    settings: ServiceSettings, backend: MetadataStorageBackend, tip: TopicIdPartition
) -> list[RecordedCheckpoint]:
    """Position and digest of the stored checkpoint, if there is one."""
    keys = settings.connector().key_factory(settings.cluster_id)
    store = CheckpointStore(backend, keys, settings.serde(), tip)
    stored = await store.read_stored()
    if stored is None:
        return []
    state = await store.load(stored, store.parse_partition(stored))
    position, digest = state.next_position - 1, state.digest()
    return [RecordedCheckpoint(PartitionKey.of(tip), position, digest)]


# The cost of faults.


def fault_rows(
    history: CallHistory, strikes: Sequence[Strike], ended_ns: int
) -> list[FaultRow]:
    """Per fault: how often it struck, the gaps it caused, and how calls ended meanwhile."""
    written = defaultdict[PartitionKey, list[int]](list)
    for op in history.operations:
        if op.kind == WRITE and op.outcome == OK and op.completed is not None:
            written[op.key].append(op.completed)
    for times in written.values():
        times.sort()
    by_fault = defaultdict[str, list[Strike]](list)
    for strike in strikes:
        by_fault[strike.fault].append(strike)
    rows = []
    for fault, same in sorted(by_fault.items()):
        gaps = [
            max((gap(times, one, ended_ns) for times in written.values()), default=0) / 1e9
            for one in same
        ]
        met = [op for op in history.operations if _meets(op, same)]
        rows.append(FaultRow(fault, len(same), median(gaps), max(gaps), fared(met)))
    return rows


def fared(operations: Sequence[Operation]) -> Fared:
    ok = sum(op.outcome == OK for op in operations)
    return Fared(len(operations), ok, ok + sum(op.error in REFUSALS for op in operations))


def calls_between(history: CallHistory, strikes: Sequence[Strike]) -> list[Operation]:
    """The calls that were under way during none of `strikes`."""
    return [op for op in history.operations if not _meets(op, strikes)]


def _meets(op: Operation, strikes: Sequence[Strike]) -> bool:
    """Whether the call was under way during one of `strikes`, which followed each other."""
    # Of those that began before it ended, the last one ended last.
    count = len(strikes)
    if op.completed is not None:
        count = bisect_right(strikes, op.completed, key=lambda one: one.began_ns)
    return count > 0 and op.invoked <= strikes[count - 1].ended_ns


def gap(written: Sequence[int], strike: Strike, ended_ns: int) -> int:
    """The longest time (ns) between two of `written` that overlaps the strike."""
    first = max(bisect_right(written, strike.began_ns) - 1, 0)
    last = bisect_left(written, strike.ended_ns)
    times = [*written[first:last], written[last] if last < len(written) else ended_ns]
    return max((after - before for before, after in pairwise(times)), default=0)
