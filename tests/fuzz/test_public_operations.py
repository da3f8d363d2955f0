"""Whatever a caller gives to any public operation, in any order, hurts no other partition."""

import asyncio
import inspect
import math
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from msgspec.structs import replace

from tests.actors.client.test_sync_client import start_service
from tests.events.test_typed_fields import Hostile, HostileMapping
from tests.models.actors.local_world import (
    CLUSTER,
    CountedIds,
    LocalWorld,
    copy,
    moved,
    segment,
)
from tests.models.storage import faulty_store
from tierledger.actors.calls import FOLLOWER, LEADER, CountsCall, PartitionsCall
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.client.history import PartitionHistory
from tierledger.actors.client.sync_client import (
    BlockingPartitionHistory,
    RemoteLogMetadataManager,
)
from tierledger.actors.messages import Query
from tierledger.actors.queries import QUERIES
from tierledger.events import errors
from tierledger.events.commands import ImportedRecord
from tierledger.events.errors import InvalidArgument, NotReady, RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import CustomMetadata, RemotePartitionDeleteMetadata

CALLS_AT_ONCE = 24
CALLS_PER_DRAW = 3 * CALLS_AT_ONCE
BLOCKING_S = 3.0
"""Of the blocking client, whose witness is the same manager."""
HASTY_S = 0.3
"""Of the callers that err: much of what they wait for never comes."""

ATTACKER = 7
WITNESSED = [TopicIdPartition(Uuid(bytes(range(16))), number, "orders") for number in range(3)]
ATTACKED = [TopicIdPartition(Uuid(b"\xff" * 16), number, "attacked") for number in range(4)]

_log = structlog.get_logger("tests.fuzz")


DOCUMENTED = {kind for kind in vars(errors).values() if isinstance(kind, type)}


def is_public(member: object) -> bool:
    return inspect.isfunction(member) and not member.__name__.startswith("_")


def operations_of(kind: type) -> list[Callable[..., Any]]:
    return [member for _, member in inspect.getmembers(kind, is_public)]


OPERATIONS = operations_of(AsyncRemoteLogMetadataManager)
ASKED_OF_HISTORY = operations_of(PartitionHistory)
BLOCKING = [
    one
    for one in operations_of(RemoteLogMetadataManager)
    if one.__name__ not in {"close", "configure"}
]
ASKED_OF_BLOCKING_HISTORY = operations_of(BlockingPartitionHistory)


async def test_no_call_ends_a_host_or_hurts_another_partition(
    draws: Iterator[random.Random], tmp_path: Path
) -> None:
    world = LocalWorld(faulty_store.settings(str(tmp_path)))
    await world.start()
    witness = await world.leader(*WITNESSED)
    process = (await world.service.host("host-0").ask(CountsCall()))["process"]

    for number, rng in enumerate(draws):
        await attack(world, rng)

        for tip in WITNESSED:
            one = segment(number, tip)
            await copy(witness, one)
            found = await witness.remote_log_segment_metadata(tip, 0, one.start_offset)
            assert found is not None
            assert found.remote_log_segment_id == one.remote_log_segment_id
        counts = await world.service.host("host-0").ask(CountsCall())
        assert counts["process"] == process, "a host has ended"
        assert "quarantined" not in counts["alarms"], await troubles(world)
    await world.stop()


