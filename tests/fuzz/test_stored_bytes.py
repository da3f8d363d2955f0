"""Damaged stores: readers give the correct answer, or an error that names the damage.

A store is written once; each draw damages a copy of it, and asks everybody who reads stores.
Damage is never taken for an answer, never ends anybody, and hurts no other partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from random import Random
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import msgpack
import pytest
from sortedcontainers import SortedDict

from tests.models.actors.local_world import TickingClock
from tests.models.storage.stored_partitions import (
    CLUSTER,
    SERDE,
    StoredPartition,
    finished,
    updated,
)
from tierledger.actors.calls import (
    FOLLOWER,
    LEADER,
    Answered,
    PartitionKey,
    Placement,
    QueryCall,
)
from tierledger.actors.coordinator.events import (
    Announced,
    ClientRegistered,
    CoordinatorBody,
    HostStarted,
    LeadersPlaced,
)
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.log import read_on
from tierledger.actors.host.answering import answer_now
from tierledger.actors.host.host import Host
from tierledger.actors.messages import Assignment, Query
from tierledger.events.commands import Claim
from tierledger.events.errors import DataError, NotReady, RemoteStorageError
from tierledger.events.event_codec import chain
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.state import PartitionState
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.catalog import Catalog, clusters, stray_keys
from tierledger.storage.kafka_export import exported_records
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.partition.checkpoint import parse_partition
from tierledger.storage.partition.event_log import StoredBatch
from tierledger.storage.partition.forgetting import forget
from tierledger.storage.partition.point_reads import ask
from tierledger.storage.partition.verification import FindingKind, verify
from tierledger.storage.serde import KINDS

KEYS = DefaultMetadataKeyFactory(CLUSTER)
TIPS = [
    TopicIdPartition(Uuid(bytes([number + 1]) * 16), number, name)
    for number, name in enumerate(("orders", "payments", "forgotten", "young"))
]
QUERIES = [
    *(
        Query("lookup", epoch, offset)
        for epoch, offset in ((0, 3), (0, 25), (1, 55), (1, 77), (2, 118), (2, 500), (7, 0))
    ),
    *(Query(kind, epoch) for kind in ("highest_offset", "size") for epoch in range(3)),
]
CLAIM = Claim(9, 1, 1)
COORDINATED: list[CoordinatorBody] = [
    ClientRegistered(9, 1),
    HostStarted("host-0", 1, "process", "host-0/1"),
    Announced(9, 1, 1, ((bytes(TIPS[0].topic_id), 0, "orders", 3, None),), (), (), None),
    LeadersPlaced("host-0/1", ((bytes(TIPS[0].topic_id), 0, 1),)),
]
DAMAGES_MAX = 3
PATIENCE_S = 300
"""Of one draw, which takes 0.1 s: only what never ends takes longer, on a busy machine, too."""

T = TypeVar("T")
Values = dict[str, bytes]


class Written(NamedTuple):
    """A store, and the correct answers about it."""

    values: Values
    older: Values
    """Values that stood there earlier, and were replaced."""
    states: dict[TopicIdPartition, list[tuple[str, Truth]]]
    """Of each partition: the key of each of its batches, and what is true up to it."""
    coordinator: tuple[int, bytes]
    coordinator_log: list[str]


# The store.


class Truth(NamedTuple):
    """The correct answers about a partition."""

    rows: list[bytes]
    answers: list[Any]


def truth_of(state: PartitionState) -> Truth:
    return Truth(sorted(state.rows), asked(state))


def asked(state: PartitionState) -> list[Any]:
    found = [answer_now(state, question, stale=False) for question in QUERIES]
    return [None if one is None else one.value for one in found]


async def written() -> Written:
    backend = MemoryBackend()
    states: dict[TopicIdPartition, list[tuple[str, Truth]]] = {}
    older: Values = {}
    for tip in TIPS:
        partition = StoredPartition(backend, tip)
        steps: list[tuple[str, Truth]] = []

        def note(one: StoredPartition = partition, known: list[Any] = steps) -> None:
            known.append((KEYS.log_batch(one.tip, one.next_batch - 1), truth_of(one.state)))

        await partition.open()
        note()
        for number in range(3 if tip.topic == "young" else 12):
            await partition.append(finished(number, epoch=number // 5, empty=number % 2 == 0))
            note()
            if number % 4 == 3:
                await partition.append([updated(number - 1, 2), updated(number - 1, 3)])
                note()
                older |= {
                    key: value
                    for key, value in backend.values.items()
                    if key.startswith(KEYS.state(tip))
                }
                await partition.checkpoint()
        if tip.topic == "forgotten":
            for number in range(12):
                if number % 4 != 2:
                    await partition.append([updated(number, 2), updated(number, 3)])
            await partition.close()
            await forget(partition.reader())
            partition.state, partition.next_batch = await partition.reader().state()
            steps.clear()
            note()
            await partition.open()
            note()
            await partition.append(finished(20))
            note()
        states[tip] = steps
    log = Fold(CLUSTER, KEYS, SERDE)
    for number, body in enumerate(COORDINATED):
        _, stored = log.events_of([body], log.state, TickingClock().now_ms())
        value = log.batch_of(stored)
        await backend.create(KEYS.coordinator_batch(number), value)
        log.take(StoredBatch(number, value))
    named = [key for key in backend.values if key.startswith(KEYS.coordinator_log())]
    return Written(dict(backend.values), older, states, coordinated(log), named)


def coordinated(log: Fold) -> tuple[int, bytes]:
    return log.state.next_position, log.state.chain_hash


@pytest.fixture(scope="module")
def original() -> Written:
    return asyncio.run(written())


# What is done to it.


def flipped(random: Random, value: bytes) -> bytes:
    damaged = bytearray(value or b"\0")
    damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


def retyped(random: Random, value: bytes) -> bytes:
    """`value` with a field of another type, and the checksum of that."""
    for kind in KINDS:
        try:
            fields = SERDE.deserialize(kind, value)
        except RemoteStorageError:
            continue
        if kind == "segment":  # Single answers believe a row whose checksum holds.
            return flipped(random, value)
        _retype(random, fields)
        return SERDE.serialize(kind, fields)
    return flipped(random, value)


def _retype(random: Random, fields: list[Any]) -> None:
    at = random.randrange(len(fields))
    if isinstance(fields[at], list) and fields[at] and random.random() < 0.7:
        _retype(random, fields[at])
        return
    others: list[Any] = [None, "text", b"bytes", 1.5, [], [[]], {"a": 1}, True, -1, 2**63]
    fields[at] = random.choice([one for one in others if type(one) is not type(fields[at])])


OF_NO_FIELD: list[Any] = [1.5, {"a": 1}, [[1.5]], 2**63]
"""No field of any event may be one of these."""


def reforged(random: Random, values: Values, tip: TopicIdPartition) -> str:
    """Change a field within an event, and make all checksums and hashes behind it right."""
    keys = sorted(key for key in values if key.startswith(KEYS.log(tip)))
    at = random.randrange(len(keys))
    what, previous = "", None
    for key in keys[at:]:
        try:
            first, count, stored = SERDE.deserialize("batch", values[key])
            events = [list(msgpack.unpackb(one[4:], strict_map_key=False)) for one in stored]
            number = 0 if what else random.randrange(len(events))
            for n, event in enumerate(events):
                if n == number and not what:
                    what = f"event {n} of {key}: {_changed(random, event)}"
                elif previous is not None and what:
                    event[7] = previous
                if what:
                    packed = msgpack.packb(event)
                    stored[n] = crc32(packed).to_bytes(4, "big") + packed
                    previous = chain(stored[n])
        except (RemoteStorageError, ValueError, TypeError, LookupError, OverflowError):
            break  # Another damage came first.
        values[key] = SERDE.serialize("batch", [first, count, stored])
    return what or "nothing"


def _changed(random: Random, event: list[Any]) -> str:
    """Give a field of `event`, or of what it says, another type, size or place."""
    fields = event[8] if isinstance(event[8], list) and random.random() < 0.8 else event
    nested = [one for one in fields if isinstance(one, list) and one]
    if nested and random.random() < 0.4:
        fields = random.choice(nested)
    at = random.randrange(len(fields))
    before = repr(fields)
    match random.randrange(6):
        case 0:
            del fields[at]
        case 1:
            fields.insert(at, random.choice(OF_NO_FIELD))
        case 2 if fields not in nested:  # Or two numbers would only change places.
            fields.reverse()
        case _:
            others: dict[type, list[Any]] = {
                int: [True, "text"],
                bytes: ["text", 1],
                str: [b"bytes"],
            }
            fields[at] = random.choice([*OF_NO_FIELD, *others.get(type(fields[at]), [])])
    return f"{before} became {fields!r:.300}"


def damage(random: Random, values: Values, original: Written) -> str:
    """Do one thing to `values`; what it was."""
    key = random.choice(sorted(values))
    other = random.choice(sorted(values))
    match random.randrange(12):
        case 10 | 11:
            return reforged(random, values, random.choice(TIPS))
        case 0:
            values[key] = flipped(random, values[key])
            return f"flip a bit of {key}"
        case 1:
            values[key] = values[key][: random.randrange(len(values[key]) or 1)]
            return f"cut {key}"
        case 2:
            values[key] += random.randbytes(random.randint(1, 9))
            return f"extend {key}"
        case 3:
            values[key] = random.choice([b"", random.randbytes(40), values[other]])
            return f"replace {key}, perhaps by {other}"
        case 4 | 5:
            del values[key]
            return f"remove {key}"
        case 6:
            values[key], values[other] = values[other], values[key]
            return f"swap {key} and {other}"
        case 7:
            values[key] = retyped(random, values[key])
            return f"retype {key}"
        case 8:
            stray = random.choice(
                [
                    "junk",
                    "junk/log/x",
                    f"{CLUSTER}/log/!",
                    f"{key}{random.choice('0/z!~')}",
                    key.rpartition("/")[0] + random.choice(["", "/", "/~", "/!"]),
                    key[: random.randrange(1, len(key))],
                    KEYS.log_batch(random.choice(TIPS), random.randrange(30)),
                ]
            )
            values[stray] = values[key]
            return f"copy {key} to {stray}"
        case _:
            old = random.choice(sorted(original.older))
            values[old] = original.older[old]
            return f"bring back an older {old}"


# Which answers are right.


def truths(original: Written, values: Values, tip: TopicIdPartition) -> list[Truth]:
    """What is right to say of `tip`: how it stood, or as far as nobody can know better.

    A log that lost its end is a shorter log, unless a checkpoint says that it was longer. What
    stands before its first slot is for `verify` to find: nobody reads it.
    """
    steps = original.states[tip]
    right = [steps[-1][1]]
    first = steps[0][0]
    there = [key for key in values if key.startswith(KEYS.log(tip)) and key >= first]
    left = [key for key, _ in steps if values.get(key) == original.values[key]]
    cut = len(left)
    if not left or left != [key for key, _ in steps[:cut]] or sorted(there) != left:
        return right
    try:
        checkpoint = parse_partition(SERDE, tip, values.get(KEYS.partition(tip), b""))
    except DataError:
        return [*right, steps[cut - 1][1]]
    reaches = checkpoint.next_batch <= KEYS.parse_log_batch(left[-1])[2] + 1
    return [*right, steps[cut - 1][1]] if reaches else right


class Said(NamedTuple):
    """A reader's answers; None and the reason if it found the partition damaged."""

    answer: Any
    trouble: str = ""


