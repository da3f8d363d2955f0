"""One leader or follower on a host of virtual time: loading, reading on, checkpoints, effects.

It takes the place of `PartitionShell`, and has no rule of the protocol: the machine
decides what happens next.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from tierledger.actors import messages as msg
from tierledger.actors.calls import FOLLOWER, LEADER, Answered
from tierledger.actors.follower import Follower
from tierledger.actors.host import partition_shell
from tierledger.actors.host.answering import answer_now, snapshot_for
from tierledger.actors.host.machine_guard import MachineGuard
from tierledger.actors.host.messages import Ended, Loaded, Refused, Stimulus
from tierledger.actors.leader.machine import Leader
from tierledger.actors.queries import answer_of
from tierledger.events.commands import LeaderVerdict
from tierledger.events.errors import (
    DataError,
    OutcomeUnknown,
    RemoteStorageError,
    RetryableError,
)
from tierledger.events.partition.answers import Snapshot
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife
from tierledger.simulation.machines.environment.medium import KeyedMedium, completed
from tierledger.simulation.machines.nodes.surroundings import Surroundings
from tierledger.storage.backend import AtomicConflict
from tierledger.storage.partition.checkpoint import (
    CheckpointPlan,
    CheckpointStore,
    CheckpointWriter,
    Standing,
)
from tierledger.storage.partition.event_log import StoredBatch
from tierledger.storage.partition.loading import LoadedPartition, Loading
from tierledger.storage.partition.reader import PartitionReader
from tierledger.storage.serde import MetadataSerDe

LIST_TAKES = 15 * MS
"""How long a list takes from its beginning to its end; its host runs other steps meanwhile."""

RETRY = 100 * MS
"""Pause before a request to an unreachable store is retried."""


class HostOfShell(Protocol):
    """The process that a shell runs in."""

    life: ProcessLife
    serde: MetadataSerDe
    shells: dict[tuple[int, str], Shell]

    @property
    def world(self) -> Surroundings: ...
    def now_ms(self) -> int: ...
    def hear(self, stimulus: Stimulus, /) -> None: ...
    def reply(self, reply_to: msg.ReplyTo, value: object, /) -> None: ...
    def append(self, shell: Shell, number: int, value: bytes, /) -> None: ...
    def look(self, shell: Shell, number: int, /) -> None: ...


class Shell:
    """A machine with its connections to the store and to its callers."""

    __slots__ = (
        "_checkpoints", "_clock", "_guard", "_medium", "_reader", "_writer",
        "began", "host", "key", "life", "machine", "mark", "name", "number", "role", "stay",
    )  # fmt: skip

    def __init__(
        self, host: HostOfShell, role: str, number: int, machine: Leader | Follower, stay: int
    ) -> None:
        """`stay`: the number of its life in the host's machine."""
        world = host.world
        self.host = host
        self.role = role
        self.number = number
        self.key = world.keys_of[number]
        self.machine = machine
        self._guard = MachineGuard(machine)
        self.stay = stay
        self.began = world.clock.now
        self.name = f"{host.life.name}/{number}/{role}/{world.next_number()}"
        self.mark = world.recording.mark
        self._clock, self._medium, self.life = world.clock, world.medium, host.life
        tip = world.tips[number]
        self._reader = PartitionReader(
            KeyedMedium(world.medium, world.keys, tip, number),
            world.keys,
            host.serde,
            world.cluster_id,
            tip,
        )
        self._checkpoints = self._reader.checkpoints
        self._writer = CheckpointWriter(self._checkpoints)

    def feed(self, stimulus: msg.Stimulus) -> None:
        """Let the machine handle `stimulus`, and carry out what it calls for."""
        self._carry_out(self._guard.handle(stimulus))

    def _carry_out(self, effects: list[msg.Effect]) -> None:
        # A failure is noted even if the machine has ended, and so calls for no effects.
        failure, self._guard.failure = self._guard.failure, None
        if failure is not None:
            self.host.world.observer.failed(self, failure)
        for effect in effects:
            try:
                CARRY[type(effect)](self, effect)
            except Exception as error:  # noqa: BLE001 - As in the service: this partition's own.
                self._carry_out(self._guard.failed(error))

    def has_history(self, position: int, chain_hash: bytes) -> bool:
        """Whether the log holds `position`, and `chain_hash` is its hash there."""
        near = self.machine.next_batch
        return completed(self._reader.has_history(position, chain_hash, near))

    # Loading.

    def load(self) -> None:
        """Start the machine from the checkpoint, or from where the log begins."""
        self._look(Loading(self._reader, tracks_changes=self.role == LEADER))

    def _look(self, loading: Loading) -> None:
        self._medium.ask_state(
            self.life, partial(completed_look, loading), self._looked, loading
        )

    def _looked(self, result: Any, loading: Loading) -> None:  # noqa: ANN401
        if result is None:  # There is a checkpoint to load.
            work = partial(completed_attempt, loading)
            self._medium.ask_state(self.life, work, self._loaded, loading)
        else:
            self._loaded(result, loading)

    def _loaded(self, result: Any, loading: Loading) -> None:  # noqa: ANN401
        if isinstance(result, DataError):
            self.mark("checkpoint of a newer release")
            self.feed(msg.LoadFailed(result))
            self.host.hear(Loaded(self.stay))
        elif isinstance(result, RemoteStorageError):
            self.mark("load tried again")
            self._clock.after(RETRY, self.life, self._look, loading)
        elif result is None:
            self.mark("checkpoint did not verify")
            self._look(loading)
        else:
            self._writer.stored = loading.stored
            if loading.trouble is not None:
                self._writer.is_whole = True
                self.mark("checkpoint given up for the log")
            elif loading.stored is not None:
                self.mark("loaded from a checkpoint")
            self._start_machine(*result)

    def _start_machine(self, state: PartitionState, next_batch: int) -> None:
        self.host.world.passes("loaded", self.life)
        if not self.life.is_dead:
            self.host.world.observer.entered(self, state.next_position - 1, state.chain_hash)
            self.feed(msg.StateLoaded(state, next_batch))
            self.host.hear(Loaded(self.stay))

    def _read_log(self, number: int) -> None:
        limit = partition_shell.READ_BATCHES
        slot = (self.number, number)
        self._medium.read_log(self.life, slot, limit, self._log_read, number, limit)

    def _log_read(self, result: Any, number: int, limit: int) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            self._clock.after(RETRY, self.life, self._read_log, number)
            return
        batches = tuple(StoredBatch(at, value) for at, value in enumerate(result, number))
        machine = self.machine
        before = machine.position
        if self.role == LEADER:
            self.host.world.passes("read", self.life)
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
        if answered is None:  # Lists and long walks take time: they read a snapshot.
            snapshot = snapshot_for(state, effect.query)
            self._clock.after(LIST_TAKES, self.life, self._answer_later, effect, snapshot)
            return
        self.host.reply(effect.reply_to, answered)

    def _answer_later(self, effect: msg.Answer, snapshot: Snapshot) -> None:
        value = answer_of(snapshot, effect.query)
        answered = Answered(value, snapshot.position, stale=effect.stale)
        self.host.reply(effect.reply_to, answered)

    def _on_append(self, effect: msg.Append) -> None:
        self.host.append(self, effect.number, effect.value)

    def _on_read_slot(self, effect: msg.ReadSlot) -> None:
        if effect.delay_ms:
            delay = effect.delay_ms * MS
            self._clock.after(delay, self.life, self.host.look, self, effect.number)
        else:
            self.host.look(self, effect.number)

    def _on_read_log(self, effect: msg.ReadLog) -> None:
        self._read_log(effect.number)

    def _on_ask_oracle(self, effect: msg.AskOracle) -> None:
        self.mark("oracle asked")
        self._clock.after(effect.delay_ms * MS, self.life, self._ask_oracle, effect)

    def _ask_oracle(self, ask: msg.AskOracle) -> None:
        world = self.host.world
        verdict = world.oracle(self.number)
        self.mark("oracle silent" if verdict is None else "oracle answered")
        delay = 0 if world.is_healing else world.scenario.oracle_delay
        self._clock.after(delay, self.life, self._oracle_answered, ask, verdict)

    def _oracle_answered(self, ask: msg.AskOracle, verdict: LeaderVerdict | None) -> None:
        world = self.host.world
        world.passes("verdict", self.life)
        if self.life.is_dead:
            return
        if verdict is not None and verdict != world.verdicts[self.number][-1]:
            self.mark("oracle outdated")
        self.feed(msg.OracleAnswered(ask.claim, verdict, self.host.now_ms(), ask.number))

    def _on_claim_refused(self, effect: msg.ClaimRefused) -> None:
        self.mark("claim refused by the log")
        self.host.hear(Refused(self.stay, effect))

    def _on_head_moved(self, effect: msg.HeadMoved) -> None:
        follower = self.host.shells.get((self.number, FOLLOWER))
        if follower is not None:
            hint = msg.HintArrived(effect.position)
            self._clock.after(0, self.life, follower.feed, hint)

    def _on_alarm(self, effect: msg.Alarm) -> None:
        self.host.world.observer.alarmed(self, effect)

    def _on_gone(self, effect: msg.Gone) -> None:
        self.host.world.observer.left(self, effect.reason)
        self.host.hear(Ended(self.stay, effect.reason))

    # Checkpoints.

    def _on_write_checkpoint(self, effect: msg.WriteCheckpoint) -> None:
        state = self.machine.state
        assert state is not None, "a machine checkpoints a state"
        draft = self._writer.freeze(state, effect.next_batch)
        self._write_checkpoint(completed(self._writer.plan(draft)))

    def _write_checkpoint(self, plan: CheckpointPlan) -> None:
        self._medium.write_state(self.life, plan.operations, self._checkpoint_written, plan)

    def _checkpoint_written(self, result: Any, plan: CheckpointPlan) -> None:  # noqa: ANN401
        if isinstance(result, AtomicConflict):
            work = partial(completed_read, self._checkpoints)
            self._medium.ask_state(self.life, work, self._conflict_read, plan)
        elif isinstance(result, OutcomeUnknown | RetryableError):
            self.mark("checkpoint tried again")
            self._clock.after(RETRY, self.life, self._write_checkpoint, plan)
        elif isinstance(result, RemoteStorageError):
            self._checkpoint_refused(again=False)
        else:
            self._writer.found(plan, plan.partition_value)
            self._checkpoint_stands(plan)

    def _conflict_read(self, result: Any, plan: CheckpointPlan) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            self._clock.after(RETRY, self.life, self._write_checkpoint, plan)
        elif (standing := self._writer.found(plan, result)) is Standing.OURS:
            self.mark("own checkpoint recognised")
            self._checkpoint_stands(plan)
        else:
            self._checkpoint_refused(again=standing is Standing.LESS)

    def _checkpoint_refused(self, *, again: bool) -> None:
        found = (
            "checkpoint of a former leader to be replaced"
            if again
            else "checkpoint of a former leader refused"
        )
        self.mark(found)
        self.host.world.recording.moment(self.life.name, found, "", None, self.number)
        self.feed(msg.CheckpointDone(stored=False, again=again))

    def _checkpoint_stands(self, plan: CheckpointPlan) -> None:
        self.mark("checkpoint written")
        text = f"up to position {plan.next_position - 1}"
        self.host.world.recording.moment(self.life.name, "checkpoint", text, None, self.number)
        self.host.world.passes("checkpointed", self.life)
        if self.life.is_dead:
            return
        if plan.is_finished:
            self.mark("checkpoint of a deleted partition swept")
            self._medium.ask_state(
                self.life, partial(completed_sweep, self._checkpoints), self._swept
            )
        else:
            self.feed(msg.CheckpointDone(stored=True))

    def _swept(self, _: object) -> None:
        self.feed(msg.CheckpointDone(stored=True))


def completed_read(checkpoints: CheckpointStore) -> bytes | None:
    return completed(checkpoints.read_stored())


def completed_look(loading: Loading) -> LoadedPartition | None:
    """The state to begin with; None if a checkpoint has to be loaded for it."""
    completed(loading.look())
    return completed(loading.attempt()) if loading.stored is None else None


def completed_attempt(loading: Loading) -> LoadedPartition | None:
    return completed(loading.attempt())


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
"""By the type of an effect, the method that carries it out."""
