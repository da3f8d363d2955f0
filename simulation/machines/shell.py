"""One leader or follower on a host of virtual time: loading, reading on, checkpoints, effects.

What `PartitionShell` is in the service. No rule of the protocol stands here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tierledger.actors import messages as msg
from tierledger.actors import partition_shell
from tierledger.actors.answering import answer_now
from tierledger.actors.calls import FOLLOWER, LEADER, Answered
from tierledger.events.errors import (
    CorruptCheckpoint,
    DataError,
    OutcomeUnknown,
    RemoteStorageError,
    RetryableError,
)
from tierledger.events.event_codec import genesis
from tierledger.events.partition_state import PartitionState
from tierledger.simulation.checkers_fold import answer_of
from tierledger.simulation.machines.clockwork import MS
from tierledger.simulation.service.lying_store import completed
from tierledger.storage.backend import AtomicConflict, Remove
from tierledger.storage.checkpoint import LOAD_ATTEMPTS, CheckpointPlan, CheckpointStore
from tierledger.storage.event_log import StoredBatch

if TYPE_CHECKING:
    from tierledger.actors.follower import Follower
    from tierledger.actors.leader import Leader
    from tierledger.simulation.machines.host_node import HostNode
    from tierledger.storage.backend import Operation

RETRY = 100 * MS
"""Pause before a store that was away is asked again."""


class Shell:
    """A machine with its connections to the store and to its callers."""

    __slots__ = (
        "_attempts", "_checkpoints", "_clock", "_life", "_medium", "_must_rebuild",
        "_stored_partition", "assignment", "began", "host", "machine", "mark", "name", "number",
        "role",
    )  # fmt: skip

    def __init__(
        self, host: HostNode, role: str, number: int, machine: Leader | Follower
    ) -> None:
        world = host.world
        self.host = host
        self.role = role
        self.number = number
        self.machine = machine
        self.assignment = 0
        self.began = world.clock.now
        self.name = f"{host.life.name}/{number}/{role}/{world.next_number()}"
        self.mark = world.recording.mark
        self._clock, self._medium, self._life = world.clock, world.medium, host.life
        self._checkpoints = CheckpointStore(
            world.medium.backend, world.keys, host.serde, world.tips[number]
        )
        self._attempts = 0
        self._stored_partition: bytes | None = None
        self._must_rebuild = False

    def feed(self, stimulus: msg.Stimulus) -> None:
        """Let the machine handle `stimulus`, and carry out what it calls for."""
        for effect in self.machine.handle(stimulus):
            CARRY[type(effect)](self, effect)

    # Loading.

    def load(self) -> None:
        """Read the checkpoint, if there is a good one, and start the machine from it."""
        self._medium.ask_state(
            self._life, partial(completed_read, self._checkpoints), self._stored_read
        )

    def _stored_read(self, result: Any) -> None:  # noqa: ANN401
        if result is None:
            self._start_machine(self._blank(), 0)
        elif isinstance(result, RemoteStorageError):
            self.mark("load tried again")
            self._clock.after(RETRY, self._life, self.load)
        else:
            self._stored_partition = result
            work = partial(completed_load, self._checkpoints, result, self.role == LEADER)
            self._medium.ask_state(self._life, work, self._loaded)

    def _loaded(self, result: Any) -> None:  # noqa: ANN401
        if isinstance(result, CorruptCheckpoint):
            self._attempts += 1
            self.mark("checkpoint did not verify")
            if self._attempts < LOAD_ATTEMPTS:
                self.load()
                return
            self._must_rebuild = True
            self.mark("checkpoint given up for the log")
            self._start_machine(self._blank(), 0)
        elif isinstance(result, DataError):
            self.mark("checkpoint of a newer release")
            self.feed(msg.LoadFailed(result))
        elif isinstance(result, RemoteStorageError):
            self._clock.after(RETRY, self._life, self.load)
        else:
            state, next_batch = result
            self.mark("loaded from a checkpoint")
            self._start_machine(state, next_batch)

    def _start_machine(self, state: PartitionState, next_batch: int) -> None:
        self.host.world.passes("loaded", self._life)
        if not self._life.is_dead:
            self.host.world.observer.entered(self, state.next_position - 1, state.chain_hash)
            self.feed(msg.StateLoaded(state, next_batch))

    def _blank(self) -> PartitionState:
        tip = self.host.world.tips[self.number]
        origin = genesis(self.host.world.cluster_id, tip.topic_id, tip.partition)
        return PartitionState(tip, origin, tracks_changes=self.role == LEADER)

    def _read_log(self, number: int) -> None:
        limit = partition_shell.READ_BATCHES
        slot = (self.number, number)
        self._medium.read_log(self._life, slot, limit, self._log_read, number, limit)

    def _log_read(self, result: Any, number: int, limit: int) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            self._clock.after(RETRY, self._life, self._read_log, number)
            return
        batches = tuple(StoredBatch(at, value) for at, value in enumerate(result, number))
        machine = self.machine
        before = machine.position
        self.feed(msg.LogRead(number, batches, len(result) < limit))
        if machine.position > before:
            self.host.world.observer.read_on(self, before)

    # Effects.

    def _on_reply(self, effect: msg.Reply) -> None:
        self.host.reply(effect.reply_to, effect.position)

    def _on_reply_error(self, effect: msg.ReplyError) -> None:
        self.host.reply(effect.reply_to, effect.error)

    def _on_answer(self, effect: msg.Answer) -> None:
        state = self.machine.state
        assert state is not None, "a machine answers from a state"
        answered: Answered | RemoteStorageError | None
        try:
            answered = answer_now(state, effect.query, stale=effect.stale)
        except RemoteStorageError as error:
            answered = error
        if answered is None:  # Lists and long walks, made in one go here.
            value = answer_of(state, effect.query)
            answered = Answered(value, state.next_position - 1, stale=effect.stale)
        self.host.reply(effect.reply_to, answered)

    def _on_append(self, effect: msg.Append) -> None:
        self.host.append(self, effect.number, effect.value)

    def _on_read_slot(self, effect: msg.ReadSlot) -> None:
        if effect.delay_ms:
            delay = effect.delay_ms * MS
            self._clock.after(delay, self._life, self.host.look, self, effect.number)
        else:
            self.host.look(self, effect.number)

    def _on_read_log(self, effect: msg.ReadLog) -> None:
        self._read_log(effect.number)

    def _on_ask_oracle(self, effect: msg.AskOracle) -> None:
        self.mark("oracle asked")
        self._clock.after(effect.delay_ms * MS, self._life, self._ask_oracle, effect)

    def _ask_oracle(self, ask: msg.AskOracle) -> None:
        verdict = self.host.world.oracle(self.number)
        self.mark("oracle silent" if verdict is None else "oracle answered")
        self.feed(msg.OracleAnswered(ask.claim, verdict, self.host.now_ms(), ask.number))

    def _on_claim_refused(self, effect: msg.ClaimRefused) -> None:
        self.mark("claim refused by the log")
        self.host.refused(self, effect)

    def _on_head_moved(self, effect: msg.HeadMoved) -> None:
        follower = self.host.shells.get((self.number, FOLLOWER))
        if follower is not None:
            hint = msg.HintArrived(effect.position)
            self._clock.after(0, self._life, follower.feed, hint)

    def _on_alarm(self, effect: msg.Alarm) -> None:
        self.host.world.observer.alarmed(self, effect)

    def _on_gone(self, effect: msg.Gone) -> None:
        self.host.world.observer.left(self, effect.reason)
        self.host.forget(self, effect.reason)

    # Checkpoints.

    def _on_write_checkpoint(self, effect: msg.WriteCheckpoint) -> None:
        state = self.machine.state
        assert state is not None, "a machine checkpoints a state"
        plan = self._checkpoints.plan(state, effect.next_batch, self._stored_partition)
        self._write_checkpoint(plan)

    def _write_checkpoint(self, plan: CheckpointPlan) -> None:
        operations = plan.operations
        if self._must_rebuild:
            operations = [operations[0], *self._leftovers(), *operations[1:]]
        self._medium.write_state(self._life, operations, self._checkpoint_written, plan)

    def _leftovers(self) -> list[Operation]:
        keys, tip = self.host.world.keys, self.host.world.tips[self.number]
        prefix = keys.state(tip)
        return [
            Remove(key)
            for key in self._medium.state.irange(prefix, prefix + "\uffff")
            if key != keys.partition(tip)
        ]

    def _checkpoint_written(self, result: Any, plan: CheckpointPlan) -> None:  # noqa: ANN401
        if isinstance(result, AtomicConflict):
            work = partial(completed_read, self._checkpoints)
            self._medium.ask_state(self._life, work, self._conflict_read, plan)
        elif isinstance(result, OutcomeUnknown | RetryableError):
            self.mark("checkpoint tried again")
            self._clock.after(RETRY, self._life, self._write_checkpoint, plan)
        elif isinstance(result, RemoteStorageError):
            self._checkpoint_refused()
        else:
            self._checkpoint_stands(plan)

    def _conflict_read(self, result: Any, plan: CheckpointPlan) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            self._clock.after(RETRY, self._life, self._write_checkpoint, plan)
        elif result == plan.partition_value:
            self.mark("own checkpoint recognised")
            self._checkpoint_stands(plan)
        else:
            self._checkpoint_refused()

    def _checkpoint_refused(self) -> None:
        self.mark("checkpoint of a former leader refused")
        self.feed(msg.CheckpointDone(stored=False))

    def _checkpoint_stands(self, plan: CheckpointPlan) -> None:
        self.mark("checkpoint written")
        self.host.world.passes("checkpointed", self._life)
        if self._life.is_dead:
            return
        self._stored_partition = plan.partition_value
        self._must_rebuild = False
        if plan.is_finished:
            self.mark("checkpoint of a deleted partition swept")
            self._medium.ask_state(
                self._life, partial(completed_sweep, self._checkpoints), self._swept
            )
        else:
            self.feed(msg.CheckpointDone(stored=True))

    def _swept(self, _: object) -> None:
        self.feed(msg.CheckpointDone(stored=True))


def completed_read(checkpoints: CheckpointStore) -> bytes | None:
    return completed(checkpoints.read_stored())


def completed_load(
    checkpoints: CheckpointStore, stored: bytes, tracks_changes: bool
) -> tuple[PartitionState, int]:
    value = checkpoints.parse_partition(stored)
    state = completed(checkpoints.load(stored, value, tracks_changes=tracks_changes))
    return state, value.next_batch


def completed_sweep(checkpoints: CheckpointStore) -> None:
    completed(checkpoints.sweep())


CARRY: dict[type, Any] = {
    msg.Reply: Shell._on_reply,
    msg.ReplyError: Shell._on_reply_error,
    msg.Answer: Shell._on_answer,
    msg.Append: Shell._on_append,
    msg.ReadSlot: Shell._on_read_slot,
    msg.ReadLog: Shell._on_read_log,
    msg.AskOracle: Shell._on_ask_oracle,
    msg.ClaimRefused: Shell._on_claim_refused,
    msg.HeadMoved: Shell._on_head_moved,
    msg.Alarm: Shell._on_alarm,
    msg.Gone: Shell._on_gone,
    msg.WriteCheckpoint: Shell._on_write_checkpoint,
}
"""What carries each effect out."""
