"""Every object of a tier, damaged in every way, in every layout: who notices what."""

from pathlib import Path

import pytest

from tests.models.tiering.damaged_tier import ENTRIES, Damage, DamagedTier, payments
from tests.models.tiering.read_tier import read
from tests.models.tiering.written_log import WrittenLog, WrittenTier
from tierledger.events.errors import (
    CorruptRemoteData,
    RemoteResourceNotFound,
    RemoteStorageError,
)
from tierledger.tiering.formats.index_files import TIME_ENTRY
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import format_leader_epochs
from tierledger.tiering.formats.records import Record
from tierledger.tiering.index_cache.cache import RemoteIndexCache
from tierledger.tiering.layouts.tier_url import Layout
from tierledger.tiering.reader.reader import IsolationLevel, RemoteLogReader

LAYOUTS = pytest.mark.parametrize("layout", list(Layout))
COMMITTED = IsolationLevel.READ_COMMITTED


async def readings(tier: DamagedTier) -> list[tuple[list[Record], bool]]:
    """The result of each way of reading, and whether it ended with an error."""
    found = []
    for start, isolation in (
        (None, IsolationLevel.READ_UNCOMMITTED),
        (None, COMMITTED),
        (100, IsolationLevel.READ_UNCOMMITTED),
        (140, COMMITTED),
    ):
        records: list[Record] = []
        failed = False
        try:
            reader = await tier.reader()
            async for one in reader.records(start, isolation):
                records.append(one)  # noqa: PERF401 - What came before an error counts.
        except RemoteStorageError:
            failed = True
        found.append((records, failed))
    return found


async def times_of(tier: DamagedTier) -> list[int]:
    """The times of all records, ascending."""
    reader = await tier.reader()
    return sorted({one.timestamp_ms async for one in reader.records()})


async def offsets_of_times(tier: DamagedTier, times: list[int]) -> list[int | None]:
    """The offset that each time leads to; none if that was an error."""
    reader, found = await tier.reader(), []
    for time in times:
        try:
            found.append(await reader.from_timestamp(time))
        except RemoteStorageError:
            found.append(None)
    return found


@LAYOUTS
async def test_a_damaged_tier_reads_right_or_fails(layout: Layout, tmp_path: Path) -> None:
    tier = await DamagedTier.written(layout, tmp_path, payments())
    right = await readings(tier)
    times = (await times_of(tier))[5::24]
    offsets = await offsets_of_times(tier, times)
    assert not any(failed for _, failed in right)
    assert None not in offsets
    wrong = []

    for number in (0, 2):
        for damage in await tier.damages(number):
            async with tier.damaged(damage):
                found = await readings(tier)
                led = await offsets_of_times(tier, times)
            for (records, failed), (expected, _) in zip(found, right, strict=True):
                if records != (expected[: len(records)] if failed else expected):
                    wrong.append(str(damage))
            if any(one not in {None, offset} for one, offset in zip(led, offsets, strict=True)):
                wrong.append(f"{damage} (by time)")

    assert wrong == []


@pytest.mark.parametrize("shift", ["time", "offset"])
async def test_a_time_is_never_looked_for_behind_its_record(shift: str, tmp_path: Path) -> None:
    tier = await DamagedTier.written(Layout.LOCAL_TIERED, tmp_path, payments())
    (damage, *_) = [one for one in await tier.damages(2) if one.role == "timeindex"]
    entries = list(TIME_ENTRY.iter_unpack(damage.before))
    times = [one for one in await times_of(tier) if one > entries[0][0]][::7]
    right = await offsets_of_times(tier, times)
    told = 0

    for at in range(1, len(entries) - 1):
        (time, offset), changed = entries[at], entries[:]
        earlier, later = entries[at - 1], entries[at + 1]
        changed[at] = (earlier[0] + 1, offset) if shift == "time" else (time, later[1])
        content = b"".join(TIME_ENTRY.pack(*one) for one in changed)
        async with tier.damaged(damage._replace(content=content)):
            found = await offsets_of_times(tier, times)
        told += None in found
        assert [one or offset for one, offset in zip(found, right, strict=True)] == right

    assert told > 0