def test_no_blocking_call_ends_its_manager_or_hurts_another_partition(
    draws: Iterator[random.Random], tmp_path: Path
) -> None:
    config = {**faulty_store.settings(str(tmp_path)), "cluster.id": CLUSTER, "broker.id": 1}
    with (
        RemoteLogMetadataManager(start_service, deadline_s=BLOCKING_S) as manager,
        ThreadPoolExecutor(CALLS_AT_ONCE) as threads,
    ):
        manager.configure(config)
        manager.on_partition_leadership_changes(WITNESSED, [])
        manager.when_ready(WITNESSED)

        for number, rng in enumerate(draws):
            sources = [random.Random(rng.random()) for _ in range(CALLS_AT_ONCE)]
            list(threads.map(lambda source: blocking_call(source, manager), sources))

            for tip in WITNESSED:
                one = segment(number, tip)
                manager.add_remote_log_segment_metadata(one)
                manager.update_remote_log_segment_metadata(
                    moved(one, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
                )
                found = manager.remote_log_segment_metadata(tip, 0, one.start_offset)
                assert found is not None
                assert found.remote_log_segment_id == one.remote_log_segment_id


def blocking_call(rng: random.Random, manager: RemoteLogMetadataManager) -> None:
    """Any operation with any values; only documented errors come of it."""
    operation = rng.choice(BLOCKING)
    call: list[str] = [operation.__name__]
    try:
        result = operation(manager, **arguments(rng, operation, call))
        if isinstance(result, BlockingPartitionHistory):
            asked = rng.choice(ASKED_OF_BLOCKING_HISTORY)
            call.append(asked.__name__)
            result = asked(result, **arguments(rng, asked, call))
        if isinstance(result, Iterator):
            list(result)
    except Exception as error:
        if isinstance(error, RemoteStorageError) and type(error) in DOCUMENTED:
            return
        error.add_note(f"of {call}")
        raise


async def troubles(world: LocalWorld) -> list[str]:
    partitions = await world.service.host("host-0").ask(PartitionsCall())
    return [one["reason"] for one in partitions if one["reason"] is not None]


async def attack(world: LocalWorld, rng: random.Random) -> None:
    """Calls with wrong values, many at a time, by managers that come and go."""
    managers = [await newcomer(world)]
    for _ in range(CALLS_PER_DRAW // CALLS_AT_ONCE):
        if rng.random() < 0.3:
            managers.append(await newcomer(world))  # The one before is out of date now.
        if rng.random() < 0.1:
            managers.append(unconfigured(world))
        calls = [one_call(rng, rng.choice(managers)) for _ in range(CALLS_AT_ONCE)]
        await asyncio.gather(*calls)
    for manager in managers:
        await manager.close()


def unconfigured(world: LocalWorld) -> AsyncRemoteLogMetadataManager:
    return AsyncRemoteLogMetadataManager(
        world.service.connect, CountedIds(), deadline_s=HASTY_S
    )


async def newcomer(world: LocalWorld) -> AsyncRemoteLogMetadataManager:
    manager = unconfigured(world)
    while True:
        try:
            await manager.configure(
                {**world.storage, "cluster.id": CLUSTER, "broker.id": ATTACKER}
            )
        except NotReady:
            continue  # The machine is busy, and the deadline short.
        return manager


async def one_call(rng: random.Random, manager: AsyncRemoteLogMetadataManager) -> None:
    """Any operation with any values; only documented errors come of it."""
    operation = rng.choice(OPERATIONS)
    if operation.__name__ == "close" and rng.random() < 0.8:
        return  # Or nearly all calls would meet a closed manager.
    call: list[str] = [operation.__name__]
    try:
        result = operation(manager, **arguments(rng, operation, call))
        if isinstance(result, PartitionHistory):
            asked = rng.choice(ASKED_OF_HISTORY)
            call.append(asked.__name__)
            result = asked(result, **arguments(rng, asked, call))
        if inspect.isasyncgen(result):
            async for _ in result:
                pass
        elif inspect.isawaitable(result):
            await result
    except Exception as error:
        if isinstance(error, RemoteStorageError) and type(error) in DOCUMENTED:
            return
        error.add_note(f"of {call}")
        raise


def arguments(
    rng: random.Random, operation: Callable[..., Any], call: list[str]
) -> dict[str, object]:
    """A value for each of the operation's parameters: right, half right or quite wrong."""
    given = {}
    for parameter in list(inspect.signature(operation).parameters.values())[1:]:
        has_default = parameter.default is not inspect.Parameter.empty
        if has_default and rng.random() < 0.5:
            continue
        value = right(rng, parameter.name)
        if rng.random() < 0.5:
            value = spoilt(rng, value) if rng.random() < 0.5 else wrong(rng)
        given[parameter.name] = value
        call.append(f"{parameter.name}: {type(value).__name__}")
    return given


# Values.


def right(rng: random.Random, name: str) -> object:
    """Values for a parameter of that name; arbitrary ones for a name that is not known here."""
    tip = rng.choice(ATTACKED)
    number = rng.randrange(8)
    one: Any = segment(number, tip)
    states = list(RemoteLogSegmentState)
    values: dict[str, Callable[[], object]] = {
        "topic_id_partition": lambda: tip,
        "tip": lambda: tip,
        "metadata": lambda: rng.choice([one, one, deletion(rng, tip)]),
        "update": lambda: moved(one, rng.choice(states), rng.choice([None, b"x", bytes(129)])),
        "records": lambda: [
            ImportedRecord(0, at, at, KafkaRecord(rng.choice([one, deletion(rng, tip)])))
            for at in range(rng.randrange(4))
        ],
        "leader_epochs": lambda: {tip: number},
        "times": lambda: {tip: number},
        "cluster": lambda: "recorded",
        "config": lambda: {"cluster.id": CLUSTER, "broker.id": ATTACKER},
        "query": lambda: Query(rng.choice([*QUERIES]), number, number),
        "role": lambda: rng.choice([LEADER, FOLLOWER]),
    }
    if name.endswith(("partitions", "followers")):
        return rng.sample(ATTACKED, rng.randrange(1, len(ATTACKED)))
    return values.get(name, lambda: number)()


def deletion(rng: random.Random, tip: TopicIdPartition) -> RemotePartitionDeleteMetadata:
    state = rng.choice(list(RemotePartitionDeleteState)[:2])  # Not for good: others want it.
    return RemotePartitionDeleteMetadata(tip, state, rng.randrange(3), ATTACKER)


def spoilt(rng: random.Random, value: Any) -> object:  # noqa: ANN401 - Of any kind.
    """`value` with something wrong within it, if anything can be."""
    if isinstance(value, list):
        return [*value, wrong(rng)]
    if isinstance(value, dict):
        key = rng.choice([*value, wrong_key(rng)])
        return {**value, key: wrong(rng)}
    if isinstance(value, Query):
        spoiling: dict[str, Any] = {rng.choice(value._fields): wrong(rng)}
        return value._replace(**spoiling)
    if isinstance(value, int):
        return rng.choice([-1, 1, -1 << 31, 1 << 31, -1 << 63, 1 << 63, 10**400]) * (value or 1)
    if not hasattr(value, "__dataclass_fields__"):
        return wrong(rng)
    try:
        changed: Any = replace(value, **{rng.choice(value.__struct_fields__): wrong(rng)})
    except InvalidArgument:
        changed = value
    epochs = getattr(changed, "segment_leader_epochs", None)
    if epochs is not None and rng.random() < 0.5:
        epochs[wrong_key(rng)] = wrong(rng)  # A frozen object's mapping is not frozen.
    return changed


def wrong_key(rng: random.Random) -> object:
    return rng.choice([None, -1, 1.5, math.nan, "0", b"", True, 10**30, (0,), np.int64(3)])


def wrong(rng: random.Random, depth: int = 0) -> object:
    """Anything at all."""
    makers: list[Callable[[], object]] = [
        lambda: None,
        lambda: rng.choice([True, False]),
        lambda: rng.choice([30.0, -0.0, math.nan, math.inf]),
        lambda: rng.choice([-1, 0, 1 << 31, 1 << 63, -(1 << 64), 10**5000]),
        lambda: rng.choice([np.int32(3), np.int64(-1), np.uint64(1 << 63), np.float64(0)]),
        lambda: rng.choice(["", "0", "\ud800", "\x00", "é" * 300, "x" * 100_000]),
        lambda: rng.choice([b"", b"x", bytes(15), bytes(17), bytearray(16), memoryview(b"x")]),
        lambda: bytes(50 << 20) if rng.random() < 0.02 else bytes(1 << 16),
        lambda: rng.choice([Hostile(), HostileMapping(), object(), object, Exception("x")]),
        lambda: rng.choice([*ATTACKED, Uuid(bytes(16)), segment(1), *RemoteLogSegmentState]),
        lambda: RemoteLogSegmentId(rng.choice(ATTACKED), Uuid(rng.randbytes(16))),
        lambda: CustomMetadata(rng.choice([b"", bytes(128), bytes(1 << 21)])),
        lambda: {wrong_key(rng): wrong(rng, depth + 1)} if depth < 4 else {},
        lambda: [wrong(rng, depth + 1) for _ in range(rng.randrange(3))] if depth < 4 else [],
        lambda: (one for one in range(3)),
        lambda: (wrong(rng, depth + 1),) if depth < 4 else (),
    ]
    return rng.choice(makers)()
