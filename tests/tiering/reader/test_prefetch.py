"""Requests of a reading: which, how far ahead, and that none stays open."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.models.tiering.read_tier import reader, three_segments
from tierledger.events.errors import StorageUnavailable
from tierledger.tiering.reader.prefetch import Prefetched


async def test_who_stops_reading_ends_the_fetching() -> None:
    tier, _ = await three_segments()
    tier.storage.piece_bytes = 200
    tier.storage.gate = asyncio.Event()
    records = reader(tier).records()
    assert (await anext(records)).offset == 0
    assert tier.storage.open_fetches == 1

    await records.aclose()  # type: ignore[attr-defined]

    assert tier.storage.open_fetches == 0


async def test_two_readings_do_not_disturb_each_other() -> None:
    tier, _ = await three_segments()
    one = reader(tier)

    async def offsets(start: int) -> list[int]:
        return [record.offset async for record in one.records(start)]

    assert list(await asyncio.gather(offsets(0), offsets(13))) == [
        list(range(30)),
        list(range(13, 30)),
    ]


async def test_the_first_read_of_a_segment_asks_for_its_indexes_and_its_data() -> None:
    tier, _ = await three_segments()
    one = reader(tier)
    assert await one.end_offset() == 30
    tier.storage.requests.clear()

    found = [record.offset async for record in one.records(15, to_offset=17)]

    assert found == [15, 16]
    assert sorted({name for name, _ in tier.storage.requests}) == ["OFFSET", "TIMESTAMP", "log"]


class Items:
    """A source of items of 10 bytes that counts what was taken of it."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.count = count
        self.error = error
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[tuple[int, int]]:
        for number in range(self.count):
            self.taken += 1
            yield number, 10
            await asyncio.sleep(0)
        if self.error is not None:
            raise self.error


async def test_fetching_goes_ahead_up_to_its_bound_and_no_further() -> None:
    items = Items(20)
    async with Prefetched(items.__aiter__(), ahead_bytes=45) as ahead:
        for _ in range(50):
            await asyncio.sleep(0)
        assert items.taken == 5

        assert [await ahead.next() for _ in range(3)] == [0, 1, 2]
        for _ in range(50):
            await asyncio.sleep(0)
        assert items.taken == 8

        assert [await ahead.next() for _ in range(18)] == [*range(3, 20), None]


async def test_an_error_comes_after_what_came_before_it() -> None:
    items = Items(3, StorageUnavailable("away"))
    async with Prefetched(items.__aiter__()) as ahead:
        for _ in range(20):
            await asyncio.sleep(0)
        assert [await ahead.next() for _ in range(3)] == [0, 1, 2]
        with pytest.raises(StorageUnavailable):
            await ahead.next()
