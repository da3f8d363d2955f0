"""How fast a log becomes a state: decoded, its chain verified, and folded, on one core."""

import itertools
import time
from collections.abc import Iterable, Iterator

from tierledger.benchmarks.ledger import LIMITS
from tierledger.benchmarks.report import Figure, Goal, median
from tierledger.benchmarks.scale import Bench
from tierledger.benchmarks.workload import BROKER, CLUSTER, PARTITION, START_MS, Workload
from tierledger.events import commands as cmd
from tierledger.events.event_codec import chain, decode_events, encode_event, genesis
from tierledger.events.partition.decide import Accepted, decide
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState
from tierledger.storage.serde import MsgpackSerDe

EVENTS_PER_BATCH = 100
DELETED_ONE_IN = 10
COPIES_AT_A_TIME = 3
"""How many copies a broker has under way: their adds and finishes interleave."""

EVENTS_PER_S_MIN = 200_000

Batch = list[bytes]


async def measure(bench: Bench) -> list[Figure]:
    """Events per second of decoding and folding, together and of decoding alone."""
    bench.say("replay: writing the log")
    batches = as_read(recorded(bench.scale.replayed))
    events = sum(len(batch) for batch in batches)
    both, decoding = [], []
    for _ in bench.turns("replay:"):
        both.append(events / replayed(batches))
        decoding.append(events / decoded(batches))
    return [
        median(
            "replay: decode and evolve",
            both,
            "events/s",
            Goal(EVENTS_PER_S_MIN, at_least=True),
            f"{events:,} events in batches of {EVENTS_PER_BATCH}",
        ),
        median("replay: decode alone", decoding, "events/s"),
    ]


def as_read(batches: Iterable[Batch]) -> list[Batch]:
    """The batches as a reader gets them: the events of each adjacent in memory."""
    serde = MsgpackSerDe()
    values = [serde.serialize("batch", batch) for batch in batches]
    return [serde.deserialize("batch", value) for value in values]


def replayed(batches: list[Batch]) -> float:
    """Seconds of one core for decoding and folding the whole log, batch by batch."""
    state = blank()
    begun = time.process_time()
    for stored in batches:
        events, chain_hash = decode_events(stored, state.next_position, state.chain_hash)
        evolve_all(state, events, chain_hash)
    return time.process_time() - begun


def decoded(batches: list[Batch]) -> float:
    """Seconds of one core for decoding alone."""
    state = blank()
    position, chain_hash = state.next_position, state.chain_hash
    begun = time.process_time()
    for stored in batches:
        events, chain_hash = decode_events(stored, position, chain_hash)
        position += len(events)
    return time.process_time() - begun


def blank() -> PartitionState:
    return PartitionState(PARTITION, genesis(CLUSTER, PARTITION.topic_id, PARTITION.partition))


def recorded(segments: int) -> Iterator[Batch]:
    """The log of a partition whose segments are copied, and a tenth deleted, in batches."""
    state = blank()
    stored: Batch = []
    for command in life(segments):
        decision = decide(Overlay(state), command, START_MS, LIMITS)
        assert isinstance(decision, Accepted), decision
        chain_hash = state.chain_hash
        for event in decision.events:
            stored.append(encode_event(event, chain_hash))
            chain_hash = chain(stored[-1])
        evolve_all(state, decision.events, chain_hash)
        if len(stored) >= EVENTS_PER_BATCH:
            yield stored
            stored = []
    if stored:
        yield stored


def life(segments: int) -> Iterator[cmd.Command]:
    """Copies at the tail, a few at a time; for every ten of them a deletion at the head."""
    claim = cmd.Claim(BROKER, 1, 1)
    workload = Workload(segments, claim)
    yield cmd.OpenSession(claim, 0, None, PARTITION.topic)
    deleted = itertools.count()
    for first in range(0, segments, COPIES_AT_A_TIME):
        numbers = range(first, min(first + COPIES_AT_A_TIME, segments))
        yield from (workload.add(number) for number in numbers)
        yield from (workload.finish(number) for number in numbers)
        for number in numbers:
            if number % DELETED_ONE_IN == DELETED_ONE_IN - 1:
                yield from workload.delete(next(deleted))
