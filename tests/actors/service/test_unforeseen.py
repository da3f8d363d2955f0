"""A whole service in which a partition meets what nobody foresaw: the others go on."""

import asyncio
import zlib
from typing import Any

import msgpack

from tests.models.actors.harness import SERDE
from tests.models.actors.local_world import (
    CLUSTER,
    KEYS,
    POLL_S,
    LocalWorld,
    copy,
    listed,
    partition,
    segment,
)
from tests.models.storage.faulty_store import Faults
from tierledger.actors.calls import (
    LEADER,
    CommandCall,
    CountsCall,
    PartitionKey,
    PartitionsCall,
    QueryCall,
    ReadyCall,
)
from tierledger.actors.deadline import Attempt, Deadline
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd
from tierledger.events.errors import InvalidArgument
from tierledger.events.log_events import Origin

BODY = 8


POISONS: dict[str, tuple[bool, int, object]] = {
    "start_offset, got 10.0": (True, 1, 10.0),
    "epochs[1], got 10.0": (True, 3, [0, 10.0]),
    "start_offset, got None": (True, 1, None),
    "segment_id, got 5": (True, 0, 5),
    "expected 16 bytes for segment_id": (True, 0, b"short"),
    "to ascend": (True, 1, 1000),
    "for size, got 1099511627776": (True, 4, 1 << 40),
    "txn_index_empty, got 1": (True, 9, 1),
    "expected 12 fields": (False, BODY, [1]),
    "for position, got 3.0": (False, 0, 3.0),
    "log_time_ms, got '5'": (False, 4, "5"),
    "broker_id, got True": (False, 5, True),
    "request_id, got 5": (False, 6, 5),
}
"""What the third batch of a partition says instead of the truth, by the complaint about it:
whether in the event's body, which field, and its value."""


def poisoned(value: bytes, poison: tuple[bool, int, object]) -> bytes:
    """A batch with right checksums whose one event was changed."""
    first, count, (stored,) = SERDE.deserialize("batch", value)
    event = msgpack.unpackb(stored[4:])
    is_in_body, at, false = poison
    (event[BODY] if is_in_body else event)[at] = false
    packed: bytes = msgpack.packb(event)
    changed = zlib.crc32(packed).to_bytes(4, "big") + packed
    return SERDE.serialize("batch", [first, count, [changed]])


async def quarantined(world: LocalWorld, count: int) -> dict[int, str]:
    """The reasons of all quarantines, by partition, as soon as there are so many."""
    async with asyncio.timeout(20):
        while True:
            rows = await world.service.host("host-0").ask(PartitionsCall())
            found = {
                one["partition"]: one["reason"] for one in rows if one["phase"] == "quarantined"
            }
            if len(found) >= count:
                return found
            await asyncio.sleep(POLL_S)


async def test_poisoned_events_quarantine_their_partitions_with_the_state_before_them(
    shared: LocalWorld,
) -> None:
    tips = [partition(number) for number in range(len(POISONS) + 1)]
    *broken, whole = tips
    manager = await shared.leader(*tips)
    for tip in tips:
        await copy(manager, segment(0, tip), segment(1, tip))
    await shared.stop()
    changes = {
        KEYS.log_batch(tip, 3): change
        for tip, change in zip(broken, POISONS.values(), strict=True)
    }

    def poison(key: str, value: bytes) -> bytes | None:
        if key.startswith(f"{CLUSTER}/state/"):
            return b""  # Without their checkpoints the logs have to be read.
        return poisoned(value, changes[key]) if key in changes else None

    assert await shared.change_store(poison) > len(changes)
    await shared.start()
    process = (await shared.service.host("host-0").ask(CountsCall()))["process"]
    manager = await shared.leader(whole)
    other = await shared.broker(2)
    await other.on_partition_leadership_changes(broken, [])
    reasons = await quarantined(shared, len(broken))

    for tip, complaint in zip(broken, POISONS, strict=True):
        assert complaint in reasons[tip.partition]
        answered = await other.ask(tip, LEADER, Query("highest_offset"))
        assert (answered.value, answered.position, answered.stale) == (9, 2, True)
    await copy(manager, segment(2, whole))
    assert await listed(manager, whole) == [0, 1, 2]
    assert (await shared.service.host("host-0").ask(CountsCall()))["process"] == process


