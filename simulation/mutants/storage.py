"""Mistakes in what is stored and how it is read back: checkpoints, batches, the store."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgpack

from tierledger.actors import messages as msg
from tierledger.actors import replaying
from tierledger.actors.follower import Follower
from tierledger.actors.leader.machine import Leader
from tierledger.events.errors import CorruptLog, FormatTooNew
from tierledger.events.event_codec import PARTITION_CODEC, chain
from tierledger.events.log_events import Event, TombstonesDropped
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.mutants.mistakes import Patches, mistake
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.storage import serde as serdes
from tierledger.storage.backend import Operation, Put
from tierledger.storage.backends import memory
from tierledger.storage.partition.checkpoint import CheckpointDraft, CheckpointStore
from tierledger.storage.partition.event_log import DecodedBatch, StoredBatch, decode_batch

NOTHING = TombstonesDropped(0, 0)
"""An event without effect, in place of one that was left out."""

# Checkpoints.


@mistake("M10", "duplicate_write lost_write", within=500)
def request_ids_not_in_checkpoint() -> Patches:
    """Who loads a checkpoint does not know which requests were served."""
    return rewritten(PartitionState.head_fields, "sorted(self.requests.items())", "()")


@mistake("M11", "early_checkpoint", within=200)
def checkpoint_ahead_of_log() -> Patches:
    """A checkpoint holds the batch that is still on its way."""
    handle, freeze = Leader.handle, CheckpointStore.freeze
    on_its_way: dict[int, Any] = {}

    def handled(self: Leader, stimulus: msg.Stimulus) -> list[msg.Effect]:
        effects = handle(self, stimulus)
        if any(isinstance(one, msg.WriteCheckpoint) for one in effects):
            on_its_way.clear()
            on_its_way[id(self.state)] = self._in_flight
        return effects

    def ahead(
        self: CheckpointStore, state: PartitionState, next_batch: int, *, whole: bool = False
    ) -> CheckpointDraft:
        flight = on_its_way.pop(id(state), None)
        if flight is not None:
            state, next_batch = deepcopy(state), next_batch + 1
            evolve_all(state, flight.events, flight.chain_hash)
        return freeze(self, state, next_batch, whole=whole)

    return [(Leader, "handle", handled), (CheckpointStore, "freeze", ahead)]


@mistake("M12", "liveness")
def checkpoint_off_by_one() -> Patches:
    """A checkpoint says that the log goes on one batch later than it does."""
    next_batch = "next_batch=next_batch"
    return rewritten(CheckpointStore.freeze, next_batch, f"{next_batch} + 1")


@mistake("M13", "wrong_answer")
def batch_after_checkpoint_skipped() -> Patches:
    """The first batch behind a checkpoint is not applied."""
    patches: Patches = []
    for machine in (Leader, Follower):
        patches += _skipping(machine)
    return patches


def _skipping(machine: Any) -> Patches:  # noqa: ANN401 - Either of two.
    handle, log_read = machine.handle, machine._log_read

    def loaded(self: Any, stimulus: msg.Stimulus) -> Any:  # noqa: ANN401
        if isinstance(stimulus, msg.StateLoaded):
            self.skips_from = stimulus.next_batch
        return handle(self, stimulus)

    def skipping(self: Any, read: msg.LogRead) -> Any:  # noqa: ANN401
        state = self.state
        if read.batches and 0 < self.skips_from == read.number == self.next_batch:
            first, *rest = read.batches
            decoded = decode_batch(self._serde, first, state.next_position, state.chain_hash)
            state.next_position += len(decoded.events)
            state.chain_hash = decoded.chain_hash
            state.log_time_ms = decoded.events[-1].log_time_ms
            self.next_batch += 1
            read = read._replace(number=self.next_batch, batches=tuple(rest))
        return log_read(self, read)

    return [(machine, "handle", loaded), (machine, "_log_read", skipping)]


@mistake("M22", "checkpoint_regressed CorruptCheckpoint", within=500)
def zombie_checkpoint() -> Patches:
    """A checkpoint is written whatever stands there."""

    def unfenced(self: CheckpointStore, value: bytes, _expected: bytes | None) -> Operation:
        return Put(self.keys.partition(self.topic_id_partition), value)

    return [(CheckpointStore, "_guard", unfenced)]


@mistake("M30", "CorruptCheckpoint")
def upcaster_loses_a_field() -> Patches:
    """What an older release wrote is brought up to date with one field too few."""
    return rewritten(
        serdes._with_dispute_run,
        "[*fields[head_at], None]",
        "[*fields[head_at][:9], [0, 0, 0], fields[head_at][10], None]",
    )


# Batches.


def _decoding(replacement: Any) -> Patches:  # noqa: ANN401
    return [(replaying, "decode_batch", replacement)]


def _envelope(value: bytes, position: int) -> list[bytes]:
    """The stored events of a batch, none of which is verified."""
    first, count, stored = msgpack.unpackb(value[serdes.HEADER_BYTES :])
    if first != position or count != len(stored) or not count:
        raise CorruptLog(f"expected a batch from {position}, got {first}")
    return list(stored)


@mistake("M27", "wrong_answer replay_determinism feed_gap CorruptLog", within=500)
def checksums_not_checked() -> Patches:
    """Batches are applied as they are read."""

    def trusting(serde: Any, batch: StoredBatch, position: int, before: bytes) -> DecodedBatch:  # noqa: ANN401
        try:
            return decode_batch(serde, batch, position, before)
        except CorruptLog as error:
            try:
                stored = _envelope(batch.value, position)
                events = [_read(data, at) for at, data in enumerate(stored, position)]
            except (ValueError, TypeError, LookupError) as unreadable:
                raise error from unreadable
            return DecodedBatch(batch.number, events, chain(stored[-1]))

    return _decoding(trusting)


def _read(data: bytes, position: int) -> Event:
    _, session, kind, _, log_time, broker, request, _, fields = msgpack.unpackb(
        data[4:], use_list=False
    )
    body = PARTITION_CODEC._by_number[kind][0](*fields)
    return Event(position, session, log_time, broker, request, body)


@mistake("M29", "wrong_answer replay_determinism feed_gap CorruptLog", within=500)
def unreadable_batch_left_out() -> Patches:
    """A batch that does not verify is passed over."""
    return _leaving_out(CorruptLog)


@mistake("M31", "wrong_answer")
def unknown_format_left_out() -> Patches:
    """What a newer release wrote is passed over."""
    return _leaving_out(FormatTooNew)


def _leaving_out(kind: type[Exception]) -> Patches:
    def silent(serde: Any, batch: StoredBatch, position: int, before: bytes) -> DecodedBatch:  # noqa: ANN401
        try:
            return decode_batch(serde, batch, position, before)
        except kind as error:
            try:
                stored = _envelope(batch.value, position)
                events = [_nothing(data, at) for at, data in enumerate(stored, position)]
            except (ValueError, TypeError, LookupError) as unreadable:
                raise error from unreadable
            return DecodedBatch(batch.number, events, chain(stored[-1]))

    return _decoding(silent)


def _nothing(data: bytes, position: int) -> Event:
    try:
        return _read(data, position)._replace(request_id=None, body=NOTHING)
    except (ValueError, TypeError, LookupError):
        return Event(position, 0, 0, -1, None, NOTHING)


# The store.


@mistake("M04", "checkpoint_regressed", within=500)
def conflict_not_noticed() -> Patches:
    """The store carries out a step that expected another value."""

    def never(_operation: object, _present: object) -> None:
        return None

    return [(memory, "conflict_of", never)]
