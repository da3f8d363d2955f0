"""The feed of replicas, without a socket: its source, and the Python model of a replica."""

import time

from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.feed.frames import Subscription
from tierledger.actors.feed.replica import Replica
from tierledger.actors.feed.source import FeedSource
from tierledger.actors.ray.collector import keep_pauses_short, look_through_all_again
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.feed import wire
from tierledger.benchmarks.ledger import Ledger, prepared
from tierledger.benchmarks.workload import PARTITION, build_commands

CHANGES = 4_000
BATCHES = (1, 64)
"""Events per batch: a caller that waits for each event, and many calls at once."""

KEY = PartitionKey.of(PARTITION)
SUBSCRIPTION = Subscription(KEY, LEADER)


async def feed(bench: Bench) -> None:
    """Snapshots sent and loaded, and the cost of a change; then both through a door."""
    async with await bench.ledger(bench["segments"]) as ledger:
        keep_pauses_short()  # As in a host's process.
        ledger.lead()
        source = FeedSource(ledger, lambda _: None)
        longest = 0.0
        for _ in bench.turns("feed: a snapshot"):
            longest = max(longest, _made(bench, ledger, source))
            _taken(bench, ledger, source)
        bench.note(longest_ms=longest * 1e3)
        _given_up(bench, ledger, source)
        source.close()
        for _ in bench.turns("feed: changes"):
            for events in BATCHES:
                _changed(bench, ledger, events)
        look_through_all_again()
    await wire.snapshots(bench)
    await wire.changes(bench)


def _made(bench: Bench, ledger: Ledger, source: FeedSource) -> float:
    """Make a snapshot; returns the seconds of the longest step."""
    number, making, longest = source.subscribe(SUBSCRIPTION), 0.0, 0.0
    while True:  # No replica here: its garbage is not the host's.
        begun = time.thread_time()
        frames = source.take(number)
        step = time.thread_time() - begun
        making, longest = making + step, max(longest, step)
        if not frames:
            break
    source.drop(number)
    bench.note(made=len(ledger.state.rows) / making)
    return longest


def _taken(bench: Bench, ledger: Ledger, source: FeedSource) -> None:
    """A replica loads a snapshot."""
    replica, number, spent = Replica(KEY, LEADER), source.subscribe(SUBSCRIPTION), 0.0
    while frames := source.take(number):
        begun = time.thread_time()
        for frame in frames:
            refusal = replica.take(frame)
            assert refusal is None, refusal
        spent += time.thread_time() - begun
    source.drop(number)
    assert replica.is_whole, "it has all slices"
    bench.note(taken=len(ledger.state.rows) / spent)


def _given_up(bench: Bench, ledger: Ledger, source: FeedSource) -> None:
    """A snapshot that the source drops, since every shard was written to meanwhile."""
    number = source.subscribe(SUBSCRIPTION)
    source.take(number, 2)
    for row in ledger.state.rows.snapshot():
        ledger.state.rows.put(row[3:19], row)
    with bench.timed("given_up_ms", 1e3, time.thread_time):
        source.drop(number)


def _changed(bench: Bench, ledger: Ledger, events: int) -> None:
    """Batches applied: without a feed, with an idle feed, and with a replica."""
    alone = _applied(ledger, events, None, None)
    source = FeedSource(ledger, lambda _: None)
    kept = _applied(ledger, events, source, None)
    number = source.subscribe(SUBSCRIPTION)
    while source.take(number):
        pass
    fed = _applied(ledger, events, source, number)
    source.close()
    bench.note(**{f"alone_{events}": alone, f"kept_{events}": kept, f"fed_{events}": fed})


def _applied(
    ledger: Ledger, events: int, source: FeedSource | None, number: int | None
) -> float:
    """Microseconds per event."""
    spent, first = 0.0, ledger.tail
    commands = build_commands(ledger.workload, range(first, first + CHANGES // 2))
    for at in range(0, len(commands), events):
        decided, encoded = prepared(ledger.state, commands[at : at + events])
        begun = time.thread_time()
        ledger.apply(decided, encoded)
        if source is not None:
            source.changed(decided)
            if number is not None:
                source.take(number)
        spent += time.thread_time() - begun
    return spent / len(commands) * 1e6
