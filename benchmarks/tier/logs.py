"""Kafka log directories of any size, as a broker would have written them."""

import random
import struct
from pathlib import Path
from typing import NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder  # type: ignore[import-untyped]

from tierledger.benchmarks.workload import START_MS
from tierledger.tiering.formats.leader_epoch_checkpoint import format_leader_epochs
from tierledger.tiering.formats.producer_snapshot import format_producer_snapshot

MAGIC = 2
LZ4 = 3
RECORD_BYTES = 1024
RECORDS_PER_BATCH = 16
INDEX_EVERY = 4096
"""Kafka's default of `index.interval.bytes`."""

WORDS = [b"%08x" % random.Random(number).getrandbits(32) for number in range(256)]


class WrittenLog(NamedTuple):
    """What `write_log` wrote, without the active segment."""

    segments: int
    size_in_bytes: int
    records: int

    @property
    def value_bytes(self) -> int:
        return self.records * RECORD_BYTES


def write_log(folder: Path, segments: int, segment_bytes: int) -> WrittenLog:
    """A log of so many full segments of records of 1 KiB under lz4, and an empty active one."""
    folder.mkdir(parents=True)
    batch = _batch(RECORDS_PER_BATCH)
    per_segment = max(1, segment_bytes // len(batch))
    offset = 0
    for _ in range(segments):
        _write_segment(folder, offset, batch, per_segment)
        offset += per_segment * RECORDS_PER_BATCH
        snapshot = folder / f"{offset:020}.snapshot"
        snapshot.write_bytes(format_producer_snapshot([]))
    _write_segment(folder, offset, batch, 0)
    (folder / "leader-epoch-checkpoint").write_bytes(format_leader_epochs({0: 0}))
    return WrittenLog(segments, segments * per_segment * len(batch), offset)


def _batch(records: int) -> bytearray:
    chosen = random.Random(1)
    builder = DefaultRecordBatchBuilder(MAGIC, LZ4, 0, -1, -1, -1, 1 << 20)
    for number in range(records):
        value = b"".join(chosen.choices(WORDS, k=RECORD_BYTES // 8))
        builder.append(number, START_MS, b"key-%d" % number, value, [])
    batch = bytearray(builder.build())
    batch[12:16] = struct.pack(
        ">i", 0
    )  # Leader epoch; neither it nor the offset is in the CRC.
    return batch


def _write_segment(folder: Path, base: int, batch: bytearray, batches: int) -> None:
    index = bytearray()
    since = 0
    with (folder / f"{base:020}.log").open("wb") as log:
        for number in range(batches):
            relative = number * RECORDS_PER_BATCH
            batch[:8] = struct.pack(">q", base + relative)
            if since > INDEX_EVERY:
                last = relative + RECORDS_PER_BATCH - 1
                index += struct.pack(">ii", last, number * len(batch))
                since = 0
            log.write(batch)
            since += len(batch)
    (folder / f"{base:020}.index").write_bytes(bytes(index))
    # All batches have the same time, and the first one reaches it.
    entry = struct.pack(">qi", START_MS, RECORDS_PER_BATCH - 1) if batches else b""
    (folder / f"{base:020}.timeindex").write_bytes(entry)
