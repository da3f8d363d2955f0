"""One partition on a host: hands stimuli to a leader or follower, and carries its effects out.

No rule of the protocol stands here: what happens next is always the machine's word.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

import structlog

from tierledger.actors import messages as msg
from tierledger.actors.answering import answer_now, snapshot_for, walk
from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.follower import Follower
from tierledger.actors.leader import Leader
from tierledger.actors.oracle import ORACLE_DEADLINE_S
from tierledger.actors.store_queues import PendingAppend, PendingSlot
from tierledger.events.errors import (
    CorruptCheckpoint,
    DataError,
    OutcomeUnknown,
    RemoteStorageError,
    RetryableError,
)
from tierledger.events.event_codec import genesis
from tierledger.events.partition_state import PartitionState
from tierledger.storage.backend import AtomicConflict, Remove
from tierledger.storage.checkpoint import LOAD_ATTEMPTS, CheckpointPlan, CheckpointStore
from tierledger.storage.event_log import EventLog, StoredBatch

if TYPE_CHECKING:
    from tierledger.actors.host import Host
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.storage.backend import Operation

READ_BATCHES = 64
"""Batches that a log read takes from the store at once."""

FEED_BYTES = 96 * 1024
"""Bytes of batches that are applied in one step: about 700 events, 3 ms."""

RETRY_DELAY_S = 0.1
"""Pause before a store that was away is asked again."""

_log = structlog.get_logger("tierledger.partition")


class PartitionShell:
    """A leader or follower with its connections to the store and to its callers."""

    def __init__(
        self,
        host: Host,
        topic_id_partition: TopicIdPartition,
        role: str,
        machine: Leader | Follower,
    ) -> None:
        self.host = host
        self.key = PartitionKey.of(topic_id_partition)
        self.topic_id_partition = topic_id_partition
        self.role = role
        self.machine = machine
        self.assignment = 0
        self._log = EventLog(host.backend, host.keys, topic_id_partition)
        self._checkpoints = CheckpointStore(
            host.backend, host.keys, host.serde, topic_id_partition
        )
        self._stored_partition: bytes | None = None
        self._must_rebuild = False
        self._ahead: deque[StoredBatch] = deque()
        self._ends_ahead = False

    def feed(self, stimulus: msg.Stimulus) -> None:
        """Let the machine handle `stimulus`, and carry out what it calls for."""
        for effect in self.machine.handle(stimulus):
            self._carry_out(effect)

    def _carry_out(self, effect: msg.Effect) -> None:  # noqa: C901 - One case each.
        host = self.host
        match effect:
            case msg.Reply(reply_to=reply_to, position=position):
                host.reply(reply_to, position)
            case msg.ReplyError(reply_to=reply_to, error=error):
                host.reply(reply_to, error)
            case msg.Answer():
                self._answer(effect)
            case msg.Append(number=number, value=value):
                key = host.keys.log_batch(self.topic_id_partition, number)
                host.committer.add(PendingAppend(self, number, key, value))
            case msg.ReadSlot(number=number, delay_ms=delay_ms):
                key = host.keys.log_batch(self.topic_id_partition, number)
                host.read_slot(PendingSlot(self, number, key), delay_ms)
            case msg.ReadLog(number=number):
                host.spawn(self._read_log(number))
            case msg.WriteCheckpoint(next_batch=next_batch):
                host.spawn(self._write_checkpoint(self._plan(next_batch)))
            case msg.AskOracle():
                host.spawn(self._ask_oracle(effect))
            case msg.ClaimRefused():
                host.refused(self, effect)
            case msg.HeadMoved(position=position):
                host.head_moved(self.key, position)
            case msg.Alarm(kind=kind, message=message):
                host.alarm(self.topic_id_partition, kind, message)
            case msg.Gone(reason=reason, reply_to=reply_to):
                host.forget(self, reason)
                host.reply(reply_to, self.machine.position)

    # Answers.

    def _answer(self, effect: msg.Answer) -> None:
        state = self.machine.state
        assert state is not None, "a machine answers from a state"
        try:
            answered = answer_now(state, effect.query, stale=effect.stale)
        except RemoteStorageError as error:
            self.host.reply(effect.reply_to, error)
            return
        if answered is not None:
            self.host.reply(effect.reply_to, answered)
            return
        snapshot = snapshot_for(state, effect.query)
        if effect.query.kind == "next_txn":
            work = walk(snapshot, effect.query)
        else:
            work = self.host.lists.first_page(snapshot, effect.query)
        self.host.spawn(self.host.reply_when_done(effect.reply_to, work))

    # Disputes.

    async def _ask_oracle(self, ask: msg.AskOracle) -> None:
        await asyncio.sleep(ask.delay_ms / 1000)
        verdict = None
        try:
            async with asyncio.timeout(ORACLE_DEADLINE_S):
                verdict = await self.host.oracle.leader_of(self.topic_id_partition)
        except Exception as error:  # noqa: BLE001 - Whatever an oracle does, it is no answer.
            tip = str(self.topic_id_partition)
            _log.warning("the leader oracle gave no answer", partition=tip, error=repr(error))
        now_ms = self.host.now_ms()
        self.feed(msg.OracleAnswered(ask.claim, verdict, now_ms, ask.number))

    # Loading.

    async def load(self) -> None:
        """Read the checkpoint, if there is a good one, and start the machine from it."""
        try:
            state, next_batch = await self._loaded()
        except DataError as error:
            self.feed(msg.LoadFailed(error))
        else:
            self.feed(msg.StateLoaded(state, next_batch))

    async def _loaded(self) -> tuple[PartitionState, int]:
        attempts = 0
        while True:
            try:
                return await self._from_checkpoint()
            except CorruptCheckpoint as error:
                attempts += 1  # It may only have been renewed while it was read.
                if attempts == LOAD_ATTEMPTS:
                    # A cache that does not verify is no cache: the log has everything.
                    self.host.alarm(self.topic_id_partition, "checkpoint", str(error))
                    self._must_rebuild = True
                    return self._blank(), 0
            except (RetryableError, OutcomeUnknown):
                await asyncio.sleep(RETRY_DELAY_S)

    async def _from_checkpoint(self) -> tuple[PartitionState, int]:
        checkpoints = self._checkpoints
        stored = self._stored_partition = await checkpoints.read_stored()
        if stored is None:
            return self._blank(), 0
        value = checkpoints.parse_partition(stored)
        leads = self.role == LEADER
        state = await checkpoints.load(stored, value, tracks_changes=leads)
        return state, value.next_batch

    def _blank(self) -> PartitionState:
        tip = self.topic_id_partition
        origin = genesis(self.host.cluster_id, tip.topic_id, tip.partition)
        return PartitionState(tip, origin, tracks_changes=self.role == LEADER)

    async def _read_log(self, number: int) -> None:
        while not self._ahead or self._ahead[0].number != number:
            try:
                self._ahead = deque(await self._log.read(number, READ_BATCHES))
                self._ends_ahead = len(self._ahead) < READ_BATCHES
                break
            except DataError as error:
                self.feed(msg.LoadFailed(error))
                return
            except RemoteStorageError:
                await asyncio.sleep(RETRY_DELAY_S)
        batches: list[StoredBatch] = []
        size = 0
        while self._ahead and (not batches or size + len(self._ahead[0].value) <= FEED_BYTES):
            size += len(self._ahead[0].value)
            batches.append(self._ahead.popleft())
        await asyncio.sleep(0)
        is_end = self._ends_ahead and not self._ahead
        self.feed(msg.LogRead(number, tuple(batches), is_end))

    # Checkpoints.

    def _plan(self, next_batch: int) -> CheckpointPlan:
        """What to store, taken from the state before anything else changes it."""
        state = self.machine.state
        assert state is not None, "a machine checkpoints a state"
        return self._checkpoints.plan(state, next_batch, self._stored_partition)

    async def _write_checkpoint(self, plan: CheckpointPlan) -> None:
        while True:
            try:
                await self._commit_checkpoint(plan)
            except (OutcomeUnknown, RetryableError):
                await asyncio.sleep(RETRY_DELAY_S)
                if self.host.is_closing:
                    return
            except RemoteStorageError as error:
                self.host.alarm(self.topic_id_partition, "checkpoint", str(error))
                self.feed(msg.CheckpointDone(stored=False))
                return
            else:
                self._stored_partition = plan.partition_value
                self._must_rebuild = False
                if plan.is_finished:  # Not the state: it may be, and its checkpoint not yet.
                    await self._sweep()
                self.feed(msg.CheckpointDone(stored=True))
                return

    async def _sweep(self) -> None:
        """Remove what a deletion that is finished, and checkpointed as such, has left."""
        with contextlib.suppress(RemoteStorageError):  # Whoever checkpoints next sweeps again.
            await self._checkpoints.sweep()

    async def _commit_checkpoint(self, plan: CheckpointPlan) -> None:
        guard, *changes = plan.operations
        leftovers = await self._leftovers() if self._must_rebuild else []
        try:
            await self.host.backend.execute_atomically([guard, *leftovers, *changes])
        except AtomicConflict:
            # It is ours if the answer to an earlier attempt was lost.
            if await self._checkpoints.read_stored() != plan.partition_value:
                raise

    async def _leftovers(self) -> list[Operation]:
        """What removes the rest of a checkpoint that did not verify, in the step replacing it.

        The step expects the partition's value that was read then, so whoever was overtaken
        removes nothing.
        """
        keys, tip = self.host.keys, self.topic_id_partition
        removals: list[Operation] = []
        after: str | None = None
        while True:
            found = await self.host.backend.get_like(keys.state(tip), after=after)
            removals += [Remove(key) for key, _ in found if key != keys.partition(tip)]
            if not found:
                return removals
            after = found[-1][0]
