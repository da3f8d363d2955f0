"""One partition on a host: hands stimuli to a leader or follower, and carries its effects out.

No rule of the protocol stands here: the machine alone decides what happens next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeAlias, TypeVar

from tierledger.actors import messages as msg
from tierledger.actors.calls import LEADER, Answered, PartitionKey
from tierledger.actors.follower import Follower
from tierledger.actors.host.answering import OpenLists, answer_now, snapshot_for, walk
from tierledger.actors.host.machine_guard import MachineGuard
from tierledger.actors.host.store_queues import Committer, PendingAppend, PendingSlot
from tierledger.actors.leader.machine import Leader
from tierledger.actors.oracle.no_oracle import ORACLE_DEADLINE_S
from tierledger.actors.ports import LeaderOracle
from tierledger.actors.queries import QUERIES, AnswerForm
from tierledger.actors.slices import Slices
from tierledger.events.errors import (
    DataError,
    OutcomeUnknown,
    Quarantined,
    RemoteStorageError,
    RetryableError,
)
from tierledger.storage.backend import Operation
from tierledger.storage.partition.checkpoint import (
    CheckpointDraft,
    CheckpointWriter,
    Standing,
    dismantle_operations,
)
from tierledger.storage.partition.event_log import StoredBatch
from tierledger.storage.partition.loading import LoadedPartition, Loading
from tierledger.storage.partition.reader import PartitionReader
from tierledger.storage.process_log import ProcessLog

T = TypeVar("T")

HELD_MAX = 256
"""Commands that are held until the next commit; the machine itself refuses too many."""

READ_BATCHES = 64
"""Batches that a log read takes from the store at once."""

FEED_BYTES = 32 * 1024
"""Bytes of batches that are applied in one step, or one batch: about 230 events, 2 ms."""

RETRY_DELAY_S = 0.1
"""Pause before a request to an unreachable store is retried."""

Notice: TypeAlias = "msg.HeadMoved | msg.Alarm | msg.ClaimRefused | msg.Gone"
"""What a machine notifies its process of."""

_log = ProcessLog("tierledger.partition")


class HostServices(Protocol):
    """Where a partition runs, beside others."""

    committer: Committer
    lists: OpenLists
    oracle: LeaderOracle

    def now_ms(self) -> int: ...
    def spawn(self, work: Coroutine[Any, Any, None], /) -> asyncio.Task[None]: ...
    def reply(self, reply_to: msg.ReplyTo, value: object, /) -> None: ...
    async def make(
        self, reply_to: msg.ReplyTo, work: Callable[[], Awaitable[Answered]], /
    ) -> None: ...
    def read_slot(self, slot: PendingSlot, delay_ms: int, /) -> None: ...
    def notified(self, shell: PartitionShell, notice: Notice, /) -> None: ...
    def checkpointed(self) -> None: ...


class PartitionShell:
    """A leader or follower with its connections to the store and to its callers."""

    def __init__(
        self,
        host: HostServices,
        reader: PartitionReader,
        role: str,
        machine: Leader | Follower,
        life: int,
        copied: LoadedPartition | None = None,
    ) -> None:
        """`life`: the number of its life on the host; `copied`: a state to begin with."""
        self.host = host
        self.topic_id_partition = reader.topic_id_partition
        self.key = PartitionKey.of(reader.topic_id_partition)
        self.role = role
        self.machine = machine
        self.life = life
        self.loading: asyncio.Task[None] | None = None
        """The task of the load that is under way."""
        self.stepped_s = asyncio.get_running_loop().time()
        """When the machine made its last step."""
        self.calls = 0
        """Commands and queries that came, while it has been here."""
        self.after_step: Callable[[], None] | None = None
        """Called after each step of the machine; see `Feeds`."""
        self._guard = MachineGuard(machine)
        self._held: list[msg.CommandArrived] = []
        """Commands that are decided on when the host's next commit begins."""
        self._reader = reader
        self._checkpoints = self._reader.checkpoints
        self._writer = CheckpointWriter(self._checkpoints)
        self._ahead: deque[StoredBatch] = deque()
        """Batches that were read, and that the machine has not asked for yet."""
        self._ends_ahead = False
        """Whether the log ended behind them."""
        self._copied = copied

    def feed(self, stimulus: msg.Stimulus) -> None:
        """Let the machine handle `stimulus`, and carry out what it calls for; never raises."""
        if self._held and type(stimulus) is not msg.AppendAnswered:
            # The held commands came before `stimulus`. An answered append is no reason: the
            # next batch begins after it, and more commands may come until then.
            self.hand_over()
        self.stepped_s = asyncio.get_running_loop().time()
        self._carry_out_all(self._guard.handle(stimulus))
        if self.after_step is not None:
            self.after_step()

    def enqueue(self, command: msg.CommandArrived) -> None:
        """Hold `command` until the next commit begins, so that others are decided with it."""
        self.calls += 1
        machine = self.machine
        if not isinstance(machine, Leader) or not machine.may_wait:
            self.feed(command)
            return
        self._held.append(command)
        self.host.committer.expect(self, is_first=len(self._held) == 1)
        if len(self._held) >= HELD_MAX:
            self.hand_over()

    @property
    def held(self) -> int:
        """Commands that are held, and not in the machine's inbox yet."""
        return len(self._held)

    def hand_over(self) -> None:
        """Let the machine decide on the commands that are held; never raises."""
        held, self._held = self._held, []
        if held:
            self._carry_out_all(self._guard.handle(msg.CommandsArrived(tuple(held))))

    def failed(self, error: Exception) -> None:
        """Quarantine this partition after an unforeseen error; see `MachineGuard`."""
        self._carry_out_all(self._guard.failed(error))
        self.hand_over()
        tip = str(self.topic_id_partition)
        _log.error("a step of the partition failed", partition=tip, exc_info=error)

    def _carry_out_all(self, effects: list[msg.Effect]) -> None:
        reply = self.host.reply
        for effect in effects:
            try:
                if type(effect) is msg.Reply:  # The most frequent effect, for speed.
                    reply(*effect)
                else:
                    self._carry_out(effect)
            except Exception as error:  # noqa: BLE001 - A failure of one partition is its own.
                self.failed(error)

    def _spawn(self, work: Callable[..., Awaitable[None]], *given: Any) -> None:  # noqa: ANN401
        """Do `work(*given)` as a task; if it fails, this partition is quarantined."""
        self.host.spawn(self._guarded(work, *given))

    async def _guarded(self, work: Callable[..., Awaitable[None]], *given: Any) -> None:  # noqa: ANN401
        try:
            await work(*given)
        except Exception as error:  # noqa: BLE001 - As above.
            self.failed(error)
            if self.after_step is not None:
                self.after_step()

    def _carry_out(self, effect: msg.Effect) -> None:
        host = self.host
        match effect:
            case msg.Reply(reply_to, position):
                host.reply(reply_to, position)
            case msg.ReplyError(reply_to=reply_to, error=error):
                host.reply(reply_to, error)
            case msg.Answer():
                self._answer(effect)
            case msg.Append(number, value, beginning):
                log = self._reader.log
                former = log.former(number, beginning)
                host.committer.add(PendingAppend(self, number, log.key(number), value, former))
            case msg.ReadSlot(number=number, delay_ms=delay_ms):
                log = self._reader.log
                slot = PendingSlot(self, number, log.key(number), log.former(number))
                host.read_slot(slot, delay_ms)
            case msg.ReadLog(number=number):
                self._spawn(self._read_log, number)
            case msg.WriteCheckpoint(next_batch=next_batch):
                state = self.machine.state
                assert state is not None, "a machine checkpoints a state"
                self._spawn(self._write_checkpoint, self._writer.freeze(state, next_batch))
            case msg.AskOracle():
                self._spawn(self._ask_oracle, effect)
            case msg.HeadMoved() | msg.Alarm() | msg.ClaimRefused():
                host.notified(self, effect)
            case msg.Gone(reply_to=reply_to):
                host.notified(self, effect)
                host.reply(reply_to, self.machine.position)

    @property
    def next_slot(self) -> str:
        """The key of the batch behind all that the machine has read."""
        return self._reader.log.key(self.machine.next_batch)

    async def has_history(self, position: int, chain_hash: bytes) -> bool:
        """Whether the log holds `position` with that chain hash behind it; retries the store.

        Raises:
            CorruptLog: The log does not verify there.
        """
        near = self.machine.next_batch
        return await self._insisting(
            lambda: self._reader.has_history(position, chain_hash, near)
        )

    # Answers.

    def _answer(self, effect: msg.Answer) -> None:
        query = effect.query
        work: Callable[[], Awaitable[Answered]] | None = None
        try:
            state = self.machine.state
            assert state is not None, "a machine answers from a state"
            answered = answer_now(state, query, stale=effect.stale)
            if answered is None:
                snapshot = snapshot_for(state, query)
                if QUERIES[query.kind].form is AnswerForm.ROW:
                    work = partial(walk, snapshot, query, stale=effect.stale)
                else:
                    first_page, stale = self.host.lists.first_page, effect.stale
                    work = partial(first_page, snapshot, query, self.unanswered, stale=stale)
        except Exception as error:  # noqa: BLE001 - A failure of one partition is its own.
            self.host.reply(effect.reply_to, self.unanswered(error))
        else:
            if work is None:
                self.host.reply(effect.reply_to, answered)
            else:
                self.host.spawn(self._answer_when_done(effect.reply_to, work))

    async def _answer_when_done(
        self, reply_to: msg.ReplyTo, work: Callable[[], Awaitable[Answered]]
    ) -> None:
        try:
            await self.host.make(reply_to, work)
        except Exception as error:  # noqa: BLE001 - As above.
            self.host.reply(reply_to, self.unanswered(error))

    def unanswered(self, error: Exception) -> RemoteStorageError:
        """The error for the caller of a query whose answer failed with `error`."""
        if isinstance(error, RemoteStorageError):
            return error
        self.failed(error)  # A state that cannot answer should not be decided on either.
        return Quarantined(f"the answer could not be made: {type(error).__name__}: {error}")

    # Disputes.

    async def _ask_oracle(self, ask: msg.AskOracle) -> None:
        await asyncio.sleep(ask.delay_ms / 1000)
        verdict = None
        try:
            async with asyncio.timeout(ORACLE_DEADLINE_S):
                (verdict,) = await self.host.oracle.leaders_of([self.topic_id_partition])
        except Exception as error:  # noqa: BLE001 - Whatever an oracle does, it is no answer.
            tip = str(self.topic_id_partition)
            _log.warning("the leader oracle gave no answer", partition=tip, error=repr(error))
        now_ms = self.host.now_ms()
        self.feed(msg.OracleAnswered(ask.claim, verdict, now_ms, ask.number))

    # Loading.

    async def load(self) -> None:
        """Feed the machine with the state to begin with.

        A copied one, else the checkpoint's, or that of the log's beginning.
        """
        await self._guarded(self._load)

    async def _load(self) -> None:
        copied, self._copied = self._copied, None  # If the log behind it is gone, it is loaded.
        if copied is not None and await self._begin_with(copied):
            return
        loading = Loading(self._reader, tracks_changes=self.role == LEADER)
        loaded: LoadedPartition | None = None
        while loaded is None:
            try:
                loaded = await loading.state()
            except DataError as error:
                self.feed(msg.LoadFailed(error))
                return
            except (RetryableError, OutcomeUnknown):
                await asyncio.sleep(RETRY_DELAY_S)
        self._writer.stored = loading.stored
        if loading.trouble is not None:
            self.host.notified(self, msg.Alarm("checkpoint", str(loading.trouble)))
            self._writer.is_whole = True
        self.feed(msg.StateLoaded(*loaded))

    async def _begin_with(self, copied: LoadedPartition) -> bool:
        """Feed the leader with a copied state, unless it had better load the checkpoint."""
        try:
            begun = partial(self._writer.begin_with_copy, copied.state)
            uncovered = await self._insisting(begun)
        except DataError:
            return False  # The load tells what is wrong.
        if uncovered is None:
            return False
        self.feed(msg.StateLoaded(*copied, uncovered))
        return True

    async def _read_log(self, number: int) -> None:
        while not self._ahead or self._ahead[0].number != number:
            try:
                page = await self._reader.read_on(number, READ_BATCHES)
            except DataError as error:
                self.feed(msg.LoadFailed(error))
                return
            except RemoteStorageError:
                await asyncio.sleep(RETRY_DELAY_S)
                continue
            if page is None:
                await self.load()
                return
            self._ahead, self._ends_ahead = deque(page.batches), page.is_end
            break
        batches: list[StoredBatch] = []
        size = 0
        while self._ahead and (not batches or size + len(self._ahead[0].value) <= FEED_BYTES):
            size += len(self._ahead[0].value)
            batches.append(self._ahead.popleft())
        await asyncio.sleep(0)
        is_end = self._ends_ahead and not self._ahead
        self.feed(msg.LogRead(number, tuple(batches), is_end))

    # Checkpoints.

    async def _write_checkpoint(self, draft: CheckpointDraft) -> None:
        writer = self._writer
        planned: list[Operation] = []
        try:
            plan = await self._insisting(lambda: writer.plan(draft))
            planned = plan.operations.copy()
            standing = await self._insisting(partial(writer.write, plan))
            is_finished = plan.is_finished
            del plan
            if is_finished and standing is Standing.OURS:
                # The checkpoint's flag, not the state's, which may be finished before it.
                await self._insisting(self._checkpoints.sweep)
        except RemoteStorageError as error:
            self.host.notified(self, msg.Alarm("checkpoint", str(error)))
            self.feed(msg.CheckpointDone(stored=False))
        else:
            self.host.checkpointed()
            is_ours, is_less = standing is Standing.OURS, standing is Standing.LESS
            self.feed(msg.CheckpointDone(stored=is_ours, again=is_less))
        slices = Slices()  # Freed at once, 20,000 rows and their pages take 16 ms.
        for _ in chain(dismantle_operations(planned), draft.dismantle()):
            await slices.yield_if_due()

    async def _insisting(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of `attempt`, which is retried while the store does not answer."""
        while True:
            try:
                return await attempt()
            except (OutcomeUnknown, RetryableError):
                await asyncio.sleep(RETRY_DELAY_S)
