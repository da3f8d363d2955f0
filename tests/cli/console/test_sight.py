"""What the console shows of a store before it has read the logs, and which it reads first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.models.cli.command_line import HOSTILE, ORDERS, orders, others, write
from tierledger.cli.commands.console import sight as of_sight
from tierledger.cli.commands.console.sight import SeenPartition, Sight, seen_partition
from tierledger.cli.opened_store import StoreOptions
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.catalog import Catalog


class HeldReading:
    """Reads partitions in place of the console, each once it was let."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.is_let = asyncio.Event()

    async def __call__(self, catalog: Catalog, tip: TopicIdPartition) -> SeenPartition:
        await self.is_let.wait()
        self.read.append(tip.topic)
        return await seen_partition(catalog, tip)


@asynccontextmanager
async def running(store: Path) -> AsyncIterator[Sight]:
    sight = Sight(StoreOptions(f"sqlite:{store}"))
    looking = asyncio.create_task(sight.run())
    try:
        yield sight
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


def test_partitions_are_known_before_their_logs_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "store", orders, others)

    async def look() -> None:
        held = HeldReading()
        monkeypatch.setattr(of_sight, "seen_partition", held)
        async with running(tmp_path / "store") as sight:
            async for _ in sight.changes():
                if sight.is_listed:
                    break
            early = list(sight.partitions.values())
            held.is_let.set()
            async for _ in sight.changes():
                if not any(one.is_early for one in sight.partitions.values()):
                    break
            read = sight.partitions

        (kept,) = [one for one in early if one.summary is not None]
        assert len(early) == 4
        assert all(one.is_early and one.error is None for one in early)
        assert (kept.name, kept.tip.topic_id) == ("orders-1", ORDERS)
        assert kept.summary is not None
        assert (kept.summary.position, kept.summary.counts) == (40, [0, 20, 0])
        found = read[kept.tip].summary
        assert found is not None
        assert (found.position, found.counts) == (43, [0, 18, 1])

    asyncio.run(look())


def test_what_is_on_the_screen_is_read_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "store", orders, others)

    async def look(*on_screen: TopicIdPartition) -> list[str]:
        held = HeldReading()
        held.is_let.set()
        monkeypatch.setattr(of_sight, "seen_partition", held)
        async with running(tmp_path / "store") as sight:
            sight.on_screen = on_screen
            async for _ in sight.changes():
                if len(held.read) == 4:
                    break
        return held.read

    assert asyncio.run(look()) == [HOSTILE, "gone", "orders", "orders"]
    last = TopicIdPartition(ORDERS, 1, "orders")
    assert asyncio.run(look(last)) == ["orders", HOSTILE, "gone", "orders"]
