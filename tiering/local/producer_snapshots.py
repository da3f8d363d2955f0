"""Producer snapshots of a local log; those that it lacks are made from its batches.

Brokers before Kafka 2.8 kept the newest two only, so older segments of a topic from that time
have none. It blocks, since it reads files.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import Final

from tierledger.events.errors import CorruptRemoteData
from tierledger.tiering.formats.producer_snapshot import (
    NOT_IN_TRANSACTION,
    ProducerState,
    format_producer_snapshot,
    parse_producer_snapshot,
)
from tierledger.tiering.formats.record_batches import BatchSplitter, RecordBatch
from tierledger.tiering.formats.records import decoded
from tierledger.tiering.local.recovery import PIECE_BYTES, segment_bases
from tierledger.tiering.local.segment_files import segment_file, snapshot_file

_SEQUENCES: Final = 1 << 31
"""Sequence numbers begin again at 0 behind the largest 32-bit number."""

_END_MARKER: Final = Struct(">hi")
"""The value of a transaction's end marker: its version, and the coordinator's epoch."""

_NOTHING: Final = -1


class ProducerSnapshots:
    """The producer snapshots of one log, for one caller at a time."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._offset = 0
        self._producers: dict[int, ProducerState] = {}
        """The producers at `_offset`, made before: the next segment's snapshot needs them."""

    def at(self, folder: Path, offset: int) -> bytes:
        """The producer snapshot of the log in `folder` at `offset`, where a segment begins.

        Raises:
            CorruptRemoteData: It has to be made, and a batch before `offset` is damaged.
            RejectedError: It has to be made, and messages are from before Kafka 0.11.
        """
        try:
            return snapshot_file(folder, offset).read_bytes()
        except FileNotFoundError:
            pass
        bases = [base for base in segment_bases(folder) if base < offset]
        start, producers = self._known_in(folder, bases)
        for base in bases:
            if base >= start:
                _replay(segment_file(folder, base), producers)
        self._folder, self._offset, self._producers = folder, offset, producers
        return format_producer_snapshot(producers[one] for one in sorted(producers))

    def _known_in(self, folder: Path, bases: list[int]) -> tuple[int, dict[int, ProducerState]]:
        """The state at the last of `bases` at which it is known, and that offset."""
        made = self._offset if folder == self._folder else _NOTHING
        for base in reversed(bases):
            if base == made:
                return base, dict(self._producers)
            try:
                data = snapshot_file(folder, base).read_bytes()
                found = parse_producer_snapshot(data, str(folder))
            except (FileNotFoundError, CorruptRemoteData):
                continue
            return base, {one.producer_id: one for one in found}
        return 0, {}


def _replay(log: Path, producers: dict[int, ProducerState]) -> None:
    """Bring `producers` to the state behind the segment in the file `log`."""
    splitter = BatchSplitter(str(log), 0, log.stat().st_size)
    with log.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            for batch in splitter.feed(piece):
                if batch.producer_id >= 0:
                    known = producers.get(batch.producer_id) or _new(batch)
                    after = _after_marker if batch.is_control else _after_data
                    producers[batch.producer_id] = after(known, batch, str(log))
    splitter.finish()


def _new(batch: RecordBatch) -> ProducerState:
    return ProducerState(
        batch.producer_id,
        batch.producer_epoch,
        _NOTHING,
        _NOTHING,
        0,
        batch.max_timestamp_ms,
        _NOTHING,
        NOT_IN_TRANSACTION,
    )


def _after_data(known: ProducerState, batch: RecordBatch, _: str) -> ProducerState:
    count = batch.last_offset - batch.base_offset
    first = known.current_txn_first_offset
    if batch.is_transactional and first == NOT_IN_TRANSACTION:
        first = batch.base_offset
    return known._replace(
        producer_epoch=batch.producer_epoch,
        last_sequence=(batch.base_sequence + count) % _SEQUENCES,
        last_offset=batch.last_offset,
        offset_delta=count,
        timestamp_ms=batch.max_timestamp_ms,
        current_txn_first_offset=first,
    )


def _after_marker(known: ProducerState, batch: RecordBatch, log: str) -> ProducerState:
    if batch.producer_epoch != known.producer_epoch:  # As in Kafka, sequences begin anew.
        known = known._replace(last_sequence=_NOTHING, last_offset=_NOTHING, offset_delta=0)
    epoch = known.coordinator_epoch
    for record in decoded(batch, log).records:
        if record.value is not None and len(record.value) >= _END_MARKER.size:
            _, epoch = _END_MARKER.unpack_from(record.value)
    return known._replace(
        producer_epoch=batch.producer_epoch,
        timestamp_ms=batch.max_timestamp_ms,
        coordinator_epoch=epoch,
        current_txn_first_offset=NOT_IN_TRANSACTION,
    )
