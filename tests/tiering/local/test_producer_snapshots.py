"""A log from before Kafka 2.8: the producer snapshots that it lacks are made as Kafka does."""

from pathlib import Path

import pytest

from tests.models.tiering import tier_trace
from tests.models.tiering.copy_world import copy_task
from tests.models.tiering.memory_metadata import MemoryLedger
from tests.models.tiering.raw_batches import fields, raw_batch
from tests.models.tiering.written_log import ABORT, WrittenLog
from tierledger.events.errors import CorruptRemoteData
from tierledger.events.identifiers import TopicIdPartition
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.producer_snapshot import (
    ProducerState,
    open_transactions,
    parse_producer_snapshot,
)
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.local.directory import LogDirectory
from tierledger.tiering.local.producer_snapshots import ProducerSnapshots
from tierledger.tiering.reader.reader import IsolationLevel, RemoteLogReader


def states(snapshot: bytes) -> set[ProducerState]:
    return set(parse_producer_snapshot(snapshot, "it"))


@pytest.mark.parametrize("tip", tier_trace.topics(), ids=str)
def test_a_made_snapshot_is_the_one_that_a_broker_made(
    tip: TopicIdPartition, tmp_path: Path
) -> None:
    folder = tier_trace.local_log_directory(tmp_path, tip.topic, tip.partition)
    for file in folder.glob("*.snapshot"):
        file.unlink()
    in_order = ProducerSnapshots()

    for metadata, indexes, _ in tier_trace.segments_of(tip.topic, tip.partition):
        expected = states(indexes[IndexType.PRODUCER_SNAPSHOT])
        offset = metadata.end_offset + 1
        assert states(in_order.at(folder, offset)) == expected
        assert states(ProducerSnapshots().at(folder, offset)) == expected


@pytest.mark.parametrize("kept", [0, 1, -1])
async def test_a_topic_of_before_2_8_is_copied_and_read_committed(
    kept: int, tmp_path: Path
) -> None:
    tip = next(one for one in tier_trace.topics() if one.topic == "payments-tx")
    folder = tier_trace.local_log_directory(tmp_path, tip.topic, tip.partition)
    files = sorted(folder.glob("*.snapshot"))
    for file in files if kept == 0 else files[:-1] if kept < 0 else files[1:]:
        file.unlink()
    (tmp_path / "tier").mkdir()
    ledger, storage = MemoryLedger(), open_tier(f"dir:{tmp_path / 'tier'}")
    task = copy_task(await LogDirectory.open(folder, tip), ledger.store(tip), storage)

    done = await task.run_once()
    reader = RemoteLogReader(ledger.store(tip), storage, tip)
    found = [one async for one in reader.records(isolation=IsolationLevel.READ_COMMITTED)]

    assert done.segments == len(files)
    expected = tier_trace.consumed("read_committed")[tip.topic, tip.partition]
    end = tier_trace.ends()[tip.topic, tip.partition]["latest_tiered_offset"]
    assert [one.offset for one in found] == [
        one["offset"] for one in expected if one["offset"] <= end
    ]


def test_a_marker_of_a_new_epoch_begins_sequences_anew(tmp_path: Path) -> None:
    log = WrittenLog()
    log.append(3, 7)
    log.end_transaction(7, ABORT)
    log.append(2, 8)
    data = b"".join(one.data for one in log.batches) + raw_batch(6, [fields(0)])
    (tmp_path / f"{0:020}.log").write_bytes(data)

    first, second = sorted(states(ProducerSnapshots().at(tmp_path, 7)))

    assert (first.producer_id, first.last_offset, first.last_sequence) == (7, 2, 2)
    assert second.current_txn_first_offset == 4
    assert open_transactions([first, second]) == {8: 4}


def test_a_damaged_log_makes_no_snapshot(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").write_bytes(raw_batch(0, [fields(0)])[:-1] + b"?")

    with pytest.raises(CorruptRemoteData, match="checksum"):
        ProducerSnapshots().at(tmp_path, 1)
