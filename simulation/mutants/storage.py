"""Mistakes in what is stored and how it is read back: checkpoints, batches, the store."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgpack

from tierledger.actors import follower
from tierledger.actors import messages as msg
from tierledger.actors.follower import Follower
from tierledger.actors.leader import machine as leader
from tierledger.actors.leader.machine import Leader
from tierledger.events.errors import CorruptLog, FormatTooNew
from tierledger.events.event_codec import PARTITION_CODEC, chain
from tierledger.events.log_events import Event, TombstonesDropped
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.storage import serde as serdes
from tierledger.storage.backend import Operation, Put
from tierledger.storage.backends import memory
from tierledger.storage.partition.checkpoint import CheckpointDraft, CheckpointStore
from tierledger.storage.partition.event_log import DecodedBatch, StoredBatch, decode_batch

REQUESTS_AT = 3
"""Where the requests stand in `PartitionState.head_fields`."""

NOTHING = TombstonesDropped(0, 0)
"""An event without effect: what stands for one that was left out."""

# Checkpoints.


def request_ids_not_in_checkpoint() -> list[tuple[Any, str, Any]]:
    head_fields = PartitionState.head_fields

    def without(self: PartitionState) -> list[Any]:
        fields = head_fields(self)
        fields[REQUESTS_AT] = []
        return fields

    return [(PartitionState, "head_fields", without)]


def checkpoint_ahead_of_log() -> list[tuple[Any, str, Any]]:
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
            evolve_all(state, flight.events, flight.encoded.chain_hash)
        return freeze(self, state, next_batch, whole=whole)

    return [(Leader, "handle", handled), (CheckpointStore, "freeze", ahead)]


def checkpoint_off_by_one() -> list[tuple[Any, str, Any]]:
    freeze = CheckpointStore.freeze

    def late(
        self: CheckpointStore, state: PartitionState, next_batch: int, *, whole: bool = False
    ) -> CheckpointDraft:
        return freeze(self, state, next_batch + 1, whole=whole)

    return [(CheckpointStore, "freeze", late)]


def batch_after_checkpoint_skipped() -> list[tuple[Any, str, Any]]:
    patches: list[tuple[Any, str, Any]] = []
    for machine in (Leader, Follower):
        patches += _skipping(machine)
    return patches


def _skipping(machine: Any) -> list[tuple[Any, str, Any]]:  # noqa: ANN401 - Either of two.
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


def zombie_checkpoint() -> list[tuple[Any, str, Any]]:
    def unfenced(self: CheckpointStore, value: bytes, _expected: bytes | None) -> Operation:
        return Put(self.keys.partition(self.topic_id_partition), value)

    return [(CheckpointStore, "_guard", unfenced)]


def upcaster_loses_a_field() -> list[tuple[Any, str, Any]]:
    return rewritten(
        serdes._with_dispute_run,
        "[*fields[head_at], None]",
        "[*fields[head_at][:9], [0, 0, 0], fields[head_at][10], None]",
    )


# Batches.


def _decoding(replacement: Any) -> list[tuple[Any, str, Any]]:  # noqa: ANN401
    return [(module, "decode_batch", replacement) for module in (leader, follower)]


def _envelope(value: bytes, position: int) -> list[bytes]:
    """The stored events of a batch of which nothing is verified."""
    first, count, stored = msgpack.unpackb(value[serdes.HEADER_BYTES :])
    if first != position or count != len(stored) or not count:
        raise CorruptLog(f"expected a batch from {position}, it says {first}")
    return list(stored)


def checksums_not_checked() -> list[tuple[Any, str, Any]]:
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


def unreadable_batch_left_out() -> list[tuple[Any, str, Any]]:
    return _leaving_out(CorruptLog)


def unknown_format_left_out() -> list[tuple[Any, str, Any]]:
    return _leaving_out(FormatTooNew)


def _leaving_out(kind: type[Exception]) -> list[tuple[Any, str, Any]]:
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


def conflict_not_noticed() -> list[tuple[Any, str, Any]]:
    def never(_operation: object, _present: object) -> None:
        return None

    return [(memory, "_refuse_conflict", never)]
