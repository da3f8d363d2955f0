"""What was tiered and deleted over time, as the console reads it from the logs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.models.cli.command_line import ORDERS, orders, others, write
from tests.models.storage.stored_partitions import (
    SERDE,
    TIME_MS,
    StoredPartition,
    added,
    finished,
    updated,
)
from tierledger.cli.commands.console.growth import COLUMNS, Growth, MovedOverTime, TierChange
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.catalog import Catalog
from tierledger.tables import read

HOUR_MS = 3_600_000
GIVEN_UP = Uuid(bytes([11]) * 16)
TIP = TopicIdPartition(ORDERS, 1, "orders")


async def given_up(backend: SqliteBackend) -> None:
    """A log with a copy that was given up, and one that has not ended."""
    partition = await StoredPartition.led(backend, TopicIdPartition(GIVEN_UP, 0, "given-up"))
    await partition.fill([0])
    await partition.append([added(1, 10, 19), updated(1, 2), updated(1, 3), added(2, 10, 19)])


def catalog_of(partition: StoredPartition) -> Catalog:
    return Catalog(partition.backend, partition.keys, SERDE, partition.cluster)


async def ends_of(catalog: Catalog) -> dict[TopicIdPartition, str | None]:
    tips = [one.topic_id_partition async for one in catalog.partitions()]
    ends = await catalog.backend.last_keys([catalog.keys.log(tip) for tip in tips])
    return dict(zip(tips, ends, strict=True))


def moved(growth: Growth, span: str = "all") -> dict[str, TierChange]:
    sums: dict[str, TierChange] = {}
    for _, by_topic in growth.columns(span):
        for topic, one in by_topic.items():
            sums[topic] = sums.get(topic, TierChange()).plus(one)
    return sums


async def read_by_turns(catalog: Catalog, growth: Growth, seconds: float) -> int:
    """Read until there is nothing new; returns how many turns that took."""
    turns = 0
    while await growth.read(catalog, await ends_of(catalog), seconds):
        turns += 1
    return turns


def of_transitions(store: Path) -> dict[str, TierChange]:
    """The same from the table of how long segments stay in each state."""
    sums: dict[str, TierChange] = {}
    finished_once: set[Any] = set()
    size = 1000  # Of each segment of these logs.
    for row in read("transitions", f"sqlite:{store}").to_pylist():
        key = row["topic_id"], row["segment_id"]
        if row["state"] == "COPY_SEGMENT_FINISHED":
            finished_once.add(key)
            one = TierChange(tiered=1, tiered_bytes=size)
            sums[row["topic"]] = sums.get(row["topic"], TierChange()).plus(one)
        is_gone = row["next_state"] in {"DELETE_SEGMENT_FINISHED", "DELETE_PARTITION_FINISHED"}
        if is_gone and key in finished_once:
            one = TierChange(deleted=1, deleted_bytes=size)
            sums[row["topic"]] = sums.get(row["topic"], TierChange()).plus(one)
    return sums


@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_it_tells_what_the_table_of_transitions_tells(tmp_path: Path, seconds: float) -> None:
    write(tmp_path / "store", orders, others, given_up)
    growth = Growth(lambda: TIME_MS + HOUR_MS)

    async def run() -> int:
        backend = await SqliteBackend.open(tmp_path / "store")
        try:
            some = StoredPartition(backend)
            return await read_by_turns(catalog_of(some), growth, seconds)
        finally:
            await backend.close()

    turns = asyncio.run(run())

    assert moved(growth) == of_transitions(tmp_path / "store")
    assert moved(growth)["orders"] == TierChange(20, 20_000, 1, 1000)
    assert moved(growth)["given-up"] == TierChange(1, 1000)
    assert growth.copied_ms(TIP) == TIME_MS + 20_000
    assert (turns == 1) == bool(seconds), "without time each turn reads one batch"


async def test_what_is_new_in_a_log_is_read_behind_what_was_read() -> None:
    partition = await StoredPartition.led(MemoryBackend())
    catalog = catalog_of(partition)
    growth = Growth(lambda: TIME_MS + HOUR_MS)
    await partition.fill(range(3))
    await read_by_turns(catalog, growth, 60.0)
    before = moved(growth)

    await partition.append([*finished(3), updated(0, 2), updated(0, 3)])
    is_news = await growth.read(catalog, await ends_of(catalog), 60.0)

    assert before == {"orders": TierChange(3, 3000)}
    assert is_news
    assert moved(growth) == {"orders": TierChange(4, 4000, 1, 1000)}
    assert not await growth.read(catalog, await ends_of(catalog), 60.0)


async def test_a_damaged_log_is_read_up_to_the_damage_and_not_again() -> None:
    partition = await StoredPartition.led(MemoryBackend())
    await partition.fill(range(3))
    await partition.flip(2)
    catalog = catalog_of(partition)
    growth = Growth(lambda: TIME_MS + HOUR_MS)

    turns = await read_by_turns(catalog, growth, 60.0)

    assert turns == 1
    assert moved(growth) == {"orders": TierChange(1, 1000)}


def test_stretches_double_until_all_that_happened_is_in_them() -> None:
    whole = MovedOverTime(60_000, widens=True)
    now_ms = 1000 * HOUR_MS

    for hours in (0, 1, 500, 900):
        whole.add(
            now_ms - hours * HOUR_MS, now_ms, "t", TierChange(tiered=1, tiered_bytes=hours)
        )
    columns = whole.columns(now_ms)

    assert len(columns) <= COLUMNS
    assert whole.width_ms * COLUMNS < 2 * 2 * 900 * HOUR_MS, "no wider than they have to be"
    told = [(begin, sums["t"].tiered_bytes) for begin, sums in columns if sums]
    assert [size for _, size in told] == [900, 500, 1]
    for begin, hours in told[:2]:
        assert begin <= now_ms - hours * HOUR_MS < begin + whole.width_ms


def test_stretches_of_the_last_day_let_the_old_go() -> None:
    day = MovedOverTime(HOUR_MS // 2)
    now_ms = 1000 * HOUR_MS
    for hours in (23, 25, 1):
        day.add(now_ms - hours * HOUR_MS, now_ms, "t", TierChange(tiered=1))

    assert len(day.columns(now_ms)) == COLUMNS
    assert sum(sums["t"].tiered for _, sums in day.columns(now_ms) if sums) == 2
    later = day.columns(now_ms + 2 * HOUR_MS)
    assert sum(sums["t"].tiered for _, sums in later if sums) == 1


def test_a_time_ahead_of_now_hides_nothing() -> None:
    day = MovedOverTime(HOUR_MS // 2)
    now_ms = 1000 * HOUR_MS
    day.add(now_ms - HOUR_MS, now_ms, "t", TierChange(tiered=1))

    day.add(now_ms + 10_000 * HOUR_MS, now_ms, "t", TierChange(tiered=1))

    columns = day.columns(now_ms)
    assert sum(sums["t"].tiered for _, sums in columns if sums) == 2
    assert columns[-1][1]["t"] == TierChange(tiered=1)
