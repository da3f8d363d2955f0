"""A folder of a real broker's log, read and copied; and what a crash may leave of it."""

from pathlib import Path

import pytest

from tests.models.storage.flipped_bits import flipped
from tests.models.tiering import tier_trace
from tests.models.tiering.copy_world import copy_task
from tests.models.tiering.memory_metadata import MemoryLedger
from tests.models.tiering.memory_storage import MemoryStorage
from tierledger.events.errors import CorruptRemoteData, InvalidArgument
from tierledger.events.identifiers import TopicIdPartition
from tierledger.tiering.formats.producer_snapshot import ProducerState, format_producer_snapshot
from tierledger.tiering.formats.record_batches import BatchSplitter, RecordBatch
from tierledger.tiering.local.directory import LogDirectory

PAYMENTS = [one for one in tier_trace.topics() if one.topic == "payments-tx"]
GZIP = next(one for one in tier_trace.topics() if one.topic == "codec-gzip")
ENDS = tier_trace.ends()


def name(tip: TopicIdPartition) -> str:
    return f"{tip.topic}-{tip.partition}"


def lay_out(folder: Path, tip: TopicIdPartition = GZIP) -> Path:
    return tier_trace.local_log_directory(folder, tip.topic, tip.partition)


def without_active(log: Path) -> Path:
    """`log` with its last full segment as the active one; that segment's file."""
    *_, last, active = sorted(log.glob("*.log"))
    active.unlink()
    return last


def batches_of(path: Path) -> list[RecordBatch]:
    data = path.read_bytes()
    return list(BatchSplitter(path.name, 0, len(data)).feed(data))


def checkpoint(*entries: str) -> str:
    return "\n".join(("0", str(len(entries)), *entries, ""))


@pytest.mark.parametrize("tip", tier_trace.topics(), ids=name)
async def test_it_has_the_brokers_own_segments(tmp_path: Path, tip: TopicIdPartition) -> None:
    log = await LogDirectory.open(lay_out(tmp_path, tip), tip)

    told = [one.metadata for one in tier_trace.segments_of(tip.topic, tip.partition)]
    *closed, active = log.segments()
    assert [(one.base_offset, one.end_offset, one.size_in_bytes) for one in closed] == [
        (one.start_offset, one.end_offset, one.segment_size_in_bytes) for one in told
    ]
    assert [one.max_timestamp_ms for one in closed] == [one.max_timestamp_ms for one in told]
    end = ENDS[tip.topic, tip.partition]["latest_tiered_offset"] + 1
    assert (active.base_offset, active.size_in_bytes) == (end, 0)
    assert log.log_end_offset == end
    assert log.log_start_offset == 0
    assert log.leader_epochs == {0: 0}
    assert log.highest_offset_in_remote_storage == -1


@pytest.mark.parametrize("tip", tier_trace.topics(), ids=name)
async def test_its_copy_is_the_brokers_own_copy(tmp_path: Path, tip: TopicIdPartition) -> None:
    log = await LogDirectory.open(lay_out(tmp_path, tip), tip)
    storage, ledger = MemoryStorage(), MemoryLedger()
    told = tier_trace.segments_of(tip.topic, tip.partition)
    stable = [one for one in told if one.metadata.end_offset < log.last_stable_offset]

    await copy_task(log, ledger.store(tip), storage).run_once()

    copied = ledger.segments(tip)
    assert len(copied) == len(stable) >= len(told) - 1
    for ours, brokers in zip(copied, stable, strict=True):
        theirs = brokers.metadata
        assert (ours.start_offset, ours.end_offset) == (theirs.start_offset, theirs.end_offset)
        assert ours.segment_size_in_bytes == theirs.segment_size_in_bytes
        assert ours.max_timestamp_ms == theirs.max_timestamp_ms
        assert ours.segment_leader_epochs == theirs.segment_leader_epochs
        assert ours.txn_index_empty == theirs.txn_index_empty
        assert ours.state == theirs.state
        assert storage.logs[ours.remote_log_segment_id.id] == brokers.log
        assert storage.indexes[ours.remote_log_segment_id.id] == brokers.indexes
    assert log.highest_offset_in_remote_storage == stable[-1].metadata.end_offset


@pytest.mark.parametrize("has_index", [True, False])
async def test_the_newest_time_is_found_without_index(tmp_path: Path, has_index: bool) -> None:
    folder = lay_out(tmp_path)
    told = tier_trace.segments_of(GZIP.topic, GZIP.partition)
    for index in folder.glob("*.timeindex"):
        index.write_bytes(bytes(24) if has_index else b"")  # As Kafka makes room ahead.

    log = await LogDirectory.open(folder, GZIP)

    assert [one.max_timestamp_ms for one in log.segments()[:-1]] == [
        one.metadata.max_timestamp_ms for one in told
    ]