async def told(work: Coroutine[Any, Any, Any]) -> Said:
    """A reader's answers, or its documented error."""
    try:
        return Said(await work)
    except DataError as error:
        return Said(None, f"{type(error).__name__}: {error}")


async def read_commands(catalog: Catalog, tip: TopicIdPartition, right: list[Truth]) -> bool:
    """Ask all who read one partition without a service; whether any of them saw damage."""
    reader = catalog.reader(tip)
    state = await told(reader.state())
    if not state.trouble:
        assert truth_of(state.answer.state) in right
    points = await told(ask(catalog.reader(tip), asked))
    if not points.trouble:
        assert points.answer in [one.answers for one in right]
    past = await told(catalog.reader(tip).state_as_of(time_ms=2**62))
    if not past.trouble:
        assert truth_of(past.answer) in right
    events = await told(all_of(catalog.reader(tip).events()))
    tail = await told(all_of(catalog.reader(tip).events(10**6)))
    return bool(
        state.trouble
        or points.trouble
        or past.trouble
        or events.trouble
        or tail.trouble
        or reader.notes
    )


async def all_of(items: AsyncIterator[T]) -> list[T]:
    return [one async for one in items]


async def serve(original: Written, values: Values) -> None:
    """Lead and follow every partition on a host."""
    ended: list[bool] = []
    host = Host(
        "host-0",
        process="fuzz",
        pid=1,
        cluster_id=CLUSTER,
        backend=MemoryBackend(SortedDict(values)),
        keys=KEYS,
        serde=SERDE,
        limits=Limits(),
        clock=TickingClock(),
        give_up=lambda: ended.append(True),
    )
    host.start()
    await host.place(
        [
            Placement(PartitionKey.of(tip), tip.topic, role, Assignment(100, CLAIM))
            for tip in TIPS
            for role in (FOLLOWER, LEADER)
        ]
    )
    for tip in TIPS:
        for role in (FOLLOWER, LEADER):
            found = await served(host, tip, role)
            if found is not None:
                right = [one.answers for one in truths(original, values, tip)]
                assert found in right, (tip, role)
            assert found is not None or is_harmed(original, values, tip), (tip, role)
    assert not ended, "a host ends for no partition's sake"
    await host.abandon()


