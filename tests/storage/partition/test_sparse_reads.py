"""Answers from a store's single values are the slow model's, wherever the checkpoint lies."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tests.models.events.driven_partition import TIP, import_of
from tests.models.events.histories import EPOCHS_PROBED, OFFSETS_PROBED, Step, histories
from tests.models.storage.stored_partitions import StoredPartition
from tierledger.events.partition import answers
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.simulation.checkers.slow.model import SlowPartition
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.partition.point_reads import ask, next_segment_with_txn_index
from tierledger.storage.partition.verification import VerificationReport, verify

Answers = list[tuple[int | bytes | None, ...]]


def from_state(state: PartitionState) -> Answers:
    found: Answers = []
    for epoch in EPOCHS_PROBED:
        highest = answers.highest_offset_for_epoch(state, epoch)
        found.append((epoch, answers.remote_log_size(state, epoch), highest))
        for offset in OFFSETS_PROBED:
            row = answers.lookup(state, epoch, offset)
            indexed = next_segment_with_txn_index(state, epoch, offset)
            ids = (None if one is None else id_of_row(one) for one in (row, indexed))
            found.append((epoch, offset, *ids))
    return found


def from_model(history: Step) -> Answers:
    model = SlowPartition()
    for record in history:
        model.apply(record)
    found: Answers = []
    for epoch in EPOCHS_PROBED:
        found.append((epoch, model.size(epoch), model.highest(epoch)))
        for offset in OFFSETS_PROBED:
            row = model.lookup(epoch, offset)
            found.append((epoch, offset, row, model.next_txn(epoch, offset)))
    return found


async def read(history: Step, checkpoint_at: int) -> tuple[Answers, VerificationReport, int]:
    partition = StoredPartition(MemoryBackend(), TIP)
    await partition.open(imports=True)
    for at, record in enumerate(history):
        if at == checkpoint_at:
            await partition.checkpoint()
        await partition.accept(import_of([record], at))
    reader = partition.reader()
    found = await ask(reader, from_state)
    report = await verify(partition.reader())
    return found, report, len(reader.notes)


@given(histories(), st.integers(0, 60))
def test_any_history_is_answered_alike_from_its_parts(history: Step, at: int) -> None:
    found, report, notes = asyncio.run(read(history, at))

    assert found == from_model(history)
    assert report.findings == ()
    assert notes == 0