@pytest.mark.parametrize("has_snapshots", [True, False])
@pytest.mark.parametrize("tip", PAYMENTS, ids=name)
async def test_nothing_is_stable_behind_the_first_open_transaction(
    tmp_path: Path, tip: TopicIdPartition, has_snapshots: bool
) -> None:
    folder = lay_out(tmp_path, tip)
    active = without_active(folder)
    if not has_snapshots:
        for snapshot in folder.glob("*.snapshot"):
            snapshot.unlink()
    whole = active.read_bytes()
    before = [one for path in sorted(folder.glob("*.log"))[:-1] for one in batches_of(path)]
    open_since: dict[int, int] = {}
    unstable = 0
    log = None
    for number, batch in enumerate([*before, *batches_of(active)]):
        if batch.is_control:
            open_since.pop(batch.producer_id, None)
        elif batch.is_transactional:
            open_since.setdefault(batch.producer_id, batch.base_offset)
        written = number - len(before) + 1
        if written < 0:
            continue
        cut = sum(len(one.data) for one in batches_of(active)[:written])
        active.write_bytes(whole[:cut])
        if log is None:
            log = await LogDirectory.open(folder, tip)
        await log.refresh()
        end = batch.last_offset + 1
        assert log.log_end_offset == end
        assert log.last_stable_offset == min(open_since.values(), default=end)
        unstable += bool(open_since)
        active.write_bytes(whole)
    assert unstable > 10


@pytest.mark.parametrize("is_in_snapshot", [True, False])
async def test_a_transaction_of_several_batches_begins_with_its_first(
    tmp_path: Path, is_in_snapshot: bool
) -> None:
    tip = PAYMENTS[0]
    (first, *_) = [
        one
        for path in sorted(lay_out(tmp_path / "real", tip).glob("*.log"))
        for one in batches_of(path)
        if one.is_transactional and not one.is_control
    ]
    folder = tmp_path / f"{tip.topic}-{tip.partition}"
    folder.mkdir()
    copies = [at.to_bytes(8, "big") + first.data[8:] for at in (0, 100, 200)]  # Base offsets.
    if is_in_snapshot:
        producer = ProducerState(first.producer_id, 0, 0, 0, 0, 0, 0, 0)
        snapshot = format_producer_snapshot([producer])
        (folder / f"{100:020}.log").write_bytes(b"".join(copies[1:]))
        (folder / f"{100:020}.snapshot").write_bytes(snapshot)
        copies = copies[:1]
    (folder / f"{0:020}.log").write_bytes(b"".join(copies))

    log = await LogDirectory.open(folder, tip)

    assert log.last_stable_offset == 0
    assert log.log_end_offset > 200


async def test_what_is_known_of_a_closed_segment_stays_known(tmp_path: Path) -> None:
    log = await LogDirectory.open(lay_out(tmp_path), GZIP)
    before = log.segments()

    await log.refresh()

    assert log.segments() == before


@pytest.mark.parametrize("damage", ["longer", "shorter", "flipped"])
async def test_a_damaged_closed_segment_is_told_of(tmp_path: Path, damage: str) -> None:
    folder = lay_out(tmp_path)
    first = min(folder.glob("*.log"))
    whole = first.read_bytes()
    harms = {"longer": whole + whole[:5], "shorter": whole[:-5], "flipped": flipped(whole, 500)}
    first.write_bytes(harms[damage])
    first.with_suffix(".timeindex").unlink()
    if damage == "flipped":
        for snapshot in folder.glob("*.snapshot"):
            snapshot.unlink()

    with pytest.raises(CorruptRemoteData, match=str(first)):
        await LogDirectory.open(folder, GZIP)


async def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    tip = PAYMENTS[0]
    folder = lay_out(tmp_path, tip)
    without_active(folder)
    expected = (await LogDirectory.open(folder, tip)).last_stable_offset
    for snapshot in sorted(folder.glob("*.snapshot"))[1:]:
        snapshot.write_bytes(b"nonsense")

    assert (await LogDirectory.open(folder, tip)).last_stable_offset == expected


@pytest.mark.parametrize("missing", [1, 30, 61, 200])
async def test_a_batch_that_a_crash_cut_off_is_left_out(tmp_path: Path, missing: int) -> None:
    folder = lay_out(tmp_path)
    active = without_active(folder)
    batches = batches_of(active)
    active.write_bytes(active.read_bytes()[:-missing])

    log = await LogDirectory.open(folder, GZIP)

    assert log.log_end_offset == batches[-1].base_offset
    size = sum(len(one.data) for one in batches[:-1])
    assert log.segments()[-1].size_in_bytes == size
    assert active.stat().st_size > size


