"""Damage stops the rows of its own partition alone, and one row reports it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgpack
import pytest
from pyspark.sql import SparkSession

from tests.models.spark.rows import read_here, writing
from tests.models.storage.stored_partitions import (
    CLUSTER,
    SERDE,
    TIP,
    StoredPartition,
    finished,
)
from tierledger.events import log_events as log
from tierledger.events.event_codec import EventCodec, chain
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.frames import events
from tierledger.pipeline.source.columns import BOUNDARY, CORRUPT
from tierledger.pipeline.source.schema import EVENT_SCHEMA
from tierledger.storage.partition.forgetting import forget
from tierledger.storage.partition.reader import PartitionReader

OTHER = TopicIdPartition(Uuid(bytes(range(1, 17))), 0, "payments")

Damage = Callable[[StoredPartition], Awaitable[None]]


class OldDispute(NamedTuple):
    broker_id: int
    leader_epoch: int | None
    rival_broker_id: int
    rival_leader_epoch: int | None


class Unknown(NamedTuple):
    what: str


async def damaged(url: str, damage: Damage) -> None:
    """Two partitions of ten batches behind their sessions; `damage` is done to one."""
    async with writing(url) as backend:
        for tip in (OTHER, TIP):
            partition = await StoredPartition.led(backend, tip)
            await partition.fill(range(10))
            if tip is TIP:
                await damage(partition)


async def take_from_another_log(partition: StoredPartition) -> None:
    elsewhere = StoredPartition(partition.backend, OTHER)
    await replace(partition, 5, await elsewhere.batch(5))


def with_what_no_event_holds(stored: list[bytes]) -> list[bytes]:
    fields = msgpack.unpackb(stored[0][4:], use_list=False)
    body = log.SegmentAdded(*fields[8])._replace(start_offset="ten")  # type: ignore[arg-type]
    event = log.Event(fields[0], fields[1], fields[4], fields[5], fields[6], body)
    made = EventCodec(((4, log.SegmentAdded, 1),), is_strict=False).encode(event, fields[7])
    return [made, reencoded(stored[1], chain(made))]


def with_a_type_of_the_future(stored: list[bytes]) -> list[bytes]:
    fields = msgpack.unpackb(stored[0][4:], use_list=False)
    event = log.Event(fields[0], fields[1], fields[4], 1, None, Unknown("?"))  # type: ignore[arg-type]
    made = EventCodec(((99, Unknown, 1),)).encode(event, fields[7])
    return [made, reencoded(stored[1], chain(made))]


async def rewrite(
    partition: StoredPartition, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    """Batch 5 with other events, and the checksum of those."""
    first, _, stored = SERDE.deserialize("batch", await partition.batch(5))
    made = change(stored)
    await replace(partition, 5, SERDE.serialize("batch", [first, len(made), made]))


async def replace(partition: StoredPartition, number: int, value: bytes) -> None:
    await partition.backend.update(partition.batch_key(number), value)


def reencoded(stored: bytes, previous: bytes) -> bytes:
    fields = msgpack.unpackb(stored[4:], use_list=False)
    body = log.SegmentUpdated(*fields[8])
    event = log.Event(fields[0], fields[1], fields[4], fields[5], fields[6], body)
    return EventCodec(((5, log.SegmentUpdated, 1),)).encode(event, previous)


DAMAGES: dict[str, Damage] = {
    "a bit flipped": lambda one: one.flip(5),
    "a bit flipped under a right checksum": lambda one: rewrite(
        one, lambda stored: [stored[0], stored[1][:-1] + b"\x07"]
    ),
    "events swapped": lambda one: rewrite(one, lambda stored: stored[::-1]),
    "taken from another log": take_from_another_log,
    "what no event holds": lambda one: rewrite(one, with_what_no_event_holds),
    "a type of the future": lambda one: rewrite(one, with_a_type_of_the_future),
    "a batch lost": lambda one: one.lose(5),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_rows_stop_at_what_is_damaged_and_the_other_logs_are_whole(
    sqlite_url: str, damage: Damage
) -> None:
    asyncio.run(damaged(sqlite_url, damage))

    found = read_here(sqlite_url)

    mine = [row for row in found if row["topic_id"] == str(TIP.topic_id)]
    others = [row["position"] for row in found if row["topic_id"] == str(OTHER.topic_id)]
    assert others == list(range(21))
    assert [row["position"] for row in mine] == list(range(10))
    last = mine[-1]
    assert last["type"] == CORRUPT
    assert last["reason"]
    assert [row["type"] for row in mine[:-1]].count(CORRUPT) == 0


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("rows_per_task", [1, 5, 9])
def test_what_is_sound_before_damage_is_read_however_the_log_is_shared_out(
    sqlite_url: str, damage: Damage, rows_per_task: int
) -> None:
    asyncio.run(damaged(sqlite_url, damage))

    found = read_here(sqlite_url, rows_per_task=rows_per_task)

    mine = [row for row in found if row["topic_id"] == str(TIP.topic_id)]
    stop = [row["type"] for row in mine].index(CORRUPT)
    assert [row["position"] for row in mine[:stop]] == list(range(9))
    assert len(found) - len(mine) == 21


async def break_the_last(partition: StoredPartition) -> None:
    await replace(partition, 10, (await partition.batch(10))[:-1])


@pytest.mark.parametrize(
    ("damage", "sound"),
    [(lambda one: one.lose(0), 0), (break_the_last, 19)],
    ids=["first", "last"],
)
def test_a_damaged_beginning_or_end_is_a_row_too(
    sqlite_url: str, damage: Damage, sound: int
) -> None:
    asyncio.run(damaged(sqlite_url, damage))

    found = read_here(sqlite_url)

    mine = [row for row in found if row["topic_id"] == str(TIP.topic_id)]
    assert [row["position"] for row in mine[:-1]] == list(range(sound))
    assert (mine[-1]["type"], mine[-1]["position"]) == (CORRUPT, sound)


def test_a_corrupt_row_comes_through_spark(spark: SparkSession, sqlite_url: str) -> None:
    asyncio.run(damaged(sqlite_url, DAMAGES["a bit flipped"]))

    found = (
        events(spark, sqlite_url, columns=EVENT_SCHEMA.fieldNames())
        .where(f"type = '{CORRUPT}'")
        .collect()
    )

    (row,) = found
    assert (row.cluster, row.topic, row.partition, row.position) == (CLUSTER, "orders", 3, 9)
    assert "batch 5" in row.reason
    assert row.stored is None


def test_an_event_of_an_older_version_is_brought_up_to_date(sqlite_url: str) -> None:
    async def write() -> None:
        async with writing(sqlite_url) as backend:
            partition = StoredPartition(backend)
            codec = EventCodec(((1, log.SessionOpened, 1), (3, OldDispute, 1)))
            opened = log.SessionOpened(1, 5, 1, 1, 1, None, "orders", None)
            first = codec.encode(
                log.Event(0, 1, 7, 5, None, opened), partition.state.chain_hash
            )
            old: log.Body = OldDispute(5, None, 6, 7)  # type: ignore[assignment]
            second = codec.encode(log.Event(1, 1, 7, 5, None, old), chain(first))
            value = SERDE.serialize("batch", [0, 2, [first, second]])
            await backend.create(partition.keys.log_batch(TIP, 0), value)

    asyncio.run(write())

    _, found = read_here(sqlite_url)

    assert found["version"] == 1
    assert found["body"] == (
        '{"broker_id": 5, "leader_epoch": null, "rival_broker_id": 6, '
        '"rival_leader_epoch": 7, "in_a_row": 0}'
    )


def test_a_log_that_goes_on_after_it_was_forgotten_begins_with_its_boundary(
    sqlite_url: str,
) -> None:
    async def write() -> PartitionReader:
        async with writing(sqlite_url) as backend:
            partition = await StoredPartition.led(backend)
            await partition.close()
            await forget(partition.reader())
            partition = await StoredPartition.resumed(backend)
            await partition.open()
            await partition.append(finished(0))
        return partition.reader()

    asyncio.run(write())

    found = read_here(sqlite_url)

    assert [row["type"] for row in found] == [
        BOUNDARY,
        "SessionOpened",
        "SegmentAdded",
        "SegmentUpdated",
    ]
    positions = [row["position"] for row in found]
    assert positions == list(range(positions[0], positions[0] + 4))
