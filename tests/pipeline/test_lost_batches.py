"""No job takes a log that lost batches for a short one."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.models.pipeline.folded_tables import plan, rows_of, written
from tests.models.spark.rows import read_here
from tests.models.storage.stored_partitions import TIP, StoredPartition, finished
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.folding.task import DamagedLog
from tierledger.pipeline.source.columns import CORRUPT
from tierledger.storage.backends.sqlite.backend import SqliteBackend

OTHER = TopicIdPartition(Uuid(bytes(range(1, 17))), 0, "payments")
CHECKPOINT, END = 9, 12
HOLES = [[batch] for batch in range(END - 1)]
TAILS = [list(range(batch, END)) for batch in range(CHECKPOINT)]


@pytest.mark.parametrize("lost", [*HOLES, *TAILS], ids=lambda one: f"{one[0]}-{one[-1]}")
def test_a_log_that_lost_batches_is_set_aside_and_named(
    tmp_path: Path, lost: Sequence[int]
) -> None:
    async def step(backend: SqliteBackend) -> None:
        for tip in (OTHER, TIP):
            partition = await StoredPartition.led(backend, tip)
            while partition.next_batch < END:
                await partition.append(finished(partition.next_batch))
                if partition.next_batch == CHECKPOINT:
                    await partition.checkpoint()
        await StoredPartition(backend).lose(*lost)

    store = written(tmp_path / "store.sqlite", step)
    damaged: list[DamagedLog] = []

    rows = rows_of(plan("segments", store), damaged)
    events = read_here(f"sqlite:{tmp_path / 'store.sqlite'}")

    (found,) = damaged
    assert found.topic_id == str(TIP.topic_id)
    assert f"batch {lost[0]} is missing" in found.message
    assert {row["topic"] for row in rows} == {"payments"}
    assert len(rows) == END - 1
    corrupt = [row for row in events if row["type"] == CORRUPT]
    assert {(row["topic_id"], row["position"]) for row in corrupt} == {
        (str(TIP.topic_id), max(2 * lost[0] - 1, 0))
    }