async def test_a_damaged_batch_ends_the_log_and_free_room_is_no_batch(tmp_path: Path) -> None:
    folder = lay_out(tmp_path)
    active = without_active(folder)
    whole, batches = active.read_bytes(), batches_of(active)
    active.write_bytes(flipped(whole))
    damaged = await LogDirectory.open(folder, GZIP)
    active.write_bytes(whole + bytes(4096))
    preallocated = await LogDirectory.open(folder, GZIP)

    assert damaged.log_end_offset == batches[-1].base_offset
    assert preallocated.log_end_offset == batches[-1].last_offset + 1
    assert preallocated.segments()[-1].size_in_bytes == len(whole)


async def test_only_what_is_replicated_is_stable(tmp_path: Path) -> None:
    folder = lay_out(tmp_path)
    marks = tmp_path / "replication-offset-checkpoint"
    seen = []
    for entry in (f"{GZIP.topic} 0 150", "other 0 7", f"{GZIP.topic} 0 9999"):
        marks.write_text(checkpoint("before 3 1", entry))
        seen.append((await LogDirectory.open(folder, GZIP)).last_stable_offset)

    assert seen == [150, 0, 207]


async def test_the_logs_start_is_kept_beside_those_of_other_partitions(tmp_path: Path) -> None:
    folder = lay_out(tmp_path)
    starts = tmp_path / "log-start-offset-checkpoint"
    starts.write_text(checkpoint("other 0 7", "other 1 8"))
    log = await LogDirectory.open(folder, GZIP)

    await log.raise_log_start_offset(150)
    await log.raise_log_start_offset(120)

    assert log.log_start_offset == 150
    assert starts.read_text() == checkpoint("other 0 7", "other 1 8", "codec-gzip 0 150")
    again = await LogDirectory.open(folder, GZIP)
    assert again.log_start_offset == 150
    assert again.leader_epochs == log.leader_epochs == {0: 150}
    assert (folder / "leader-epoch-checkpoint").read_text() == checkpoint("0 150")


async def test_partitions_that_share_a_checkpoint_keep_their_starts(tmp_path: Path) -> None:
    others = [one for one in tier_trace.topics() if one.topic.startswith("codec")]
    logs = [await LogDirectory.open(lay_out(tmp_path, one), one) for one in others]

    for offset in (1, 2, 3):
        for log in logs:
            await log.raise_log_start_offset(offset)

    for log, tip in zip(logs, others, strict=True):
        again = await LogDirectory.open(tmp_path / name(tip), log.topic_id_partition)
        assert again.log_start_offset == 3


async def test_the_start_may_be_the_end_and_nothing_behind_it(tmp_path: Path) -> None:
    log = await LogDirectory.open(lay_out(tmp_path), GZIP)

    await log.raise_log_start_offset(207)

    with pytest.raises(InvalidArgument, match="at most 207, where the log ends, got 208"):
        await log.raise_log_start_offset(208)
    assert log.log_start_offset == 207


@pytest.mark.parametrize(
    "text", ["", "1\n0\n", "0\n2\ncodec-gzip 0 5\n", "0\n1\ncodec-gzip 0\n", "0\n1\na 0 -1\n"]
)
async def test_a_bad_checkpoint_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    folder = lay_out(tmp_path)
    log = await LogDirectory.open(folder, GZIP)
    starts = tmp_path / "log-start-offset-checkpoint"
    starts.write_text(text)

    with pytest.raises(CorruptRemoteData, match=f"{starts}: expected"):
        await log.raise_log_start_offset(5)
    with pytest.raises(CorruptRemoteData):
        await LogDirectory.open(folder, GZIP)

    assert starts.read_text() == text
    assert log.log_start_offset == 0


async def test_epochs_behind_the_logs_end_are_left_out(tmp_path: Path) -> None:
    folder = lay_out(tmp_path)
    (folder / "leader-epoch-checkpoint").write_text(checkpoint("0 0", "1 207", "2 208"))

    log = await LogDirectory.open(folder, GZIP)

    assert log.leader_epochs == {0: 0, 1: 207}


async def test_the_highest_remote_offset_never_goes_back(tmp_path: Path) -> None:
    log = await LogDirectory.open(lay_out(tmp_path), GZIP)

    for offset in (-1, 100, 50):
        await log.raise_highest_offset_in_remote_storage(offset)

    assert log.highest_offset_in_remote_storage == 100


async def test_files_of_no_segment_are_passed_over(tmp_path: Path) -> None:
    folder = lay_out(tmp_path)
    for stray in ("00000000000000000300.log.deleted", "1.log", "x.log", "partition.metadata"):
        (folder / stray).write_bytes(b"stray")

    assert len((await LogDirectory.open(folder, GZIP)).segments()) == 3


async def test_an_empty_folder_is_an_empty_log(tmp_path: Path) -> None:
    folder = tmp_path / "codec-gzip-0"
    folder.mkdir()

    log = await LogDirectory.open(folder, GZIP)

    assert [(one.base_offset, one.next_base_offset) for one in log.segments()] == [(0, 0)]
    assert (log.log_end_offset, log.last_stable_offset) == (0, 0)
