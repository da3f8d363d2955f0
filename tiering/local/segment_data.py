"""The description of a local segment for a copy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import RemoteLogSegmentId
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.formats.leader_epoch_checkpoint import format_leader_epochs
from tierledger.tiering.local.leader_epochs import epochs_between, epochs_until
from tierledger.tiering.local.log import LocalSegment
from tierledger.tiering.local.producer_snapshots import ProducerSnapshots
from tierledger.tiering.local.segment_files import index_file
from tierledger.tiering.remote_storage_manager import LogSegmentData


def describe_segment(
    segment_id: RemoteLogSegmentId,
    segment: LocalSegment,
    leader_epochs: Mapping[int, int],
    snapshots: ProducerSnapshots,
    *,
    broker_id: int,
    now_ms: int,
) -> tuple[RemoteLogSegmentMetadata, LogSegmentData]:
    """The metadata to announce for `segment` (COPY_SEGMENT_STARTED), and its data to copy.

    It blocks, since it looks at files. The metadata has the segment's own epochs. The data's
    checkpoint has all epochs from the log's start to the segment's end.

    `snapshots` makes the producer snapshot if the log has none there.

    Raises:
        CorruptRemoteData: The producer snapshot has to be made, and the log is damaged.
        InvalidArgument: A required file is missing, or the segment has no leader epoch.
    """
    data = _segment_data(segment, leader_epochs, snapshots)
    metadata = RemoteLogSegmentMetadata(
        remote_log_segment_id=segment_id,
        start_offset=segment.base_offset,
        end_offset=segment.end_offset,
        max_timestamp_ms=segment.max_timestamp_ms,
        broker_id=broker_id,
        event_timestamp_ms=now_ms,
        segment_size_in_bytes=segment.size_in_bytes,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        segment_leader_epochs=epochs_between(
            leader_epochs, segment.base_offset, segment.next_base_offset
        ),
        txn_index_empty=data.transaction_index is None,
    )
    return metadata, data


def _segment_data(
    segment: LocalSegment, leader_epochs: Mapping[int, int], snapshots: ProducerSnapshots
) -> LogSegmentData:
    log_file = segment.log_file
    transactions = index_file(log_file, IndexType.TRANSACTION)
    has_transactions = transactions.is_file() and transactions.stat().st_size > 0
    until_end = epochs_until(leader_epochs, segment.next_base_offset)
    return LogSegmentData(
        log_segment=_existing(log_file),
        offset_index=_existing(index_file(log_file, IndexType.OFFSET)),
        time_index=_existing(index_file(log_file, IndexType.TIMESTAMP)),
        transaction_index=transactions if has_transactions else None,
        producer_snapshot_index=snapshots.at(log_file.parent, segment.next_base_offset),
        leader_epoch_index=format_leader_epochs(until_end),
    )


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InvalidArgument(f"{path}: expected a file of the segment, there is none")
    return path