async def served(host: Host, tip: TopicIdPartition, role: str) -> list[Any] | None:
    """The answers of a leader or follower; None once it refuses."""
    calls = [QueryCall(PartitionKey.of(tip), role, question) for question in QUERIES]
    while True:
        found: list[Any] = [await host.call(call) for call in calls]
        if any(isinstance(one, NotReady) for one in found):
            await asyncio.sleep(0)
        elif any(isinstance(one, RemoteStorageError) or one.stale for one in found):
            return None
        else:
            assert all(isinstance(one, Answered) for one in found)
            return [one.value for one in found]


async def examine(original: Written, values: Values) -> None:
    """Ask everybody about a store that was damaged."""
    backend = MemoryBackend(SortedDict(values))
    assert CLUSTER in await clusters(backend)
    catalog = Catalog(backend, KEYS, SERDE, CLUSTER)
    listed = {entry.topic_id_partition: entry async for entry in catalog.partitions()}
    strays = [key async for key in stray_keys(backend)]
    assert set(catalog.strays) <= set(strays) | {key for key in values if "/log/" in key}
    sound = []
    for tip in TIPS:
        assert tip in listed
        saw_damage = await read_commands(catalog, tip, truths(original, values, tip))
        report = await verify(catalog.reader(tip))
        assert not (saw_damage and report.passed), "what one reader notices, verify does"
        if not is_harmed(original, values, tip):
            assert report.passed
            assert listed[tip].topic_id_partition.topic == tip.topic
            assert not saw_damage
        if all(one.kind is not FindingKind.LOG for one in report.findings):
            sound.append(catalog.reader(tip))
    await told(all_of(exported_records(sound)))  # Tags are damage to an export only.
    coordinator = Fold(CLUSTER, KEYS, SERDE)
    told_of = await told(read_on(coordinator, backend, KEYS))
    named = [key for key in values if key.startswith(KEYS.coordinator_log())]
    if not told_of.trouble and sorted(named) == original.coordinator_log:
        assert coordinated(coordinator) == original.coordinator
    await serve(original, values)


def is_harmed(original: Written, values: Values, tip: TopicIdPartition) -> bool:
    prefixes = (KEYS.log(tip), KEYS.state(tip))
    before, after = (
        {key: value for key, value in some.items() if key.startswith(prefixes)}
        for some in (original.values, values)
    )
    return before != after


def test_damage_is_named_and_never_answered_with(
    original: Written, draws: Iterator[Random]
) -> None:
    for random in draws:
        values = dict(original.values)
        done = [damage(random, values, original) for _ in range(random.randint(1, DAMAGES_MAX))]
        try:
            asyncio.run(asyncio.wait_for(examine(original, values), PATIENCE_S))
        except BaseException as error:
            error.add_note("after: " + "; ".join(done))
            raise


def test_a_store_that_is_whole_passes(original: Written) -> None:
    asyncio.run(examine(original, original.values))
