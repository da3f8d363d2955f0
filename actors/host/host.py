"""A host: one process that runs many partitions on one asyncio loop.

This module only carries calls in and effects out. The host's machine (`machine`) decides what
runs here and when it loads; a partition's leader or follower decides what the partition does.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any, assert_never

from tierledger.actors import messages as msg
from tierledger.actors.calls import (
    FOLLOWER,
    LEADER,
    STORAGE,
    Answered,
    Call,
    CloseCall,
    CommandCall,
    CommonTime,
    DeletionsHeard,
    HostLoad,
    HostPing,
    PageCall,
    PartitionKey,
    Placement,
    Purging,
    QueryCall,
    ReadyCall,
)
from tierledger.actors.conditions import Conditions
from tierledger.actors.deadline import AlarmClock
from tierledger.actors.due import purging_of, rows_now
from tierledger.actors.follower import Follower, FollowerPhase
from tierledger.actors.foreign_errors import failure_of
from tierledger.actors.holds import Deletions
from tierledger.actors.host import messages as lives
from tierledger.actors.host.answering import OpenLists
from tierledger.actors.host.call_times import CallTimes
from tierledger.actors.host.feeds import Feeds
from tierledger.actors.host.heads import Heads, Hints
from tierledger.actors.host.machine import HostMachine
from tierledger.actors.host.partition_shell import Notice, PartitionShell
from tierledger.actors.host.report import HostReport
from tierledger.actors.host.retentions import Retentions, is_judged
from tierledger.actors.host.store_queues import Committer, PendingSlot, SlotReader
from tierledger.actors.host.timed_backend import TimedBackend
from tierledger.actors.leader.machine import Leader
from tierledger.actors.oracle.no_oracle import NoOracle
from tierledger.actors.ports import HostFailed, LeaderOracle, RetentionSource
from tierledger.actors.process_clock import ProcessClock
from tierledger.actors.slices import Slices
from tierledger.actors.turns import AnswerReader, InProcess, Turns
from tierledger.events.commands import Command, EndPurges, EndSegments, StartPurges
from tierledger.events.errors import (
    InvalidArgument,
    NotLeader,
    NotReady,
    RemoteStorageError,
)
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.spilled_map import Spill
from tierledger.storage.backend import MetadataStorageBackend, WriterReplaced
from tierledger.storage.clock import Clock
from tierledger.storage.keys import MetadataKeyFactory
from tierledger.storage.partition.checkpoint import ROWS_AT_ONCE
from tierledger.storage.partition.loading import LoadedPartition
from tierledger.storage.partition.reader import PartitionReader
from tierledger.storage.process_log import ProcessLog
from tierledger.storage.serde import MetadataSerDe

POLL_INTERVAL_S = 0.05
"""How often the logs of followers are polled whose leaders send no hints; half the 100 ms that
a follower may lag."""

HEED_S = 5.0
"""How long `heed` waits for batches that were decided on before, in seconds."""

HEED_LOOK_S = 0.01
"""Pause between two looks whether they are stored."""

ALL_POLLED_EVERY = 20
"""One poll in so many reads the logs of all followers: hints may be missing or wrong."""

POLL_KEYS = 500
"""Logs that one read of a poll covers."""

CLOSE_S = 10.0
"""How long a host that closes waits for its partitions to end."""

FORMER_STORE_METHODS = ("create", "update", "get")
"""Those that only processes of a former release call, which an upgrade meets."""

STORE_METHODS = (
    *FORMER_STORE_METHODS,
    "get_each",
    "get_like",
    "last_keys",
    "last_keys_seen",
    "remove_like",
    "execute_atomically",
    "create_each",
)
"""The methods of the store that processes may call which do not write to it themselves."""

_log = ProcessLog("tierledger.host")


class Host:
    """Runs leaders and followers. Make it on a running loop, and call `start` first."""

    def __init__(  # noqa: PLR0913 - What a host is made of, all by name.
        self,
        name: str,
        *,
        process: str,
        pid: int,
        cluster_id: str,
        backend: MetadataStorageBackend,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        limits: Limits,
        clock: Clock,
        give_up: Callable[[], None],
        oracle: LeaderOracle | None = None,
        retentions: RetentionSource | None = None,
        spill: Spill | None = None,
    ) -> None:
        """`give_up` ends the process, real or simulated, after an unforeseen error.

        `spill`: where kept segments are; None: in memory.
        """
        self.name = name
        self.process = process
        self.cluster_id = cluster_id
        times = CallTimes()
        self.backend = backend = TimedBackend(backend, times)
        self.keys = keys
        self.serde = serde
        self.lists = OpenLists(process)
        conditions = Conditions(self.now_ms)
        self.committer = Committer(backend, conditions)
        self.oracle: LeaderOracle = oracle or NoOracle()
        self._retentions = (
            None if retentions is None else Retentions(retentions, conditions, self.spawn)
        )
        self.is_closing = False
        self.deletions = Deletions()
        """Whether brokers may delete, by the newest ping."""
        self._limits = limits
        self._clock = clock
        self._give_up = give_up
        self._spill = spill
        self._slots = SlotReader(backend, conditions)
        self._machine = HostMachine(blake2b(process.encode(), digest_size=8).digest())
        self._lives: dict[int, PartitionShell] = {}
        """All shells, by their life's number in the machine."""
        self._shells: dict[tuple[PartitionKey, str], PartitionShell] = {}
        """The leaders and followers, which take calls directly, without the machine."""
        self._closed = asyncio.Event()
        self._replies: dict[int, Callable[[object], None]] = {}
        self._readers: dict[int, AnswerReader] = {}
        """Who reads the answers of queries among `_replies`, if that is a stream."""
        self._turns = Turns()
        self._in_process = InProcess()
        self._questions: dict[int, PartitionShell | None] = {}
        """Queries among `_replies`, with the shell that answers; None: it is being loaded."""
        self._patience: AlarmClock[int] = AlarmClock(self._expire)
        self._reply_ids = itertools.count(1)
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._standing: list[asyncio.Task[None]] = []
        """Tasks without which a living host would serve nothing."""
        self._has_failed = False
        self.feeds = Feeds(self._shells)
        self.heads = Heads(self._shells)
        self.hints = Hints(self._shells)
        self.report = HostReport(
            name, process, pid, self.committer, self._shells, conditions, times
        )

    def start(self) -> None:
        """Begin to commit, read and poll."""
        for loop in (self.committer.run(), self._slots.run(), self._poll()):
            self._standing.append(self.spawn(loop))
        self.spawn(self._until_replaced())

    async def _until_replaced(self) -> None:
        """Fail once another process writes the store: this one's memory grows old."""
        if await self.backend.is_replaced():
            raise WriterReplaced("another process has opened the store for writing")

    async def close(self) -> None:
        """Stop all partitions in good order (drain, checkpoint), then all other tasks.

        Sessions stay open: their brokers lead on, served by another host.
        """
        slices = Slices()
        for effect in self._machine.handle(lives.CloseArrived(self._clock.now_ms())):
            self._carry_out(effect)
            await slices.yield_if_due()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._closed.wait()
        await self.abandon()

    async def abandon(self) -> None:
        """Stop at once, as a crash would: nothing is drained, and the store stays open."""
        self.is_closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Calls.

    def serves(self, key: PartitionKey, role: str) -> bool:
        """Whether the partition runs here in that role."""
        return (key, role) in self._shells

    @property
    def is_asked(self) -> bool:
        """Whether any caller waits for an answer."""
        return bool(self._replies)

    def call(self, call: Call) -> asyncio.Future[Any]:
        """The future result of a checked call: a value, or an error as a value.

        To cancel the future is to give up on the call; see `drop_call`.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        reply_to = self.answer(call, partial(_settle, future))
        if not future.done():
            future.add_done_callback(lambda _: self.drop_call(reply_to))
        return future

    def answer(
        self, call: Call, then: Callable[[object], None], reader: AnswerReader | None = None
    ) -> int:
        """Carry out a checked call; returns the number under which it can be given up.

        `reader`: whose turn it is while a long answer is made; None: of all in this process.

        `then` is called with the result, a value or an error as a value. That happens in the
        step that makes the answer, perhaps before this returns: a future and a turn of the loop
        would cost more than everything else that is done for an answer here.
        """
        reply_to = next(self._reply_ids)
        match call:
            case CommandCall(key, command):
                shell = self._shells.get((key, LEADER))
                if shell is None:
                    then(NotLeader(f"{self.name} does not lead {_text(key)}"))
                elif self._retentions is not None and is_judged(command):
                    self._replies[reply_to] = then
                    self.spawn(self._judge(self._retentions, shell, reply_to, command))
                else:
                    self._replies[reply_to] = then
                    shell.enqueue(msg.CommandArrived(reply_to, command, self._clock.now_ms()))
            case QueryCall():
                self._await(reply_to, then, reader)
                self._query(call, reply_to)
            case ReadyCall():
                then(self._is_ready(call))
            case PageCall(cursor):
                self._await(reply_to, then, reader)
                self.spawn(self._next_page(cursor, reply_to))
        return reply_to

    async def _judge(
        self, retentions: Retentions, shell: PartitionShell, reply_to: int, command: Command
    ) -> None:
        """Let the leader decide on a deletion, once Kafka has said what may be deleted."""
        retention = await retentions.of(shell.topic_id_partition)
        shell.enqueue(msg.CommandArrived(reply_to, command, self._clock.now_ms(), retention))

    def _await(
        self, reply_to: int, then: Callable[[object], None], reader: AnswerReader | None
    ) -> None:
        self._replies[reply_to] = then
        if reader is not None:
            self._readers[reply_to] = reader

    def drop_call(self, reply_to: int) -> None:
        """Drop a call whose caller no longer waits. A query ends; a write may still happen."""
        self._readers.pop(reply_to, None)
        if self._replies.pop(reply_to, None) is not None and reply_to in self._questions:
            self._patience.take_out(reply_to)
            self._end_query(reply_to)

    def _query(self, call: QueryCall, reply_to: int) -> None:
        shell = self._shells.get((call.key, call.role))
        if call.role == STORAGE:
            self._handle(lives.ReadArrived(reply_to, call))
        elif shell is None:
            error = NotLeader(f"{self.name} has no {call.role} of {_text(call.key)}")
            self.reply(reply_to, error)
        else:
            shell.calls += 1
            shell.feed(msg.QueryArrived(reply_to, call.query, call.position_min))
        if reply_to in self._replies:
            self._questions[reply_to] = shell
            now_s = asyncio.get_running_loop().time()
            self._patience.enter(reply_to, now_s + call.timeout_ms / 1000)

    async def _next_page(self, cursor: str, reply_to: int) -> None:
        try:
            await self.make(reply_to, partial(self.lists.next_page, cursor))
        except RemoteStorageError as error:
            self.reply(reply_to, error)

    async def make(
        self, reply_to: msg.ReplyTo, work: Callable[[], Awaitable[Answered]]
    ) -> None:
        """Reply with the result of long work. It is done in its reader's turn, one at a time.

        It begins once the reader has read most of its former answers, and not at all if nobody
        waits for it any more. An error of `work` is raised.
        """
        reader = (None if reply_to is None else self._readers.get(reply_to)) or self._in_process
        async with reader.making:
            await reader.room()
            async with self._turns.of(reader.name):
                if reply_to in self._replies:
                    self.reply(reply_to, await work())

    def _expire(self, reply_to: int) -> None:
        self._end_query(reply_to)
        self.reply(reply_to, NotReady("no answer within the call's time"))

    def _end_query(self, reply_to: int) -> None:
        shell = self._questions.pop(reply_to)
        if shell is not None:
            shell.feed(msg.QueryExpired(reply_to))
        else:
            self._handle(lives.ReadGivenUp(reply_to))

    def _is_ready(self, call: ReadyCall) -> bool:
        shell = self._shells.get((call.key, call.role))
        if shell is None:
            return False
        machine = shell.machine
        if isinstance(machine, Leader):
            return machine.holds(call.claim)
        return machine.is_ready_for(call.claim)

    def reply(self, reply_to: msg.ReplyTo, value: object) -> None:
        """Give a waiting caller its result; late and repeated results are dropped."""
        then = None if reply_to is None else self._replies.pop(reply_to, None)
        if then is None or reply_to is None:
            return
        self._readers.pop(reply_to, None)
        if reply_to in self._questions:
            del self._questions[reply_to]
            self._patience.take_out(reply_to)
        then(value)

    # Placements.

    async def place(self, placements: Sequence[Placement]) -> None:
        """Take on, change or release partitions, in order. Idempotent; late orders do nothing.

        An error of one placement is raised; those before it are done.
        """
        slices = Slices()
        for placement in placements:
            self._handle(lives.Placed(placement, self._clock.now_ms()))
            await slices.yield_if_due()

    async def close_sessions(self, closes: Sequence[CloseCall]) -> None:
        """End the sessions of brokers that no longer lead, and no others."""
        slices = Slices()
        for close in closes:
            self._handle(lives.BrokerLeft(close, self._clock.now_ms()))
            await slices.yield_if_due()

    # The machine.

    def _handle(self, stimulus: lives.Stimulus) -> None:
        try:
            for effect in self._machine.handle(stimulus):
                self._carry_out(effect)
        except Exception as error:
            error.add_note(f"the last steps of the host: {self._machine.story}")
            raise

    def _carry_out(self, effect: lives.Effect) -> None:
        match effect:
            case lives.Begin():
                self._begin(effect)
            case lives.Load() | lives.Feed() | lives.Drop():
                shell = self._lives.get(effect.life)
                if shell is not None:  # It may have ended since the effect was made.
                    self._change(shell, effect)
            case msg.ReplyError(reply_to=reply_to, error=error):
                self.reply(reply_to, error)
            case lives.Closed():
                self._closed.set()
            case _:
                assert_never(effect)

    def _change(
        self, shell: PartitionShell, effect: lives.Load | lives.Feed | lives.Drop
    ) -> None:
        match effect:
            case lives.Load():
                shell.loading = self.spawn(self._load(shell))
            case lives.Feed(stimulus=stimulus):
                shell.feed(stimulus)
            case lives.Drop():
                self._drop(shell)

    def _begin(self, begin: lives.Begin) -> None:
        machine: Leader | Follower = (
            Follower(self.serde)
            if begin.claim is None
            else Leader(self.serde, self._limits, begin.claim)
        )
        tip = begin.topic_id_partition
        reader = PartitionReader(
            self.backend, self.keys, self.serde, self.cluster_id, tip, self._spill
        )
        # Copied now and not when the load begins: the follower is told to go elsewhere at the
        # same time. Not taken over: its reads, and the replicas that it feeds, go on meanwhile.
        copied = self.standby(PartitionKey.of(tip)) if begin.role == LEADER else None
        shell = PartitionShell(self, reader, begin.role, machine, begin.life, copied)
        if begin.role == LEADER:
            shell.feed(msg.DeletionsTold(self.deletions))
        self._lives[begin.life] = shell
        if begin.role == STORAGE:
            shell.after_step = partial(self._look_if_read, shell)
        else:
            self._shells[shell.key, shell.role] = shell

    async def _load(self, shell: PartitionShell) -> None:
        await shell.load()
        shell.loading = None
        if shell.role != STORAGE:
            self._handle(lives.Loaded(shell.life))

    def _look_if_read(self, shell: PartitionShell) -> None:
        """Report a load for reads as done once the log is read to its end, or cannot be."""
        if shell.machine.phase is not FollowerPhase.LOADING:
            shell.after_step = None
            self._handle(lives.Loaded(shell.life))

    def _drop(self, shell: PartitionShell) -> None:
        del self._lives[shell.life]
        shell.after_step = None
        if shell.loading is not None:
            shell.loading.cancel()
        if shell.role == STORAGE:
            return
        del self._shells[shell.key, shell.role]
        self.feeds.gone(shell)
        self.heads.gone(shell)
        if shell.role == FOLLOWER:
            self.hints.gone(shell.key)
        if shell.machine.state is not None and len(shell.machine.state.rows) > ROWS_AT_ONCE:
            self.spawn(_dismantled(shell.machine.state))

    # What partition shells call.

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` as a task of this host; if it fails, the host gives up."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if (error := failure_of(task)) is not None:
            # Only tasks that serve all partitions, as the committer does, end here: an error
            # of one partition ends only that partition.
            self.failed(error)

    def failed(self, error: BaseException) -> None:
        """Give up after an unforeseen error; a successor replays the logs."""
        self._has_failed = True  # If nothing else works any more, the next ping says it.
        try:
            _log.error("a task of the host failed", host=self.name, exc_info=error)
        finally:
            self._give_up()

    def standby(self, key: PartitionKey) -> LoadedPartition | None:
        """A copy of what the partition's follower here has; None if there is nothing."""
        follower = self._shells.get((key, FOLLOWER))
        machine = None if follower is None else follower.machine
        return machine.standby() if isinstance(machine, Follower) else None

    def read_slot(self, slot: PendingSlot, delay_ms: int) -> None:
        if delay_ms:
            asyncio.get_running_loop().call_later(delay_ms / 1000, self._slots.add, slot)
        else:
            self._slots.add(slot)

    def checkpointed(self) -> None:
        """Take note of a checkpoint that was stored."""
        self.report.checkpointed_ms = self.now_ms()

    def notified(self, shell: PartitionShell, notice: Notice) -> None:
        """Take a notice of a partition's machine."""
        match notice:
            case msg.HeadMoved():
                size, is_expired = notice.let_go_bytes, not notice.is_being_deleted
                self.report.let_go(
                    shell.topic_id_partition, size, self.now_ms(), is_expired=is_expired
                )
                self._head_moved(shell, notice.position)
            case msg.Alarm(kind=kind, message=message, hold=hold):
                self.report.alarm(shell.topic_id_partition, kind, message)
                if hold is not None:
                    self.report.held_back(shell.topic_id_partition, hold, self.now_ms())
            case msg.ClaimRefused():  # The coordinator hears of it, and who leads.
                self._handle(lives.Refused(shell.life, notice))
            case msg.Gone(reason=reason):
                self._handle(lives.Ended(shell.life, reason))

    def _head_moved(self, shell: PartitionShell, position: int) -> None:
        """Hint to followers at once: to this host's, and to those of hosts that subscribed."""
        self.heads.moved(shell)
        follower = self._shells.get((shell.key, FOLLOWER))
        if follower is not None:
            asyncio.get_running_loop().call_soon(follower.feed, msg.HintArrived(position))

    def now_ms(self) -> int:
        return self._clock.now_ms()

    # Standing work.

    async def _poll(self) -> None:
        for number in itertools.count():
            await asyncio.sleep(POLL_INTERVAL_S)
            if not number % ALL_POLLED_EVERY:
                self.report.look_for_standstill(asyncio.get_running_loop().time())
            unheard = self.hints.unheard()
            followers = self.hints.look()
            if number % ALL_POLLED_EVERY:
                followers = [shell for shell in followers if shell.key in unheard]
            for start in range(0, len(followers), POLL_KEYS):
                await self._poll_some(followers[start : start + POLL_KEYS])

    async def _poll_some(self, followers: list[PartitionShell]) -> None:
        logs = [self.keys.log(shell.topic_id_partition) for shell in followers]
        try:
            found = await self.backend.last_keys_seen(logs)
        except RemoteStorageError:
            return  # The next poll tries again; queries are answered from the present state.
        slices = Slices()
        for shell, last in zip(followers, found, strict=True):
            if last is not None and last >= shell.next_slot:
                shell.feed(msg.HintArrived(shell.machine.position + 1))
                await slices.yield_if_due()

    def _tell(self, deletions: Deletions) -> None:
        """Let all leaders go by `deletions`, if that is news."""
        if deletions.position <= self.deletions.position:
            return
        self.deletions = deletions
        for (_, role), shell in list(self._shells.items()):
            if role == LEADER:
                shell.feed(msg.DeletionsTold(deletions))

    async def heed(self, deletions: Deletions) -> list[PartitionKey]:
        """Let no deletion begin that `deletions` forbids.

        Batches that were decided before are waited for, and so are leaders that have not
        claimed yet: until then a former leader elsewhere, which is believed dead, may append.
        The partitions in which that takes too long are returned.
        """
        self._tell(deletions)
        flights = {
            shell: shell.machine.in_flight
            for shell in self._shells.values()
            if isinstance(shell.machine, Leader)
            and (shell.machine.in_flight is not None or not shell.machine.is_alone)
        }
        deadline_s = asyncio.get_running_loop().time() + HEED_S
        while flights and asyncio.get_running_loop().time() < deadline_s:
            await asyncio.sleep(HEED_LOOK_S)
            for shell, number in list(flights.items()):
                machine = shell.machine
                if not isinstance(machine, Leader) or (
                    machine.is_alone and (number is None or machine.in_flight != number)
                ):
                    del flights[shell]
        return [shell.key for shell in flights]

    async def purge(self, key: PartitionKey, command: StartPurges | EndPurges) -> Purging:
        """What the command's broker is purging of a partition after `command`; it is durable.

        Raises:
            NotLeader: The partition is not led here, or not any more.
        """
        state = await self._after(key, command)
        return purging_of(state, command, self._clock.now_ms())

    async def clean_up(self, key: PartitionKey, command: EndSegments) -> Sequence[bytes]:
        """The rows of the command's segments after it; it is durable.

        Raises:
            NotLeader: The partition is not led here, or not any more.
        """
        return rows_now(await self._after(key, command), command)

    async def _after(self, key: PartitionKey, command: Command) -> PartitionState:
        answer = await self.call(CommandCall(key, command))
        if isinstance(answer, RemoteStorageError):
            raise answer
        shell = self._shells.get((key, LEADER))
        state = None if shell is None else shell.machine.state
        if state is None:
            raise NotLeader(f"{self.name} does not lead {_text(key)} any more")
        return state

    async def ping(
        self,
        deletions: Deletions,
        time: CommonTime | None,
        placed: int | None = None,
        heard: DeletionsHeard = DeletionsHeard(),  # noqa: B008 - It is a constant.
    ) -> HostPing:
        """This host's report to the coordinator; that it comes shows that the host serves.

        Raises:
            HostFailed: It lives, but serves nothing any more, and has to be replaced.
        """
        self._tell(deletions)
        clock = self._clock if isinstance(self._clock, ProcessClock) else None
        if clock is not None and time is not None:
            clock.told(time)
        ended = [task for task in self._standing if task.done()]
        if ended and not self._has_failed and not self.is_closing:
            self.failed(failure_of(ended[0]) or HostFailed("a task of the host has ended"))
        if self._has_failed:
            raise HostFailed(f"{self.name} lives, but has failed and serves nothing any more")
        tiered = self.report.tiered()
        return HostPing(
            process=self.process,
            door=self.report.door,
            lost=tuple(self._machine.lost.items()),
            refused=tuple(self._machine.refused.items()),
            behind=tuple(self._machine.behind(self._is_loading)),
            is_heard=self.report.is_heard,
            doors=self.report.doors,
            clock_ms=None if clock is None else clock.own_ms(),
            newest=self.committer.newest,
            deleted=self.report.deletions.report(heard, tiered, self.now_ms()),
            tiered_bytes=sum(size for _, size in tiered.values()),
            runs=self._machine.runs(placed),
        )

    def _is_loading(self, number: int) -> bool:
        return self._lives[number].machine.phase is FollowerPhase.LOADING

    async def counts(self) -> dict[str, Any]:
        """The host's names and door, and its counts since its process began."""
        return {**self.report.counts(), "feeds": await self.feeds.counts()}

    async def load(self) -> HostLoad | None:
        """What the leaders here are asked, since the call before; None for the first call."""
        return self.report.load()

    async def store(
        self, method: str, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401 - What the backend's method returns.
        """Call the backend for a process that may not write to the store itself."""
        if method not in STORE_METHODS:
            raise InvalidArgument(f"expected one of {', '.join(STORE_METHODS)}, got {method!r}")
        return await getattr(self.backend, method)(*arguments, **named)

    async def partitions(self) -> list[dict[str, Any]]:
        """Role, phase, position and session of each leader and follower that runs here."""
        return await self.report.partitions()


async def _dismantled(state: PartitionState) -> None:
    slices = Slices()
    for _ in state.dismantle():
        await slices.yield_if_due()


def _settle(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def _text(key: PartitionKey) -> str:
    return str(key.named("?"))