@LAYOUTS
async def test_a_log_with_a_byte_too_much_is_not_read(layout: Layout, tmp_path: Path) -> None:
    tier = await DamagedTier.written(layout, tmp_path, payments())
    for damage in await tier.damages(2):
        if damage.role.startswith("log") and damage.kind == "longer by a byte":
            size = len(damage.before)
            async with tier.damaged(damage):
                reader = await tier.reader()
                with pytest.raises(
                    CorruptRemoteData, match=f"expected {size} bytes, it has {size + 1}"
                ):
                    assert [one async for one in reader.records()] == []


def is_seen_by_size(layout: Layout, damage: Damage) -> bool:
    """Whether a list of names and sizes tells the damage."""
    if damage.content is None:
        return True
    size, before = len(damage.content), len(damage.before)
    if size == before:
        return False
    if layout == Layout.MANIFEST:  # Its log may be compressed; so nobody knows any size.
        return size == 0
    if layout == Layout.LEDGER or damage.role == "log":
        return True  # Every object has one size only.
    if damage.role == IndexType.LEADER_EPOCH.value:
        return size < before
    if damage.role == IndexType.TIMESTAMP.value and size == 0:
        return False  # That of records without timestamps is empty.
    return size == 0 or (size - before) % ENTRIES[damage.role] != 0


@LAYOUTS
async def test_an_audit_sees_what_sizes_tell(layout: Layout, tmp_path: Path) -> None:
    tier = await DamagedTier.written(layout, tmp_path, payments())
    assert await tier.audited() == {}
    wrong = []

    for number in (0, 2):
        for damage in await tier.damages(number):
            async with tier.damaged(damage):
                found = await tier.audited()
            segment_id = damage.segment.metadata.remote_log_segment_id.id
            is_seen = segment_id in found
            if found.keys() - {segment_id} or is_seen != is_seen_by_size(layout, damage):
                wrong.append(f"{damage}: {found}")
            if damage.content is None:
                what = "parts of the log" if damage.role.startswith("log.") else damage.role
                assert what in found[segment_id]

    assert wrong == []


async def test_an_emptied_offset_index_is_told_and_done_without(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tier = await DamagedTier.written(Layout.LOCAL_TIERED, tmp_path, payments())
    (damage,) = [
        one for one in await tier.damages(2) if (one.role, one.kind) == ("index", "emptied")
    ]
    tip = damage.segment.metadata.topic_id_partition
    right = [one.offset async for one in (await tier.reader()).records(140)]
    assert "without entries" not in "".join(capsys.readouterr())

    async with (
        tier.damaged(damage),
        RemoteIndexCache(tmp_path / "cache", tier.storage()) as cache,
    ):
        reader = RemoteLogReader(await tier.metadata(), tier.storage(), tip, cache)
        found = [one.offset async for one in reader.records(140)]
        uncached = [one.offset async for one in (await tier.reader()).records(140)]

    assert found == uncached == right
    assert cache.counts.empty_offset_indexes == 1
    assert "".join(capsys.readouterr()).count("offset index without entries") == 2


@pytest.mark.parametrize("start", [8, 12], ids=["too early", "too late"])
async def test_a_moved_epoch_gives_nothing_of_a_lost_lineage(start: int) -> None:
    tier, log = WrittenTier(), WrittenLog()
    log.fill(10, 2)
    await tier.copy(log, 0, 14)  # From 10 on, nobody else had it.
    log.elect(3, 10)
    log.fill(10, 2)
    await tier.copy(log, 10, 20)
    newest = await tier.copy(log, 20, 30)
    assert await read(tier) == (list(range(30)), None)
    indexes = tier.storage.indexes[newest.remote_log_segment_id.id]
    indexes[IndexType.LEADER_EPOCH] = format_leader_epochs({0: 0, 3: start})

    found, error = await read(tier)

    assert found == list(range(len(found)))
    assert len(found) <= 10
    assert isinstance(error, CorruptRemoteData | RemoteResourceNotFound)
