"""Single answers from the store, for which only the needed parts of a checkpoint are read.

Rule: the checkpoint's value is read again at the end. If a writer has replaced it meanwhile,
the parts may not belong together, and the reading starts again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tierledger.events.errors import DataError
from tierledger.events.log_events import SegmentAdded, SegmentKept, SegmentUpdated
from tierledger.events.partition import answers
from tierledger.events.partition.state import PartitionState
from tierledger.storage.partition.checkpoint import LOAD_ATTEMPTS, PartitionValue
from tierledger.storage.partition.event_log import DecodedBatch, apply_events
from tierledger.storage.partition.reader import PartitionReader
from tierledger.storage.partition.sparse_state import Absent, FetchedParts

FETCHES_MAX = 64
"""Parts fetched one after another, after which the whole state is loaded instead."""

TAIL_EVENTS_MAX = 20_000
"""Events after the checkpoint up to which a state is read sparsely; each fetch may have to
apply them again."""

UNREADABLE = (AttributeError, LookupError, TypeError, ValueError)
"""Errors of parts that verify but are malformed; loading the whole state then reports it."""

T = TypeVar("T")


async def ask(reader: PartitionReader, question: Callable[[PartitionState], T]) -> T:
    """The result of `question` for the newest state.

    `question` may be called several times, with states that have only part of the segments; it
    must change nothing and list nothing. If that gets slow, or a part does not verify, the
    whole state is loaded.

    Raises:
        RemoteResourceNotFound: The store has no such partition.
        CorruptLog: The log does not verify.
    """
    for _ in range(LOAD_ATTEMPTS):
        stored = await reader.checkpoints.read_stored()
        if stored is None:
            break
        try:
            value = reader.parse_checkpoint(stored)
            answer = await _answered(reader, value, question)
        except (DataError, _NotSparseError, *UNREADABLE):
            if await reader.checkpoints.read_stored() == stored:
                break  # Not replaced meanwhile: loading the whole state reports the damage.
        else:
            if await reader.checkpoints.read_stored() == stored:
                return answer
    state, _ = await reader.state()
    return question(state)


def next_segment_with_txn_index(state: PartitionState, epoch: int, offset: int) -> bytes | None:
    """The result of `answers.next_segment_with_txn_index`, without pauses."""
    while True:
        found = answers.next_segment_with_txn_index(state, epoch, offset)
        if not isinstance(found, answers.WalkPaused):
            return found
        offset = found.offset


class _NotSparseError(Exception):
    """Loading the whole state is faster."""


async def _answered(
    reader: PartitionReader, value: PartitionValue, question: Callable[[PartitionState], T]
) -> T:
    tail = await _tail(reader, value)
    parts = FetchedParts(reader.checkpoints, value)
    await parts.fetch_rows(_ids_in(tail))
    state = None
    for _ in range(FETCHES_MAX):
        fresh = parts.state() if state is None else state
        try:
            if state is None:
                _apply(fresh, tail)
                state = fresh
            return question(fresh)
        except Absent as absent:
            # If an event was applied in part, the next round begins with a fresh state.
            await parts.fetch(absent, fresh)
    raise _NotSparseError


async def _tail(reader: PartitionReader, value: PartitionValue) -> list[DecodedBatch]:
    tail = []
    async for batch in reader.tail(value):
        tail.append(batch)
        if batch.events[-1].position - value.next_position > TAIL_EVENTS_MAX:
            raise _NotSparseError
    return tail


def _ids_in(tail: list[DecodedBatch]) -> list[bytes]:
    return [
        event.body.segment_id
        for batch in tail
        for event in batch.events
        if isinstance(event.body, SegmentAdded | SegmentUpdated | SegmentKept)
    ]


def _apply(state: PartitionState, tail: list[DecodedBatch]) -> None:
    for batch in tail:
        apply_events(state, batch.number, batch.events, batch.chain_hash)