async def test_a_driver_that_fails_while_one_partition_loads_stops_no_other(
    shared: LocalWorld, faults: Faults
) -> None:
    broken, whole = partition(0), partition(1)
    await copy(await shared.leader(whole), segment(0, whole))
    faults.unforeseen = KEYS.log(broken)
    process = (await shared.service.host("host-0").ask(CountsCall()))["process"]

    other = await shared.broker(2)
    await other.on_partition_leadership_changes([broken], [])
    reasons = await quarantined(shared, 1)
    manager = await shared.leader(whole, broker_id=3)
    await copy(manager, segment(1, whole))

    assert "RuntimeError: a bug of the store's driver" in reasons[0]
    assert await listed(manager, whole) == [0, 1]
    assert (await shared.service.host("host-0").ask(CountsCall()))["process"] == process


async def test_a_malformed_call_is_refused_before_it_reaches_a_partition(
    shared: LocalWorld,
) -> None:
    tip = partition()
    manager = await shared.leader(tip)
    key, claim = PartitionKey.of(tip), manager.claim_to_lead(tip)
    assert claim is not None
    origin, changed = Origin(1, b"request"), segment(0)
    epochs: Any = changed.segment_leader_epochs
    epochs[0] = 30.0
    wrong: list[Any] = [
        None,
        (),
        CommandCall(key, cmd.AddSegment(claim, origin, changed)),
        CommandCall(key, cmd.AddSegment(claim, origin, None)),  # type: ignore[arg-type]
        CommandCall(key, cmd.AddSegment((1, 1), origin, segment(0))),  # type: ignore[arg-type]
        CommandCall(key, cmd.AddSegment(claim, Origin(1, "x"), segment(0))),  # type: ignore[arg-type]
        CommandCall(key, None),  # type: ignore[arg-type]
        CommandCall(PartitionKey(b"short", 0), cmd.DropTombstones()),
        QueryCall(key, LEADER, Query("lookup", None, 5)),  # type: ignore[arg-type]
        QueryCall(key, LEADER, Query("lookup", 0, 1 << 63)),
        QueryCall(key, LEADER, Query("size"), timeout_ms=1 << 80),
        QueryCall(key, [], Query("size")),  # type: ignore[arg-type]
        ReadyCall(key, LEADER, None),  # type: ignore[arg-type]
    ]

    host = shared.service.host("host-0")
    results = [await host.call(one, Attempt(Deadline(10))) for one in wrong]

    assert [type(result) for result in results] == [InvalidArgument] * len(wrong)
    assert "call.command.metadata.segment_leader_epochs[0], got 30.0" in str(results[2])
    await copy(manager, segment(0))
    assert await shared.alarms() == {}


async def test_a_host_whose_task_a_library_cancels_is_replaced(shared: LocalWorld) -> None:
    async def cancelled_from_within() -> None:
        raise asyncio.CancelledError

    tip = partition()
    manager = await shared.leader(tip)
    former = shared.service.host("host-0").host

    former.spawn(cancelled_from_within())
    await asyncio.sleep(0.1)

    await copy(manager, segment(0, tip))
    assert shared.service.host("host-0").host is not former


async def test_a_host_that_lives_without_its_standing_tasks_is_replaced(
    shared: LocalWorld,
) -> None:
    tip = partition()
    manager = await shared.leader(tip)
    former = shared.service.host("host-0").host

    former._standing[0].cancel()  # Nobody hears of that before the host is pinged.

    await copy(manager, segment(0, tip))
    assert shared.service.host("host-0").host is not former
