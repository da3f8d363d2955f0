"""What a live run comes to: its history held against its store, and how long faults hurt."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.events.errors import DataError
from tierledger.simulation.checkers import Minimums, check
from tierledger.simulation.checkers_violation import Violation
from tierledger.simulation.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.simulation.history import OK, WRITE
from tierledger.storage.checkpoint import CheckpointStore
from tierledger.storage.event_log import EventLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.simulation.history import History
    from tierledger.simulation.live.run import LiveRun
    from tierledger.storage.backend import MetadataStorageBackend

CHECK_EVERY = 500
"""Events between two checks of a state's invariants while a log is folded."""


class Strike(NamedTuple):
    """One fault: what was done to whom, and from when until when it was undone (ns)."""

    fault: str
    victim: str
    began_ns: int
    ended_ns: int


class FaultRow(NamedTuple):
    """All strikes of one fault.

    The gap of a strike is the longest time that any partition went without an acknowledged
    write, from before the strike to after it.
    """

    fault: str
    strikes: int
    median_gap_s: float
    max_gap_s: float


class LiveVerdict(NamedTuple):
    """A run's outcome."""

    seed: int
    seconds: float
    violations: list[Violation]
    calls: int
    ok_calls: int
    ok_writes: int
    errors: dict[str, int]
    """How often calls ended with which error; some are the interface's right answer."""
    elections: int
    leadership_changes: int
    """Sessions after the first, over all partitions."""
    events: int
    checkpoints: int
    """Partitions that have one, each of which was folded again."""
    faults: list[FaultRow]
    well_after_s: float | None
    checking_s: float

    @property
    def ok_share(self) -> float:
        return self.ok_calls / max(self.calls, 1)


class Stored(NamedTuple):
    """What the store holds of a run's partitions."""

    logs: dict[PartitionKey, FinalLog]
    checkpoints: dict[PartitionKey, list[tuple[int, bytes]]]
    damage: list[Violation]


async def judge(
    run: LiveRun, strikes: Sequence[Strike] = (), minimums: Minimums | None = None
) -> LiveVerdict:
    """What every checker says of a run whose brokers have stopped."""
    ended_ns = run.now_ns()
    history = run.recorder.history()
    stored = await stored_by(run.settings, run.tips)
    violations = [*_of_the_run(run), *stored.damage]
    if stored.logs:
        readable = [op for op in history.operations if op.key in stored.logs]
        violations += check(
            history._replace(operations=readable),
            stored.logs,
            checkpoints=stored.checkpoints,
            custom_metadata_bytes_max=run.settings.limits.custom_metadata_bytes_max,
            check_every=CHECK_EVERY,
            minimums=minimums,
        )
    ended = Counter((op.kind, op.outcome) for op in history.operations)
    return LiveVerdict(
        seed=run.plan.seed,
        seconds=(ended_ns - run.began_ns) / 1e9,
        violations=violations,
        calls=len(history.operations),
        ok_calls=sum(count for (_, outcome), count in ended.items() if outcome == OK),
        ok_writes=ended[WRITE, OK],
        errors=dict(Counter(op.error for op in history.operations if op.error).most_common()),
        elections=run.controller.changes,
        leadership_changes=sum(max(0, len(log.sessions) - 1) for log in stored.logs.values()),
        events=sum(len(log.events) for log in stored.logs.values()),
        checkpoints=sum(map(len, stored.checkpoints.values())),
        faults=fault_rows(history, strikes, ended_ns),
        well_after_s=run.well_after_s,
        checking_s=(run.now_ns() - ended_ns) / 1e9,
    )


def _of_the_run(run: LiveRun) -> list[Violation]:
    """What needs no log: errors that are not the interface's, a service that stayed away."""
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
    stored = Stored({}, {}, [])
    try:
        for tip in tips:
            key = PartitionKey.of(tip)
            try:
                # The checkpoint first: a service that still runs only adds to the log.
                stored.checkpoints[key] = await _checkpoint(settings, backend, tip)
                stored.logs[key] = await _log(settings, backend, tip)
            except DataError as error:
                stored.damage.append(Violation(type(error).__name__, key, str(error)))
    finally:
        await backend.close()
    return stored


async def _log(
    settings: ServiceSettings, backend: MetadataStorageBackend, tip: TopicIdPartition
) -> FinalLog:
    keys = settings.connector().key_factory(settings.cluster_id)
    batches = EventLog(backend, keys, tip).batches()
    read = [LoggedBatch(one.number, one.value) async for one in batches]
    return decode_log(settings.serde(), settings.cluster_id, tip, read)


async def _checkpoint(
    settings: ServiceSettings, backend: MetadataStorageBackend, tip: TopicIdPartition
) -> list[tuple[int, bytes]]:
    """Position and digest of the checkpoint that stands, if one does."""
    keys = settings.connector().key_factory(settings.cluster_id)
    store = CheckpointStore(backend, keys, settings.serde(), tip)
    stored = await store.read_stored()
    if stored is None:
        return []
    state = await store.load(stored, store.parse_partition(stored))
    return [(state.next_position - 1, state.digest())]


# How long faults hurt.


def fault_rows(history: History, strikes: Sequence[Strike], ended_ns: int) -> list[FaultRow]:
    """Per fault, how often it struck and the gaps it made."""
    written = defaultdict[PartitionKey, list[int]](list)
    for op in history.operations:
        if op.kind == WRITE and op.outcome == OK and op.completed is not None:
            written[op.key].append(op.completed)
    for times in written.values():
        times.sort()
    gaps = defaultdict[str, list[float]](list)
    for strike in strikes:
        longest = max((gap(times, strike, ended_ns) for times in written.values()), default=0)
        gaps[strike.fault].append(longest / 1e9)
    return [
        FaultRow(fault, len(found), median(found), max(found))
        for fault, found in sorted(gaps.items())
    ]


def gap(written: Sequence[int], strike: Strike, ended_ns: int) -> int:
    """The longest time between two of `written` that lies at least partly in a strike (ns)."""
    first = max(bisect_right(written, strike.began_ns) - 1, 0)
    last = bisect_left(written, strike.ended_ns)
    times = [*written[first:last], written[last] if last < len(written) else ended_ns]
    return max((after - before for before, after in pairwise(times)), default=0)
