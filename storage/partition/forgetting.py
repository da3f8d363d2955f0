"""Removes the log of a partition that has no leader, and no segments or only unwanted ones.

A boundary stays: the partition's value with position, chain hash and digest. It is stored
twice: as the checkpoint from which a leader would continue, and in the next slot of the log,
created as a leader would create it. In the slot it outlives every checkpoint, so the next
position stays known. A process that slept meanwhile cannot create a slot before the boundary,
since slots are created only at a log's end.

Rule: the removal is one atomic step, which expects the log's end and the checkpoint on which it
was decided. So a service may be running: a leader or follower finds the boundary in the slot
that it would write or read next, and loads the state again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from tierledger.events.errors import RejectedError
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.state import PartitionState, Tombstones
from tierledger.events.tables.segment_rows import SegmentRows
from tierledger.storage.backend import Create, Operation, Remove
from tierledger.storage.partition.reader import PartitionReader

KEYS_PER_READ = 1000


async def forget(reader: PartitionReader, *, segments_too: bool = False) -> int:
    """Remove the partition's log and checkpoint, except the boundary; the number of keys.

    `segments_too`: also if it has segments, which nothing names any more then.

    Raises:
        RejectedError: The partition has segments or a leader, or segments that are kept from
            deletion. Nothing changed.
        AtomicConflict: Something was written meanwhile. Nothing changed.
        RemoteResourceNotFound: There is no such partition.
        CorruptLog: The log does not verify, so what it holds is not known. Nothing changed.
    """
    state, next_batch = await reader.state()
    refuse_led(state)
    refuse_kept(state)
    if not segments_too:
        refuse_unless_empty(state)
    slot = reader.log.key(next_batch)
    boundary, guard = await _boundary(reader, state, next_batch + 1)
    removals: list[Operation] = [Remove(key) async for key in _keys(reader) if key != guard.key]
    await reader.backend.execute_atomically([guard, Create(slot, boundary), *removals])
    return len(removals)


def refuse_led(state: PartitionState) -> None:
    """Check that the partition has no leader.

    Raises:
        RejectedError: It has.
    """
    if state.is_open and state.session is not None:
        tip, broker_id = state.topic_id_partition, state.session.broker_id
        raise RejectedError(f"{tip} is led by broker {broker_id}: stop it first")


def refuse_kept(state: PartitionState) -> None:
    """Check that the partition keeps no segments from deletion: only its log knows them.

    Raises:
        RejectedError: It does.
    """
    if len(state.kept):
        raise RejectedError(
            f"{state.topic_id_partition}: {len(state.kept)} deleted segments are kept, and "
            "only its log knows them"
        )


def refuse_unless_empty(state: PartitionState) -> None:
    """Check that the partition has no segments.

    Raises:
        RejectedError: It has.
    """
    tip, segments = state.topic_id_partition, sum(state.count_by_state)
    if segments:
        counts = zip(RemoteLogSegmentState, state.count_by_state, strict=False)
        by_state = ", ".join(f"{count} in {name.name}" for name, count in counts if count)
        raise RejectedError(f"{tip} still holds {segments} segments ({by_state})")


def emptied(state: PartitionState) -> PartitionState:
    """A partition's state without segments, reduced to its boundary."""
    kept = PartitionState(state.topic_id_partition, state.chain_hash)
    kept.next_position = state.next_position
    kept.restore_head(state.head_fields())
    kept.rows, kept.epochs, kept.tombstones = SegmentRows(), {}, Tombstones()
    kept.strays = {}
    kept.count_by_state, kept.bytes_by_state = [0, 0, 0], [0, 0, 0]
    return kept


async def _boundary(
    reader: PartitionReader, state: PartitionState, next_batch: int
) -> tuple[bytes, Operation]:
    """The boundary's value, and the operation that makes it the checkpoint."""
    expected = await reader.checkpoints.read_stored()
    plan = reader.checkpoints.plan(emptied(state), next_batch, expected)
    return plan.partition_value, plan.operations[0]


async def _keys(reader: PartitionReader) -> AsyncIterator[str]:
    tip = reader.topic_id_partition
    for prefix in (reader.keys.log(tip), reader.keys.state(tip)):
        after: str | None = None
        while rows := await reader.backend.get_like(prefix, after=after, limit=KEYS_PER_READ):
            for key, _ in rows:
                yield key
            after = rows[-1][0]
