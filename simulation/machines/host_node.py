"""A host that runs leaders and followers, and carries their effects out on virtual time.

What `Host` and `PartitionShell` are in the service: no rule of the protocol stands here.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from tierledger.actors import messages as msg
from tierledger.actors import partition_shell
from tierledger.actors.answering import answer_now
from tierledger.actors.calls import FOLLOWER, LEADER, Answered
from tierledger.actors.follower import Follower
from tierledger.actors.follower import Phase as FollowerPhase
from tierledger.actors.leader import Leader, Phase
from tierledger.actors.refusals import Refusal
from tierledger.events import commands as cmd
from tierledger.events.errors import (
    CorruptCheckpoint,
    DataError,
    NotLeader,
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
    from tierledger.actors.calls import PartitionKey, Placement
    from tierledger.actors.coordinator import HostWork
    from tierledger.simulation.machines.broker_node import BrokerNode, Op
    from tierledger.simulation.machines.clockwork import Life
    from tierledger.simulation.machines.coordinator_node import CoordinatorNode
    from tierledger.simulation.machines.world import World
    from tierledger.storage.backend import Operation
    from tierledger.storage.serde import MetadataSerDe

RETRY = 100 * MS
"""Pause before a store that was away is asked again."""

POLL = 500 * MS
"""How often followers look for what nobody hinted at; leaders' hints make them prompt."""

QUERY_TIMEOUT = 900 * MS
"""A reader that waits for a position hears after that long that it is not here."""

REPORT = 500 * MS
"""How often a host repeats what the coordinator has to know."""


class Shell:
    """One leader or follower with its connections."""

    __slots__ = (
        "assignment", "attempts", "checkpoints", "machine", "must_rebuild", "number", "role",
        "stored_partition",
    )  # fmt: skip

    def __init__(
        self, role: str, number: int, machine: Leader | Follower, checkpoints: CheckpointStore
    ) -> None:
        self.role = role
        self.number = number
        self.machine = machine
        self.checkpoints = checkpoints
        self.assignment = 0
        self.attempts = 0
        self.stored_partition: bytes | None = None
        self.must_rebuild = False


