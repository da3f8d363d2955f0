"""`trash purge` deletes the data of what was kept long enough, and what else it leaves."""

import asyncio
from pathlib import Path

from tests.models.cli.command_line import invoke, lines, refused
from tests.models.storage.stored_partitions import (
    CLUSTER,
    SERDE,
    TIP,
    StoredPartition,
    segment_id,
    updated,
)
from tierledger.actors.coordinator.events import HoldPlaced
from tierledger.actors.coordinator.log import folded
from tierledger.actors.holds import Hold
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.log_events import SegmentKept, SegmentPurged, SegmentPurgeStarted
from tierledger.events.partition.answers import metadata_of
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.catalog import Catalog
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.remote_storage_manager import LogSegmentData

DUE, LATER = 9, 2**45
HOLD = Hold("audit", TIP.topic, last_offset=9, reason="the audit", by="somebody")


class Trash:
    """A store with kept segments of a partition that nobody leads, and a tier."""

    def __init__(self, folder: Path) -> None:
        self.tier = folder / "tier"
        self.tier.mkdir(parents=True)
        self._folder = folder
        self._path = folder / "ledger.sqlite"
        self.store = ("--store", f"sqlite:{self._path}")
        self.given = ("trash", "purge", "--tier", f"dir:{self.tier}", *self.store)

    async def fill(
        self, *until_ms: int, hold: Hold | None = None, is_led: bool = False
    ) -> None:
        backend = await SqliteBackend.open(self._path)
        partition = await StoredPartition.led(backend)
        for number, until in enumerate(until_ms):
            await partition.fill([number])
            await self.copy(partition, number)
            kept = SegmentKept(segment_id(number), until, 1, 7, 5, "undo")
            await partition.append([updated(number, 2), kept])
        if not is_led:
            await partition.close()
        if hold is not None:
            fold = await folded(Catalog(backend, partition.keys, SERDE, CLUSTER))
            _, stored = fold.events_of([HoldPlaced(*hold)], fold.state, 1_000)
            await backend.create(fold.key(fold.next_batch), fold.batch_of(stored))
        await backend.close()

    async def copy(self, partition: StoredPartition, number: int) -> None:
        row = partition.state.rows.get(segment_id(number))
        assert row is not None
        segment = metadata_of(TIP, row)
        file = self._folder / "segment"
        file.write_bytes(bytes(segment.segment_size_in_bytes))
        data = LogSegmentData(file, file, file, None, b"", b"")
        async with open_tier(f"dir:{self.tier}") as storage:
            await storage.copy_log_segment_data(segment, data)

    async def append(self, *bodies: SegmentPurgeStarted | SegmentPurged) -> None:
        backend = await SqliteBackend.open(self._path)
        partition = await StoredPartition.resumed(backend)
        await partition.append(bodies)
        await backend.close()

    @property
    def objects(self) -> int:
        """Segments of which the tier has something."""
        return len({one.parent for one in self.tier.rglob("*") if one.is_file()})

    def kept(self) -> list[int]:
        shown = invoke("trash", "show", TIP.topic, str(TIP.partition), "--json", *self.store)
        return [one["start_offset"] for one in lines(shown)]


def test_what_is_due_goes_with_its_data_and_then_the_log_can_be_forgotten(
    tmp_path: Path,
) -> None:
    trash = Trash(tmp_path)
    asyncio.run(trash.fill(DUE, LATER, DUE))
    files = trash.objects
    (listed,) = lines(invoke("trash", "ls", "--json", *trash.store))

    (planned,) = lines(invoke(*trash.given, "--dry-run", "--json"))
    assert (planned["due"], planned["kept"], listed["due"]) == (2, 1, 2)
    assert "it is kept until" in planned["why_not"]
    assert trash.objects == files
    done = invoke(*trash.given, "--yes")

    assert done.exit_code == 0, done.output
    assert "purged 2 segments" in done.stdout
    assert trash.kept() == [10]
    assert trash.objects < files
    assert invoke(*trash.given, "--yes").exit_code == 0, "nothing is due any more"
    forget = ("forget", TIP.topic, str(TIP.partition), "--yes", *trash.store)
    refused(invoke(*forget), "1 deleted segments are kept")


def test_what_a_hold_is_about_stays_and_the_rest_goes(tmp_path: Path) -> None:
    trash = Trash(tmp_path)
    asyncio.run(trash.fill(DUE, DUE, hold=HOLD))

    done = invoke(*trash.given, TIP.topic, "--yes", "--json")

    assert "under the hold audit" in lines(done)[0]["why_not"]
    assert trash.kept() == [0]


def test_a_purge_that_was_killed_is_done_again_and_nobody_elses(tmp_path: Path) -> None:
    trash = Trash(tmp_path)
    asyncio.run(trash.fill(DUE, DUE, hold=HOLD))
    asyncio.run(trash.append(SegmentPurgeStarted(segment_id(0), LATER)))
    (shown,) = lines(invoke("trash", "purge", *trash.given[2:], "--dry-run", "--json"))
    assert "broker 1 is purging it" in shown["why_not"], "and it is too late for the hold"
    assert shown["due"] == 1

    asyncio.run(trash.append(SegmentPurgeStarted(segment_id(0), 1)))
    assert invoke(*trash.given, "--yes").exit_code == 0

    assert trash.kept() == []
    assert trash.objects == 0
    forget = ("forget", TIP.topic, str(TIP.partition), "--yes", *trash.store)
    assert invoke(*forget).exit_code == 0


def test_another_tier_and_what_is_led_are_left(tmp_path: Path) -> None:
    trash = Trash(tmp_path)
    asyncio.run(trash.fill(DUE))
    other = tmp_path / "other"
    other.mkdir()
    given = ("trash", "purge", "--yes", *trash.store, "--tier")

    for url, why in (
        (f"dir:{other}", "the tier has none of 1 segments"),
        (f"local-tiered:{trash.tier}", "which is only read here"),
    ):
        left = invoke(*given, url)
        assert left.exit_code == ExitStatus.USAGE
        assert why in left.stderr
    assert trash.kept() == [0]
    assert invoke(*given, f"dir:{other}", "--missing").exit_code == ExitStatus.WELL
    assert trash.kept() == []

    led = Trash(tmp_path / "led")
    asyncio.run(led.fill(DUE, is_led=True))
    left = invoke(*led.given, "--yes")
    assert "is led by broker 1" in left.stdout
    assert led.kept() == [0]
