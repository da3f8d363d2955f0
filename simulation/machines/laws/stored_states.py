"""The states that a store holds: in checkpoints, and behind them in logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from typing_extensions import override

from tierledger.actors.calls import PartitionKey
from tierledger.events.errors import CorruptCheckpoint
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.fold import UNFOLDABLE
from tierledger.simulation.checkers.state_digest import fields_that_differ, state_digest
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.observations import CHECKPOINT, COLD, StateSeen
from tierledger.simulation.machines.environment.medium import completed
from tierledger.storage.partition.checkpoint import (
    CheckpointDraft,
    CheckpointPlan,
    CheckpointStore,
    PartitionValue,
)
from tierledger.storage.partition.event_log import StoredBatch, decode_batch
from tierledger.storage.serde import MetadataSerDe


def checkpoint_state(store: CheckpointStore, log: FinalLog, now: int) -> Iterator[StateSeen]:
    """The state in the newest checkpoint, if there is one.

    Raises:
        CorruptCheckpoint: It does not verify; the message names what differs from the log.
    """
    stored = completed(store.read_stored())
    if stored is None:
        return
    value = store.parse_partition(stored)
    try:
        state = completed(store.load(stored, value))
    except CorruptCheckpoint as error:
        names = _fields_wrong(store, stored, value, log)
        raise CorruptCheckpoint(f"{error}; {names} are not those of the log") from error
    position = value.next_position - 1
    yield StateSeen(now, "checkpoint", CHECKPOINT, log.key, position, state_digest(state))


def stray_key(store: CheckpointStore, stored: Iterable[str]) -> Iterator[Violation]:
    """The store has keys, among those of a partition's checkpoint, that belong to nothing.

    `stored`: all keys that start as that checkpoint's do. A checkpoint is written in one step,
    so there is never a time at which a page or row of a former one may be left. Only what a
    finished deletion left may wait to be swept.
    """
    tip, written = store.topic_id_partition, completed(store.read_stored())
    known: set[str] = set()
    if written is not None:
        value = store.parse_partition(written)
        state = completed(store.load(written, value))
        if state.is_finished:
            return
        whole = store.freeze(state, value.next_batch, whole=True)
        known = {one.key for one in completed(_planned(store, whole, written)).operations}
    for key in stored:
        if key not in known:
            message = f"key {key!r} is in the store, and no part of the checkpoint there"
            yield Violation("stray_key", PartitionKey.of(tip), message)


def cold_state(
    store: CheckpointStore,
    log: FinalLog,
    serde: MetadataSerDe,
    batches: Iterable[tuple[int, bytes]],
    now: int,
) -> StateSeen:
    """The state that a new process loads after all others have ended.

    `batches`: the log's batches by number, as they are read.
    """
    stored = completed(store.read_stored())
    state, at = PartitionState(log.topic_id_partition, log.genesis), 0
    if stored is not None:
        value = store.parse_partition(stored)
        state, at = completed(store.load(stored, value)), value.next_batch
    for number, value_of in batches:
        if number >= at:
            read = StoredBatch(number, value_of)
            decoded = decode_batch(serde, read, state.next_position, state.chain_hash)
            evolve_all(state, decoded.events, decoded.chain_hash)
    return StateSeen(now, "cold", COLD, log.key, state.next_position - 1, state_digest(state))


async def _planned(
    store: CheckpointStore, draft: CheckpointDraft, written: bytes
) -> CheckpointPlan:
    steps = store.steps(draft, written)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        plan: CheckpointPlan = end.value
        return plan


class _Whatever:
    """Equal to any other value, in place of a digest or count that is not checked."""

    @override
    def __eq__(self, other: object) -> bool:
        return True

    @override
    def __hash__(self) -> int:
        return 0


def _fields_wrong(
    store: CheckpointStore, stored: bytes, value: PartitionValue, log: FinalLog
) -> str:
    """The fields of a checkpoint that does not verify which differ from the log, as text."""
    try:
        believed = value._replace(digest=_Whatever(), row_count=_Whatever())  # type: ignore[arg-type]
        state = completed(store.load(stored, believed))
        until = log.events[: value.next_position]
        fold = PartitionState(log.topic_id_partition, log.genesis)
        evolve_all(fold, until, log.chain_hashes.get(value.next_position - 1, b""))
    except UNFOLDABLE as error:
        return f"they cannot even be read ({error}), so that all"
    return f"its {', '.join(fields_that_differ(state_digest(state), state_digest(fold)))}"