class HostNode:
    """One life of one host."""

    def __init__(
        self, world: World, life: Life, name: str, address: str, serde: MetadataSerDe
    ) -> None:
        self.world = world
        self.life = life
        self.name = name
        self.address = address
        self.serde = serde
        self.skew_ms = 0
        self.shells: dict[tuple[int, str], Shell] = {}
        self.waiting: dict[int, tuple[BrokerNode, Op, int]] = {}
        """Callers that wait for an answer."""
        self._clock, self._medium, self._wires = world.clock, world.medium, world.wires
        self._mark = world.recording.mark
        self._replies = 0
        self._appends: list[tuple[Shell, int, bytes]] = []
        self._is_committing = False
        self._slots: list[tuple[Shell, int]] = []
        self._is_reading = False
        self._lost: dict[int, int] = {}
        self._refused: dict[int, Refusal] = {}
        self._is_reporting = False
        self.alarms: Counter[str] = Counter()

    def start(self) -> None:
        self._clock.after(POLL, self.life, self._poll)

    def now_ms(self) -> int:
        return self.world.now_ms() + self.skew_ms

    # Calls.

    def take_command(
        self, caller: BrokerNode, op: Op, attempt: int, number: int, command: cmd.Command
    ) -> None:
        shell = self.shells.get((number, LEADER))
        if shell is None:
            error = NotLeader(f"{self.name} does not lead partition {number}")
            self._wires.send(self.life, caller.life, caller.answered, op, attempt, error)
            return
        reply_to = self._expect(caller, op, attempt)
        self.feed(shell, msg.CommandArrived(reply_to, command, self.now_ms()))

    def take_query(
        self,
        caller: BrokerNode,
        op: Op,
        attempt: int,
        number: int,
        role: str,
        query: msg.Query,
        position_min: int,
    ) -> None:
        shell = self.shells.get((number, role))
        if shell is None:
            error = NotLeader(f"{self.name} has no {role} of partition {number}")
            self._wires.send(self.life, caller.life, caller.answered, op, attempt, error)
            return
        reply_to = self._expect(caller, op, attempt)
        self.feed(shell, msg.QueryArrived(reply_to, query, position_min))
        if role == FOLLOWER and reply_to in self.waiting:
            self._mark("read waited for a position")
            self._clock.after(QUERY_TIMEOUT, self.life, self._expire, shell, reply_to)

    def _expire(self, shell: Shell, reply_to: int) -> None:
        if reply_to in self.waiting:
            self._mark("read expired")
            self.feed(shell, msg.QueryExpired(reply_to))

    def _expect(self, caller: BrokerNode, op: Op, attempt: int) -> int:
        self._replies += 1
        self.waiting[self._replies] = (caller, op, attempt)
        return self._replies

    def reply(self, reply_to: msg.ReplyTo, value: object) -> None:
        """Answer a caller; late and repeated answers find nobody."""
        if reply_to is None:
            return
        waiting = self.waiting.pop(reply_to, None)
        if waiting is not None:
            caller, op, attempt = waiting
            self._wires.send(self.life, caller.life, caller.answered, op, attempt, value)

    # Placements.

    def take_work(self, coordinator: CoordinatorNode, number: int, work: HostWork) -> None:
        """Do what the coordinator says, and say that it was heard."""
        for close in work.closes:
            shell = self.shells.get((close.key.partition, LEADER))
            if shell is not None:
                command = cmd.CloseSession(close.claim, "the broker leads no more")
                self.feed(shell, msg.CommandArrived(None, command, self.now_ms()))
        for placement in work.placements:
            self.place(placement)
        self._wires.send(
            self.life, coordinator.life, coordinator.work_taken, self.name, number
        )

    def place(self, placement: Placement) -> None:
        """Take a partition on, change its claim, or release it; see `Host.place`."""
        number, role, assignment = placement.key.partition, placement.role, placement.assignment
        shell = self.shells.get((number, role))
        if assignment is None:
            if shell is not None and shell.assignment <= placement.until:
                self.feed(shell, msg.StopArrived(None, self.now_ms()))
            return
        known = shell.assignment if shell is not None and role == LEADER else -1
        if assignment.number <= known:
            return
        assigned = msg.Assigned(assignment, None, self.now_ms())
        if role == LEADER:
            self._refused.pop(number, None)
        if shell is None:
            shell = self._new_shell(placement.key, role, assigned)
            if role == FOLLOWER:
                self.feed(shell, assigned)
            elif (number, FOLLOWER) in self.shells:
                self._mark("leader placed beside its follower")
        else:
            self.feed(shell, assigned)
        shell.assignment = assignment.number

    def _new_shell(self, key: PartitionKey, role: str, assigned: msg.Assigned) -> Shell:
        number, world = key.partition, self.world
        machine: Leader | Follower
        if role == LEADER:
            machine = Leader(self.serde, world.limits, assigned)
            self._lost.pop(number, None)
        else:
            machine = Follower(self.serde)
        tip = world.tips[number]
        store = CheckpointStore(self._medium.backend, world.keys, self.serde, tip)
        shell = self.shells[number, role] = Shell(role, number, machine, store)
        self._load(shell)
        return shell

    # Loading.

    def _load(self, shell: Shell) -> None:
        self._medium.ask_state(
            self.life, partial(completed_read, shell.checkpoints), self._stored_read, shell
        )

    def _stored_read(self, result: Any, shell: Shell) -> None:  # noqa: ANN401
        if result is None:
            self._start_machine(shell, self._blank(shell), 0)
        elif isinstance(result, RemoteStorageError):
            self._mark("load tried again")
            self._clock.after(RETRY, self.life, self._load, shell)
        else:
            shell.stored_partition = result
            work = partial(completed_load, shell.checkpoints, result, shell.role == LEADER)
            self._medium.ask_state(self.life, work, self._loaded, shell)

    def _loaded(self, result: Any, shell: Shell) -> None:  # noqa: ANN401
        if isinstance(result, CorruptCheckpoint):
            shell.attempts += 1
            self._mark("checkpoint did not verify")
            if shell.attempts < LOAD_ATTEMPTS:
                self._load(shell)
                return
            shell.must_rebuild = True
            self._mark("checkpoint given up for the log")
            self._start_machine(shell, self._blank(shell), 0)
        elif isinstance(result, DataError):
            self._mark("checkpoint of a newer release")
            self.feed(shell, msg.LoadFailed(result))
        elif isinstance(result, RemoteStorageError):
            self._clock.after(RETRY, self.life, self._load, shell)
        else:
            state, next_batch = result
            self._mark("loaded from a checkpoint")
            self._start_machine(shell, state, next_batch)

    def _start_machine(self, shell: Shell, state: PartitionState, next_batch: int) -> None:
        self.world.passes("loaded", self.life)
        if not self.life.is_dead:
            self.feed(shell, msg.StateLoaded(state, next_batch))

    def _blank(self, shell: Shell) -> PartitionState:
        tip = self.world.tips[shell.number]
        origin = genesis(self.world.cluster_id, tip.topic_id, tip.partition)
        return PartitionState(tip, origin, tracks_changes=shell.role == LEADER)

    def _read_log(self, shell: Shell, number: int) -> None:
        limit = partition_shell.READ_BATCHES
        slot = (shell.number, number)
        self._medium.read_log(self.life, slot, limit, self._log_read, shell, number, limit)

    def _log_read(self, result: Any, shell: Shell, number: int, limit: int) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            self._clock.after(RETRY, self.life, self._read_log, shell, number)
            return
        batches = tuple(StoredBatch(at, value) for at, value in enumerate(result, number))
        machine = shell.machine
        before = machine.position
        self.feed(shell, msg.LogRead(number, batches, len(result) < limit))
        if machine.position > before and shell.role == FOLLOWER:
            self.world.applied(self, shell, before)

    # Effects.

    def feed(self, shell: Shell, stimulus: msg.Stimulus) -> None:
        """Let the machine handle `stimulus`, and carry out what it calls for."""
        for effect in shell.machine.handle(stimulus):
            CARRY[type(effect)](self, shell, effect)

    def _on_reply(self, _: Shell, effect: msg.Reply) -> None:
        self.reply(effect.reply_to, effect.position)

    def _on_reply_error(self, _: Shell, effect: msg.ReplyError) -> None:
        self.reply(effect.reply_to, effect.error)

    def _on_answer(self, shell: Shell, effect: msg.Answer) -> None:
        state = shell.machine.state
        assert state is not None, "a machine answers from a state"
        answered: Answered | RemoteStorageError | None
        try:
            answered = answer_now(state, effect.query, stale=effect.stale)
        except RemoteStorageError as error:
            answered = error
        if answered is None:  # Lists and long walks, made in one go here.
            value = answer_of(state, effect.query)
            answered = Answered(value, state.next_position - 1, stale=effect.stale)
        self.reply(effect.reply_to, answered)

    def _on_append(self, shell: Shell, effect: msg.Append) -> None:
        self.world.passes("append", self.life)
        self._appends.append((shell, effect.number, effect.value))
        if not self._is_committing:
            self._is_committing = True
            self._clock.after(0, self.life, self._commit)

    def _commit(self) -> None:
        appends, self._appends = self._appends, []
        if not appends:
            self._is_committing = False
            return
        if len(appends) > 1:
            self._mark("several partitions in one commit")
        items = [((shell.number, number), value) for shell, number, value in appends]
        self._medium.create(self.life, items, self._committed, appends)

    def _committed(self, result: Any, appends: list[tuple[Shell, int, bytes]]) -> None:  # noqa: ANN401
        for at, (shell, number, _) in enumerate(appends):
            stimulus: msg.Stimulus
            if isinstance(result, OutcomeUnknown):
                stimulus = msg.AppendAnswered(number, msg.AppendOutcome.UNKNOWN)
            elif isinstance(result, RemoteStorageError):
                stimulus = msg.AppendRefused(number, result)
            elif result[at]:
                stimulus = msg.AppendAnswered(number, msg.AppendOutcome.CREATED)
            else:
                stimulus = msg.AppendAnswered(number, msg.AppendOutcome.EXISTS)
            self._outcome(shell, number, stimulus)
        self._clock.after(0, self.life, self._commit)

    def _outcome(self, shell: Shell, number: int, stimulus: msg.Stimulus) -> None:
        leader = shell.machine
        assert isinstance(leader, Leader), "only leaders append"
        before = leader.position
        had_claimed = leader._has_claimed
        self.feed(shell, stimulus)
        self.world.leader_heard(self, shell, number, stimulus, before, had_claimed=had_claimed)

    def _on_read_slot(self, shell: Shell, effect: msg.ReadSlot) -> None:
        if effect.delay_ms:
            self._clock.after(
                effect.delay_ms * MS, self.life, self._look, shell, effect.number
            )
        else:
            self._look(shell, effect.number)

    def _look(self, shell: Shell, number: int) -> None:
        self._slots.append((shell, number))
        if not self._is_reading:
            self._is_reading = True
            self._clock.after(0, self.life, self._read_slots)

    def _read_slots(self) -> None:
        slots, self._slots = self._slots, []
        if not slots:
            self._is_reading = False
            return
        wanted = [(shell.number, number) for shell, number in slots]
        self._medium.read_slots(self.life, wanted, self._slots_read, slots)

    def _slots_read(self, result: Any, slots: list[tuple[Shell, int]]) -> None:  # noqa: ANN401
        for at, (shell, number) in enumerate(slots):
            stimulus: msg.Stimulus
            if isinstance(result, RemoteStorageError):
                stimulus = msg.ProbeFailed(number, result)
                self._mark("probe failed")
            else:
                stimulus = msg.SlotRead(number, result[at])
            self._outcome(shell, number, stimulus)
        self._clock.after(0, self.life, self._read_slots)

    def _on_read_log(self, shell: Shell, effect: msg.ReadLog) -> None:
        self._read_log(shell, effect.number)

    def _on_ask_oracle(self, shell: Shell, effect: msg.AskOracle) -> None:
        self._mark("oracle asked")
        self._clock.after(effect.delay_ms * MS, self.life, self._ask_oracle, shell, effect)

    def _ask_oracle(self, shell: Shell, ask: msg.AskOracle) -> None:
        verdict = self.world.oracle(shell.number)
        self._mark("oracle silent" if verdict is None else "oracle answered")
        answer = msg.OracleAnswered(ask.claim, verdict, self.now_ms(), ask.number)
        self.feed(shell, answer)

    def _on_claim_refused(self, shell: Shell, effect: msg.ClaimRefused) -> None:
        self._mark("claim refused by the log")
        self._refused[shell.number] = Refusal.of(effect)
        self._report()

    def _on_head_moved(self, shell: Shell, effect: msg.HeadMoved) -> None:
        follower = self.shells.get((shell.number, FOLLOWER))
        if follower is not None:
            hint = msg.HintArrived(effect.position)
            self._clock.after(0, self.life, self.feed, follower, hint)

    def _on_alarm(self, shell: Shell, effect: msg.Alarm) -> None:
        self.alarms[effect.kind] += 1
        self.world.alarmed(self, shell, effect)

    def _on_gone(self, shell: Shell, effect: msg.Gone) -> None:
        number = shell.number
        self.world.left(self, shell, effect.reason)
        if self.shells.get((number, shell.role)) is shell:
            del self.shells[number, shell.role]
        if shell.role == LEADER and effect.reason not in {msg.STOPPED, msg.REFUSED}:
            self._refused.pop(number, None)
            self._lost[number] = shell.assignment
            self._report()

    # Checkpoints.

    def _on_write_checkpoint(self, shell: Shell, effect: msg.WriteCheckpoint) -> None:
        state = shell.machine.state
        assert state is not None, "a machine checkpoints a state"
        plan = shell.checkpoints.plan(state, effect.next_batch, shell.stored_partition)
        self._write_checkpoint(shell, plan)

    def _write_checkpoint(self, shell: Shell, plan: CheckpointPlan) -> None:
        operations = plan.operations
        if shell.must_rebuild:
            operations = [operations[0], *self._leftovers(shell), *operations[1:]]
        self._medium.write_state(
            self.life, operations, self._checkpoint_written, shell, plan
        )

    def _leftovers(self, shell: Shell) -> list[Operation]:
        keys, tip = self.world.keys, self.world.tips[shell.number]
        prefix = keys.state(tip)
        return [
            Remove(key)
            for key in self._medium.state.irange(prefix, prefix + "\uffff")
            if key != keys.partition(tip)
        ]

    def _checkpoint_written(self, result: Any, shell: Shell, plan: CheckpointPlan) -> None:  # noqa: ANN401
        if isinstance(result, AtomicConflict):
            work = partial(completed_read, shell.checkpoints)
            self._medium.ask_state(self.life, work, self._conflict_read, shell, plan)
        elif isinstance(result, OutcomeUnknown | RetryableError):
            self._mark("checkpoint tried again")
            self._clock.after(RETRY, self.life, self._write_checkpoint, shell, plan)
        elif isinstance(result, RemoteStorageError):
            self._checkpoint_refused(shell)
        else:
            self._checkpoint_stands(shell, plan)

    def _conflict_read(self, result: Any, shell: Shell, plan: CheckpointPlan) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            self._clock.after(RETRY, self.life, self._write_checkpoint, shell, plan)
        elif result == plan.partition_value:
            self._mark("own checkpoint recognised")
            self._checkpoint_stands(shell, plan)
        else:
            self._checkpoint_refused(shell)

    def _checkpoint_refused(self, shell: Shell) -> None:
        self._mark("checkpoint of a former leader refused")
        self.feed(shell, msg.CheckpointDone(stored=False))

    def _checkpoint_stands(self, shell: Shell, plan: CheckpointPlan) -> None:
        self._mark("checkpoint written")
        self.world.passes("checkpointed", self.life)
        if self.life.is_dead:
            return
        shell.stored_partition = plan.partition_value
        shell.must_rebuild = False
        state = shell.machine.state
        if state is not None and state.is_finished:
            self._mark("checkpoint of a deleted partition swept")
            self._medium.ask_state(
                self.life, partial(completed_sweep, shell.checkpoints), self._swept, shell
            )
        else:
            self.feed(shell, msg.CheckpointDone(stored=True))

    def _swept(self, _: object, shell: Shell) -> None:
        self.feed(shell, msg.CheckpointDone(stored=True))

    # Standing work.

    def _poll(self) -> None:
        followers = [
            shell
            for (_, role), shell in self.shells.items()
            if role == FOLLOWER and shell.machine.state is not None
        ]
        if followers:
            slots = [(shell.number, shell.machine.next_batch) for shell in followers]
            self._medium.read_slots(self.life, slots, self._polled, followers)
        self._clock.after(POLL, self.life, self._poll)

    def _polled(self, result: Any, followers: list[Shell]) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            return
        for shell, value in zip(followers, result, strict=True):
            if value is not None:
                self.feed(shell, msg.HintArrived(shell.machine.position + 1))

    def _report(self) -> None:
        if not self._is_reporting:
            self._is_reporting = True
            self._send_report()

    def _send_report(self) -> None:
        if not (self._lost or self._refused):
            self._is_reporting = False
            return
        coordinator = self.world.coordinator
        if coordinator is not None:
            self._wires.send(
                self.life, coordinator.life, coordinator.take_report, self,
                tuple(self._lost.items()), tuple(self._refused.items()),
            )  # fmt: skip
        self._clock.after(REPORT, self.life, self._send_report)

    def behind(self) -> list[int]:
        """Partitions whose follower here has not caught up yet."""
        return [
            number
            for (number, role), shell in self.shells.items()
            if role == FOLLOWER and shell.machine.phase is not FollowerPhase.FOLLOWING
        ]

    def believes_to_lead(self, number: int) -> bool:
        shell = self.shells.get((number, LEADER))
        if shell is None:
            return False
        machine = shell.machine
        return machine.phase is Phase.LEADING and machine._has_claimed  # type: ignore[union-attr]


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
    msg.Reply: HostNode._on_reply,
    msg.ReplyError: HostNode._on_reply_error,
    msg.Answer: HostNode._on_answer,
    msg.Append: HostNode._on_append,
    msg.ReadSlot: HostNode._on_read_slot,
    msg.ReadLog: HostNode._on_read_log,
    msg.AskOracle: HostNode._on_ask_oracle,
    msg.ClaimRefused: HostNode._on_claim_refused,
    msg.HeadMoved: HostNode._on_head_moved,
    msg.Alarm: HostNode._on_alarm,
    msg.Gone: HostNode._on_gone,
    msg.WriteCheckpoint: HostNode._on_write_checkpoint,
}
"""What carries each effect out."""
