"""Recorded metadata turned into batches of logs, in one process: no Spark, source or store."""

import time

from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.ledger import opened, partition_reader
from tierledger.benchmarks.spark import partition_of_many, store_of_many
from tierledger.benchmarks.workload import CLUSTER
from tierledger.events.event_codec import genesis
from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.imports.log import ImportingLog, RawRecord, Tally
from tierledger.pipeline.worker import without_cycles
from tierledger.storage.kafka_export import exported_records
from tierledger.storage.partition.loading import LoadedPartition
from tierledger.storage.partition.reader import PartitionReader

RECORDED = "recorded"
MICROSECONDS = 1e6


async def batches(bench: Bench) -> None:
    """Processor time of a record, from its bytes to the bytes of its batch."""
    partitions = min(100, bench["imported"])
    path = await store_of_many(bench, bench["imported"], partitions)
    backend = await opened(path)
    readers = [partition_reader(backend, partition_of_many(at)) for at in range(partitions)]
    recorded = [
        (reader, [RawRecord(*one) async for one in exported_records([reader])])
        for reader in readers
    ]
    count = sum(len(records) for _, records in recorded)
    for _ in bench.turns("records turned into batches"):
        with (
            without_cycles(),
            bench.timed("each", MICROSECONDS / count, time.process_time),
            bench.rated("rate", count, time.process_time),
        ):
            for reader, records in recorded:
                _imported(reader, records)
    await backend.close()


def _imported(reader: PartitionReader, records: list[RawRecord]) -> None:
    tip = reader.topic_id_partition
    state = PartitionState(tip, genesis(CLUSTER, tip.topic_id, tip.partition))
    tally = Tally(tip, [records[0].source])
    log = ImportingLog(reader, LoadedPartition(state, 0), tally, RECORDED, lambda _: False)
    for record in records:
        log.add(record)
    log.finish()
    assert tally.trouble is None, "the records are of one import"
