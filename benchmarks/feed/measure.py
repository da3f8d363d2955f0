"""The feed of a partition's replicas: sending and loading a snapshot, and cost of a change.

First without a store or a socket: the steps of the source, and of the Python model of a
replica. Then through a door, to another process.
"""

import statistics
import time

from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.feed.frames import Subscription
from tierledger.actors.feed.replica import Replica
from tierledger.actors.feed.source import FeedSource
from tierledger.actors.ray.collector import keep_pauses_short, look_through_all_again
from tierledger.benchmarks.feed import wire as feed_wire
from tierledger.benchmarks.ledger import Ledger
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.workload import PARTITION, build_commands

ROWS_PER_S_MIN = 300_000
STEP_MS_MAX = 10.0
CHANGES = 4_000
BATCHES = (1, 64)
"""Events per batch: a caller that waits for each event, and many calls at once."""

KEY = PartitionKey.of(PARTITION)
SUBSCRIPTION = Subscription(KEY, LEADER)


async def measure(bench: Bench) -> list[Figure]:
    """Rows per second and longest steps of a snapshot, and microseconds per change."""
    scale = bench.scale
    ledger = await Ledger.open(await bench.store(scale.segments), scale.segments)
    keep_pauses_short()  # As in a host's process.
    try:
        ledger.lead()
        source = FeedSource(ledger, lambda _: None)
        bench.say(f"feed: a snapshot of {scale.segments:,} segments")
        figures = [*_snapshot(ledger, source, scale.repetitions), _given_up(ledger, source)]
        source.close()
        bench.say("feed: changes")
        for events in BATCHES:
            figures += _changes(ledger, events, scale.repetitions)
    finally:
        look_through_all_again()
        await ledger.close()
    return [*figures, *await feed_wire.measure(bench)]


def _snapshot(ledger: Ledger, source: FeedSource, repetitions: int) -> list[Figure]:
    rows = len(ledger.state.rows)
    made: list[float] = []
    taken: list[float] = []
    longest = 0.0
    for _ in range(repetitions):
        number, making = source.subscribe(SUBSCRIPTION), 0.0
        while True:  # No replica here: its garbage is not the host's.
            begun = time.thread_time()
            frames = source.take(number)
            step = time.thread_time() - begun
            making, longest = making + step, max(longest, step)
            if not frames:
                break
        source.drop(number)
        made.append(rows / making)
        taken.append(rows / _taken(source))
    goal = Goal(ROWS_PER_S_MIN, at_least=True)
    return [
        median("feed: rows of a snapshot made", made, "rows/s", goal),
        Figure("feed: longest step of it", longest * 1e3, "ms", Goal(STEP_MS_MAX)),
        median("feed: rows taken by the model", taken, "rows/s"),
    ]


def _taken(source: FeedSource) -> float:
    """Seconds that a replica takes to load a snapshot."""
    replica, number, spent = Replica(KEY, LEADER), source.subscribe(SUBSCRIPTION), 0.0
    while frames := source.take(number):
        begun = time.thread_time()
        for frame in frames:
            refusal = replica.take(frame)
            assert refusal is None, refusal
        spent += time.thread_time() - begun
    source.drop(number)
    assert replica.is_whole, "it has all slices"
    return spent


def _given_up(ledger: Ledger, source: FeedSource) -> Figure:
    """A snapshot that the source drops, since every shard was written to meanwhile."""
    number = source.subscribe(SUBSCRIPTION)
    source.take(number, 2)
    for row in ledger.state.rows.snapshot():
        ledger.state.rows.put(row[3:19], row)
    begun = time.thread_time()
    source.drop(number)
    step = (time.thread_time() - begun) * 1e3
    return Figure("feed: a snapshot given up", step, "ms", Goal(STEP_MS_MAX))


def _changes(ledger: Ledger, events: int, repetitions: int) -> list[Figure]:
    """The cost of applying a batch: without a feed, with an idle feed, and with a replica."""
    alone: list[float] = []
    kept: list[float] = []
    fed: list[float] = []
    for _ in range(repetitions):
        alone.append(_applied(ledger, events, None, None))
        source = FeedSource(ledger, lambda _: None)
        kept.append(_applied(ledger, events, source, None))
        number = source.subscribe(SUBSCRIPTION)
        while source.take(number):
            pass
        fed.append(_applied(ledger, events, source, number))
        source.close()
    name = f"feed: an event applied, {events} in a batch"
    detail = f"{statistics.median(alone):.3g} us without a feed"
    return [
        median(f"{name}, and into the ring", kept, "us", None, detail),
        median(f"{name}, and to one replica", fed, "us", None, detail),
    ]


def _applied(
    ledger: Ledger, events: int, source: FeedSource | None, number: int | None
) -> float:
    """Microseconds per event."""
    spent, first = 0.0, ledger.tail
    commands = build_commands(ledger.workload, range(first, first + CHANGES // 2))
    for at in range(0, len(commands), events):
        decided, encoded = ledger.prepared(commands[at : at + events])
        begun = time.thread_time()
        ledger.apply(decided, encoded)
        if source is not None:
            source.changed(decided)
            if number is not None:
                source.take(number)
        spent += time.thread_time() - begun
    return spent / len(commands) * 1e6
