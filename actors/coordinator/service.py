"""The coordinator on asyncio: carries out the effects of its machine, and holds no rule itself.

Requests, the store's answers, pings and timers become stimuli; see `machine`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar, assert_never

from tierledger.actors.calls import (
    CloseSessionsCall,
    HeedCall,
    HostLoad,
    HostPing,
    LoadCall,
    PartitionKey,
    PingCall,
    PlaceCall,
    Request,
    RetireCall,
)
from tierledger.actors.conditions import STORE_REFUSED, Conditions
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.coordinator.attendance import Attend, Attended, Followed, MoveReport
from tierledger.actors.coordinator.breaker import Breaker
from tierledger.actors.coordinator.clocks import OWN, Clocks
from tierledger.actors.coordinator.events import Announcement, Owner, Registered, Route
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.holding import (
    PlaceHold,
    ReleaseHold,
    deletions,
    led_under,
)
from tierledger.actors.coordinator.log import BATCHES_PER_READ, coordinator_batches
from tierledger.actors.coordinator.machine import Coordinator
from tierledger.actors.coordinator.nodes import ClusterNodes
from tierledger.actors.coordinator.ownership import CONFIRM, Handover, Owned, PluginMode
from tierledger.actors.coordinator.placement import (
    PARTITIONS_PER_HOST,
    WRITER,
    awaiting,
    relieve,
)
from tierledger.actors.coordinator.purge_requests import (
    CleanUp,
    NextPurge,
    ReleaseKept,
    ToPurge,
)
from tierledger.actors.coordinator.purges import Purges
from tierledger.actors.coordinator.replacing import (
    THE_COORDINATOR,
    LeaveNode,
    Replacement,
    ReplacementStep,
    ReplaceProcess,
)
from tierledger.actors.coordinator.report import coordinator_report
from tierledger.actors.coordinator.requests import FollowedCoordinator
from tierledger.actors.foreign_errors import failure_of
from tierledger.actors.holds import Hold
from tierledger.actors.hosted_backend import HostedBackend
from tierledger.actors.messages import (
    Append,
    AppendAnswered,
    AppendOutcome,
    LoadFailed,
    LogRead,
    ProbeFailed,
    ReadLog,
    ReadSlot,
    ReplyError,
    ReplyTo,
    SlotRead,
)
from tierledger.actors.oracle.no_oracle import ORACLE_DEADLINE_S, NoOracle
from tierledger.actors.ports import (
    HostFailed,
    HostGone,
    HostHandle,
    HostLauncher,
    LeaderOracle,
)
from tierledger.actors.process_clock import ProcessClock
from tierledger.actors.processes import node_of
from tierledger.actors.slices import Slices
from tierledger.events.commands import Claim, LeaderVerdict
from tierledger.events.errors import (
    OutcomeUnknown,
    RejectedError,
    RemoteStorageError,
    RetryableError,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.events.tables.spilled_map import Spill
from tierledger.storage.backend import Former, MetadataStorageBackend, older_store, require_all
from tierledger.storage.catalog import Catalog
from tierledger.storage.clock import Clock
from tierledger.storage.keys import MetadataKeyFactory
from tierledger.storage.process_log import ProcessLog
from tierledger.storage.serde import MetadataSerDe

T = TypeVar("T")

MOVED_AT_ONCE = 50
"""Leaders and followers that one request for a replacement moves: the rest is served on."""

RETIRE_S = 30.0
"""How long a host may take to stop in good order before it is ended all the same."""

RESIGN_S = 0.2
"""How long after the answer a coordinator that is to be replaced ends."""

LOAD_EVERY_S = 10.0
"""How often a host is asked for what its leaders are asked: the load is of that time."""

LOAD_S = 0.3
"""How long it may take to answer that."""

HEED_S = 8.0
"""How long a host may take to go by a new hold."""

_log = ProcessLog("tierledger.coordinator")


class CoordinatorService:
    """Serves clients' requests. Make it on a running loop, and call `start` first."""

    def __init__(  # noqa: PLR0913 - What a coordinator is made of, all by name.
        self,
        *,
        cluster_id: str,
        keys: MetadataKeyFactory,
        serde: MetadataSerDe,
        launcher: HostLauncher,
        clock: Clock,
        node: str | None = None,
        nodes: ClusterNodes | None = None,
        hosts: int = 1,
        partitions_per_host: int = PARTITIONS_PER_HOST,
        identity: bytes | None = None,
        backend: MetadataStorageBackend | None = None,
        reader: MetadataStorageBackend | None = None,
        oracle: LeaderOracle | None = None,
        opens: Callable[[str], Awaitable[bool]] | None = None,
        breaker: Breaker | None = None,
        spill: Spill | None = None,
        give_up: Callable[[], None] = lambda: None,
    ) -> None:
        """A coordinator that does nothing before `start`.

        Args:
            cluster_id: The cluster whose coordinator's log it keeps.
            keys: Names the log's batches.
            serde: Turns them into bytes.
            launcher: Starts, finds and ends hosts.
            clock: For the time in the log.
            node: The Ray node that it runs on, whose processes have one clock.
            nodes: What is known of the cluster's nodes, kept up to date by the caller; None:
                there is no cluster.
            hosts: How many hosts are started at least, however little there is to serve.
            partitions_per_host: Leaders and followers that one host may run.
            identity: Distinguishes this coordinator's batches from equal ones of another.
            backend: The store, if many processes may write to it; None: `host-0` writes for
                all.
            reader: In that case, the store for reading.
            oracle: Knows the leader epochs that announcements leave out; None: they stay out.
            opens: Knocks at a door (HOST:PORT), as a client would; None: all doors open.
            breaker: When brokers delete too much; None: by its defaults.
            spill: Where kept segments are while it purges some; None: in memory.
            give_up: Ends the process, real or simulated, after an unforeseen error.
        """
        self.give_up = give_up
        self.backend: MetadataStorageBackend = backend or HostedBackend(self._writer, reader)
        """The store, as this coordinator writes to it."""
        self._launcher = launcher
        self._oracle = oracle or NoOracle()
        self._opens = opens
        self._keys = keys
        self._clock = clock
        self._node = node
        self.nodes = nodes or ClusterNodes()
        """The nodes of the Ray cluster."""
        self._clocks = Clocks()
        self._batches = coordinator_batches(self.backend, keys)

        def new_machine() -> Coordinator:
            return Coordinator(
                Fold(cluster_id, keys, serde, identity),
                began_ms=self._now_ms(),
                hosts=hosts,
                partitions_per_host=partitions_per_host,
                writer=WRITER if backend is None else None,
            )

        self._identity = (identity or b"").hex()
        self._partitions_per_host = partitions_per_host
        self._new_machine = new_machine
        self._loop = asyncio.get_running_loop()
        self._began_ms = self._now_ms()
        self._machine = self._new_machine()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._callers: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        self.conditions = Conditions(clock.now_ms)
        """What is wrong with the coordinator now, for the list of troubles."""
        self._breaker = breaker or Breaker()
        self._breaking: asyncio.Task[None] | None = None
        self._has_writer = backend is None
        self._newest: dict[str, Former] = {}
        """What each host, by its name, has committed last."""
        self._handles: dict[str, HostHandle] = {}
        """Handles on hosts' processes, by address."""
        self._told: dict[str, int] = {}
        """By address: the newest event about deletions of which a ping has told."""
        self._loads_asked: dict[str, float] = {}
        """By address: when (s) it was asked for its load last, or would have been."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._purges = Purges(
            Catalog(self.backend, keys, serde, cluster_id, spill),
            lambda: self._machine.fold,
            self._handles.get,
            clock.now_ms,
        )

    async def start(self) -> None:
        """Read the log, start the hosts, and send them their placements.

        After an error it may be called again.

        Raises:
            StoreRefused: The store cannot be opened.
            CorruptLog: The coordinator's log does not verify.
        """
        if self._ready.done():  # An earlier attempt failed.
            await self.close()
            self._machine, self._ready = self._new_machine(), self._loop.create_future()
        self._feed(msg.Started())
        await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Stop timers and pings, and refuse waiting callers; the launcher keeps the hosts."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if self._breaking is not None:
            self._breaking.cancel()
            tasks.append(self._breaking)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._purges.close()
        self._feed(msg.Stopped())

    async def _writer(self) -> HostHandle:
        running = self._machine.hosts.running.get(WRITER)
        handle = None if running is None else self._handles.get(running.address)
        if handle is None:
            raise StorageUnavailable("the host that writes is being replaced")
        return handle

    # Requests. They were checked at the door.

    async def ask(self, request: Request[FollowedCoordinator, T]) -> T:
        """The answer to `request`, as through any handle on a coordinator."""
        return await request.put_to(self)

    async def register(
        self, broker_id: int, request: bytes, after: int, mode: PluginMode | None = None
    ) -> Registered:
        """A new incarnation for `broker_id`, greater than all before; durable on return.

        A repeat of `request` gets the same incarnation. If the broker's newest incarnation is
        not `after`, the client gets none, but learns the newest: it retries with that.

        Raises:
            NotReady: With a broker's plugin in `mode`, not all brokers would decide by one
                manager; nothing changed.
            RejectedError: The same, and the plugin has to be started in another mode.
        """
        given: Registered = await self._ask(msg.Register(broker_id, request, after, mode))
        return given

    async def hand_over(self, wish: Handover) -> Owned:
        """The owner after `wish`, and the owner epoch; durable on return.

        Raises:
            RejectedError: `wish` does not fit the present owner; nothing changed.
        """
        request: msg.Decidable = msg.HandOver(wish)
        if wish == CONFIRM:
            self._machine.presence.refuse_unowned(self._machine.state)
            request = msg.ReleaseDeletions(None)
        owned: Owned = await self._ask(request)
        return owned

    async def attend(self, attend: Attend) -> Attended:
        """Take a plugin's report (heartbeat); the answer is who owns the cluster's metadata.

        Raises:
            Fenced: A newer client of the broker has registered.
        """
        attended: Attended = await self._report(attend)
        return attended

    async def tell_move(self, report: MoveReport) -> None:
        """Take the report of a command that moves the metadata; `status` shows it."""
        await self._report(report)

    async def follow_kafka(self, report: dict[str, Any]) -> Followed:
        """Take a follower's report; the answer is the owner, and whether it is chosen."""
        followed: Followed = await self._report(report)
        return followed

    async def hold(self, wish: PlaceHold | ReleaseHold) -> list[PartitionKey]:
        """Place or release a hold; durable on return.

        From then on no segment under it begins to be deleted, but in the partitions that are
        returned: their host did not say in time that it knows.

        Raises:
            RejectedError: See `holding`; nothing changed.
        """
        if isinstance(wish, PlaceHold):
            hold = wish.hold
        elif (placed := self._machine.state.holds.get(wish.name)) is not None:
            hold = placed.hold
        else:
            hold = Hold(wish.name)  # It is refused, unless it is being placed right now.
        await self._ask(msg.ChangeHold(wish, self._clock.now_ms()))
        running = list(self._machine.hosts.running)
        told = await asyncio.gather(*map(self._heeds, running))
        late = led_under(self._machine.state, hold, None)
        for host, unheeded in zip(running, told, strict=True):
            led = led_under(self._machine.state, hold, host)
            late += led if unheeded is None else [key for key in led if key in unheeded]
        return late

    def _watch_deletions(self, host: str, ping: HostPing) -> None:
        """Place the breaker's hold if brokers have deleted too much."""
        state, running = self._machine.state, self._machine.hosts.running
        self._breaker.know(running)
        self._breaker.reported(host, ping)
        due = self._breaker.broken(running, self._clock.now_ms(), state.released_ms)
        if state.ownership.owner != Owner.TIERLEDGER:
            return  # Kafka's own manager heeds no hold.
        is_free = self._breaking is None or self._breaking.done()
        placed = (hold for hold in due if hold.name not in state.holds)
        if is_free and (hold := next(placed, None)) is not None:
            self._breaking = self._loop.create_task(self._break(hold))

    async def _break(self, hold: Hold) -> None:
        try:
            await self.hold(PlaceHold(hold))
        except Exception as error:  # noqa: BLE001 - It is tried again with the next ping.
            _log.warning("the breaker's hold is not placed", error=repr(error))

    async def purge(self, wish: NextPurge) -> ToPurge | None:
        """What a guarded broker is to purge next; see `Purges`."""
        return await self._purges.next(wish)

    async def release_kept(self, wish: ReleaseKept) -> None:
        """Let go of segments that are kept until an operator says so; see `Purges`."""
        await self._purges.release(wish)

    async def clean_up(self, wish: CleanUp) -> Sequence[bytes]:
        """End segments that no broker ends; see `Purges`.

        Raises:
            RejectedError: Another manager decides, or a segment is not as it was seen, or held.
        """
        ownership = self._machine.fold.state.ownership
        if ownership.has_another:
            raise RejectedError(
                f"not_the_owner: the metadata's owner is {ownership.owner}; expected tierledger"
            )
        return await self._purges.clean_up(wish)

    async def replace(self, wish: ReplaceProcess) -> Replacement:
        """Go on with the replacement of a process; see `ReplaceProcess`.

        Raises:
            RejectedError: There is no such host.
        """
        if wish.host == THE_COORDINATOR:
            return self._resign(wish.process)
        hosts, state = self._machine.hosts, self._machine.state
        running = hosts.running.get(wish.host)
        if running is None:
            if wish.host not in {*state.hosts, *hosts.starting}:
                known = ", ".join(sorted(state.hosts)) or "none"
                raise RejectedError(
                    f"expected a host of the service ({known}), got {wish.host!r}"
                )
            return Replacement(ReplacementStep.STARTING, 0)
        if running.process != wish.process:
            return Replacement(ReplacementStep.DONE, 0)
        asked = msg.ReplaceAsked(
            *wish, is_relieved=False, leaves_node=isinstance(wish, LeaveNode)
        )
        self._feed(asked)
        behind, closed = hosts.behind(), hosts.closed
        waiting = (
            awaiting(state, wish.host, behind, hosts.untold(), closed)
            if hosts.patient(wish.host)
            else set()
        )
        bodies = relieve(
            state,
            wish.host,
            MOVED_AT_ONCE,
            self._partitions_per_host,
            behind,
            closed,
            waiting,
        )
        left = len(state.seats.get(wish.host, ()))
        if bodies:
            await self._ask(msg.Relieve(tuple(bodies), state.next_position))
            return Replacement(ReplacementStep.MOVING, left)
        if waiting:
            return Replacement(ReplacementStep.MOVING, left)
        self._feed(asked._replace(is_relieved=True))
        return Replacement(ReplacementStep.STARTING, left)

    def _resign(self, identity: str) -> Replacement:
        if identity != self._identity:
            return Replacement(ReplacementStep.DONE, 0)
        _log.info("the coordinator's process is replaced")
        self._loop.call_later(RESIGN_S, self.give_up)
        return Replacement(ReplacementStep.STARTING, 0)

    async def _heeds(self, host: str) -> list[PartitionKey] | None:
        """The partitions in which a host does not go by the newest holds yet; None: in all."""
        running = self._machine.hosts.running.get(host)
        handle = None if running is None else self._handles.get(running.address)
        if handle is None:
            return None
        try:
            async with asyncio.timeout(HEED_S):
                told = deletions(self._machine.state)
                return await handle.ask(HeedCall(told))
        except Exception as error:  # noqa: BLE001 - Whatever it is, it does not know it.
            _log.warning("a host does not know the newest holds", host=host, error=repr(error))
            return None

    def _now_ms(self) -> int:
        """Milliseconds of a clock that never goes back."""
        return int(self._loop.time() * 1000)

    async def announce(self, announcement: Announcement) -> list[Claim]:
        """The claim in force for each leader, then each follower, in the announcement's order.

        If an item repeats an earlier announcement, its claim is the earlier one. The
        announcement is durable on return; hosts are sent their placements soon after.

        Raises:
            Fenced: The broker has registered or announced something newer; nothing changed.
            Overloaded: Too many requests wait; nothing changed.
        """
        leaders = await self._leaders(announcement)
        claims: list[Claim] = await self._ask(msg.informed(announcement, leaders))
        return claims

    async def _leaders(self, given: Announcement) -> dict[PartitionKey, LeaderVerdict]:
        """Kafka's leaders of those partitions for which `given` names no leader epoch."""
        leaders = () if given.import_cluster is not None else given.leaders
        unknown = {PartitionKey(*item[:2]): item[2] for item in leaders if item[3] is None}
        if not unknown:
            return {}
        try:
            async with asyncio.timeout(ORACLE_DEADLINE_S):
                found = await self._oracle.leaders_of(
                    [key.named(topic) for key, topic in unknown.items()]
                )
        except Exception as error:  # noqa: BLE001 - Whatever an oracle does, it is no answer.
            _log.warning("the leader oracle gave no answer", error=repr(error))
            return {}
        known = zip(unknown, found, strict=True)
        return {key: verdict for key, verdict in known if verdict is not None}

    async def _ask(self, request: msg.Decidable) -> Any:  # noqa: ANN401 - Its answer.
        number, answer = self._caller()
        self._feed(msg.Requested(number, request))
        return await answer

    async def _report(self, report: msg.Report) -> Any:  # noqa: ANN401 - Its answer.
        number, answer = self._caller()
        self._feed(msg.Reported(number, report))
        return await answer

    def _caller(self) -> tuple[int, asyncio.Future[Any]]:
        """A caller's number, and its answer."""
        number = next(self._numbers)
        answer = self._callers[number] = self._loop.create_future()
        return number, answer

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        """Where each partition is served now, in order; one that has a log is always known."""
        routes, slices = [], Slices()
        for key in keys:
            await slices.yield_if_due()
            route = self._machine.state.route(key)
            if not route.known:
                prefix = self._keys.log(key.named(""))
                route = route._replace(known=bool(await self.backend.get_like(prefix, limit=1)))
            routes.append(route)
        return routes

    async def hosts(self) -> dict[str, str]:
        """The hosts that are believed to live, each with its address."""
        return {
            name: host.address for name, host in sorted(self._machine.hosts.running.items())
        }

    async def doors(self) -> dict[str, str]:
        """The doors (HOST:PORT) of living processes that listen, by address."""
        running = self._machine.hosts.running.values()
        return {one.address: one.door for one in running if one.door is not None}

    def listening(self) -> tuple[tuple[str, str, str], ...]:
        """The same for the service's record: address, door and process of each."""
        running = [one for _, one in sorted(self._machine.hosts.running.items())]
        return tuple((one.address, one.door, one.process) for one in running if one.door)

    async def status(self) -> dict[str, Any]:
        """Hosts, partitions and brokers as the coordinator knows them."""
        state, hosts = self._machine.state, self._machine.hosts
        aside = [*state.set_aside.values(), *hosts.set_aside()]
        now_ms = self._clock.now_ms()
        report = coordinator_report(state, hosts.heard_ms, now_ms, list(hosts.starting), aside)
        attending = self._machine.presence.attendance.report(
            state.ownership, state.incarnations, self._now_ms()
        )
        found = [*hosts.not_started(self._now()), *hosts.doors.conditions()]
        found += [*self._clocks.conditions(), *self.nodes.conditions()]
        conditions = [one._asdict() for one in found]
        conditions += self.conditions.plain()
        up_ms = self._now_ms() - self._began_ms
        return {
            **report,
            **attending,
            "coordinator": self._identity,
            "node": self._node,
            "nodes": self.nodes.report(),
            "purges": self._purges.report(),
            "up_ms": up_ms,
            "conditions": conditions,
        }

    def hindrance(self) -> str | None:
        """Why nothing can be written for want of a host; any thread may ask.

        None if that is possible, or the host starts as others do.
        """
        hosts = self._machine.hosts
        found = [] if hosts.can_serve else hosts.not_started(self._now())
        return found[0].text if found else None

    def serving(self) -> dict[str, str]:
        """The processes that serve, by host; any thread may ask."""
        running = list(self._machine.hosts.running.items())
        return {name: host.process for name, host in running}

    # The machine.

    def _now(self) -> msg.Moment:
        return msg.Moment(self._loop.time(), self._clock.now_ms())

    def _feed(self, stimulus: msg.Stimulus) -> None:
        try:
            for effect in self._machine.handle(stimulus, self._now()):
                self._carry_out(effect)
        except Exception as error:  # noqa: BLE001 - Nobody foresaw it.
            self.failed(error)

    def failed(self, error: BaseException) -> None:
        """Give up after an unforeseen error."""
        if not self._ready.done():
            self._ready.set_exception(error)
        try:
            story = self._machine.story.numbered()
            _log.error("a task of the coordinator failed", exc_info=error, story=story)
        finally:
            # It is not known what this left undone. A successor reads the log and does it all.
            self.give_up()

    def _carry_out(self, effect: msg.Effect) -> None:  # noqa: C901, PLR0912
        match effect:  # However many cases: each is one line.
            case Append():
                self._spawn(self._append, effect)
            case ReadLog(number=number):
                self._spawn(self._read_log, number)
            case ReadSlot(number=number, delay_ms=delay_ms):
                self._spawn(self._read_slot, number, delay_ms)
            case msg.Resume():
                self._after(0, msg.Resumed())
            case msg.ReplyToRequest(reply_to=caller, value=value):
                self._answer(caller, value, None)
            case ReplyError(reply_to=caller, error=error):
                self._answer(caller, None, error)
            case msg.Prepare(address=address, is_replacement=is_replacement):
                self._launcher.prepare(address, is_replacement=is_replacement)
            case msg.StartProcess():
                self._spawn(self._start_process, effect)
            case msg.EndProcess():
                self._spawn(self._end_process, effect)
            case msg.RetireHost():
                self._spawn(self._retire, effect)
            case msg.Ping():
                self._spawn(self._ping, effect)
            case msg.Knock():
                self._spawn(self._knock, effect)
            case msg.SendWork():
                self._spawn(self._send_work, effect)
            case msg.Forget(address=address):
                self._handles.pop(address, None)
                self._told.pop(address, None)
                self._loads_asked.pop(address, None)
            case msg.SetTimer(timer=timer, delay_s=delay_s):
                self._after(delay_s, msg.TimerFired(timer))
            case msg.Ready():
                self._ready.set_result(None)
            case msg.GiveUp(error=error):
                self._ready.set_exception(error)
            case msg.Note(level=level, event=event, details=details, error=error):
                _log.tell(level, event, {**details, "exc_info": error})
            case _:
                assert_never(effect)

    def _answer(self, caller: ReplyTo, value: object, error: RemoteStorageError | None) -> None:
        future = self._callers.pop(caller, None) if caller is not None else None
        if future is None or future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def _after(self, delay_s: float, stimulus: msg.Stimulus) -> None:
        number = next(self._numbers)

        def fire() -> None:
            del self._timers[number]
            self._feed(stimulus)

        self._timers[number] = self._loop.call_later(delay_s, fire)

    def _spawn(self, work: Callable[..., Awaitable[msg.Stimulus]], *given: Any) -> None:  # noqa: ANN401
        """Do `work(*given)` in a task, and feed the machine with its result."""
        number = next(self._numbers)

        async def do() -> None:
            self._feed(await work(*given))

        def done(task: asyncio.Task[None]) -> None:
            del self._tasks[number]
            if (error := failure_of(task)) is not None:
                self.failed(error)

        task = self._tasks[number] = self._loop.create_task(do())
        task.add_done_callback(done)

    # The store.

    async def _append(self, append: Append) -> msg.Stimulus:
        number = append.number
        key, former = self._batches.key(number), self._batches.former(number, append.beginning)
        try:
            (outcome,) = await self.backend.create_each(
                [(key, append.value)], {} if former is None else {key: former}
            )
            self.conditions.clear(STORE_REFUSED)
        except RemoteStorageError as error:
            return msg.AppendFailed(number, self._refused(error))
        except Exception as error:  # noqa: BLE001 - Who waits is answered, whatever it was.
            _log.exception("the coordinator's log was not appended to")
            return msg.AppendFailed(number, OutcomeUnknown(repr(error)))
        return AppendAnswered(number, AppendOutcome(outcome.value))

    async def _read_log(self, number: int) -> msg.Stimulus:
        try:
            page = await self._batches.page(number, BATCHES_PER_READ)
        except RemoteStorageError as error:
            return LoadFailed(error)
        return LogRead(number, tuple(page.batches), page.is_end)

    async def _read_slot(self, number: int, delay_ms: int) -> msg.Stimulus:
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        try:
            before, value = await self.backend.get_each(
                [self._batches.key(max(number - 1, 0)), self._batches.key(number)]
            )
        except RemoteStorageError as error:
            return ProbeFailed(number, error)
        if number and before is None and value is None:
            older = older_store("the store", self._batches.key(number - 1))
            return ProbeFailed(number, self._refused(older))
        return SlotRead(number, value)

    def _refused(self, error: RemoteStorageError) -> RemoteStorageError:
        """`error` of the store, which is a condition of this process if it will not pass."""
        if isinstance(error, StoreRefused):
            self.conditions.hold(STORE_REFUSED, str(error))
        return error

    # Hosts.

    async def _start_process(self, start: msg.StartProcess) -> msg.Stimulus:
        host, address = start.host, start.address
        try:
            async with asyncio.timeout(start.timeout_s):
                handle = await self._launcher.launch(address)
                await self._check_store(host, handle)
                ping = await self._pinged(host, address, handle)
                if ping.clock_ms is not None:
                    # It learns the common time before it serves: what is written in a wrong
                    # time stays so.
                    ping = await self._pinged(host, address, handle)
        except TimeoutError:
            error = StorageUnavailable(f"{address} did not start within {start.timeout_s:g} s")
            return msg.StartFailed(host, address, error)
        except RemoteStorageError as error:
            return msg.StartFailed(host, address, self._refused(error))
        self._handles[address] = handle
        return msg.ProcessStarted(host, address, ping)

    async def _check_store(self, host: str, handle: HostHandle) -> None:
        """Check that a new process has opened a store that holds what was last written to it.

        Raises:
            StoreRefused: It is an older one, which was put back before anybody wrote again.
        """
        if self._has_writer and host != WRITER:
            return  # It writes through the writer.

        async def itself() -> HostHandle:
            return handle

        if seen := self.seen():
            await require_all(HostedBackend(itself), seen)

    def seen(self) -> list[Former]:
        """What the store has to hold: what hosts and coordinators have written last."""
        machine = self._machine
        own = self._batches.former(machine.fold.next_batch, machine.beginning)
        return [*self._newest.values(), *([] if own is None else [own])]

    async def _end_process(self, end: msg.EndProcess) -> msg.Stimulus:
        try:
            await self._launcher.end(end.address, end.process)
        except RemoteStorageError as error:
            return msg.ProcessEnded(end.host, end.address, error)
        return msg.ProcessEnded(end.host, end.address)

    async def _retire(self, retired: msg.RetireHost) -> msg.Stimulus:
        handle = self._handles.get(retired.address)
        try:
            if handle is not None:
                async with asyncio.timeout(RETIRE_S):
                    await handle.ask(RetireCall())
        except Exception as error:  # noqa: BLE001 - Its process is ended all the same.
            _log.warning(
                "a host did not stop in good order", host=retired.host, error=repr(error)
            )
        return msg.HostEnded(retired.host, retired.watch)

    async def _ping(self, ping: msg.Ping) -> msg.Stimulus:
        try:
            handle = self._handles.get(ping.address)
            if handle is None:
                handle = await self._launcher.find(ping.address)
            if handle is None:
                return msg.HostEnded(ping.host, ping.watch)
            self._handles[ping.address] = handle
            async with asyncio.timeout(ping.timeout_s):
                answer = await self._pinged(ping.host, ping.address, handle, ping.placed)
            if answer.newest is not None:
                self._newest[ping.host] = answer.newest
            self._watch_deletions(ping.host, answer)
            load = await self._load(ping.address, handle)
        except HostGone:
            return msg.HostEnded(ping.host, ping.watch)
        except Exception:  # noqa: BLE001 - Whatever it is, it is no answer.
            return msg.PingMissed(ping.host, ping.watch)
        return msg.PingAnswered(ping.host, ping.watch, answer, load)

    async def _load(self, address: str, handle: HostHandle) -> HostLoad | None:
        """What a host's leaders are asked, every `LOAD_EVERY_S`; None: not now, or unknown."""
        now_s = self._loop.time()
        if now_s - self._loads_asked.setdefault(address, now_s) < LOAD_EVERY_S:
            return None
        self._loads_asked[address] = now_s
        # An earlier release does not answer; a host that hangs is found by its pings.
        with suppress(TimeoutError, RemoteStorageError):
            async with asyncio.timeout(LOAD_S):
                return await handle.ask(LoadCall())
        return None

    async def _pinged(
        self, host: str, address: str, handle: HostHandle, placed: int | None = None
    ) -> HostPing:
        """A host's answer to a ping, which also tells its clock, and what time it is."""
        sent_s, told = self._loop.time(), deletions(self._machine.state)
        time = self._clocks.common(sent_s, address)
        ping = await handle.ask(PingCall(told, time, placed, self._breaker.heard(host)))
        self._told[address] = told.position
        if ping.clock_ms is not None and isinstance(self._clock, ProcessClock):
            now, own, clocks = self._now(), self._clock, self._clocks
            clocks.keep(self._machine.hosts.addresses())
            own_machine = self._node or "coordinator"
            clocks.tell(OWN, "the coordinator", own_machine, own.own_ms(), now)
            midway = now._replace(s=(sent_s + now.s) / 2)
            clocks.tell(address, host, node_of(ping.process) or host, ping.clock_ms, midway)
            if (time := clocks.common(now.s)) is not None:
                own.told(time)
        return ping

    async def _knock(self, knock: msg.Knock) -> msg.Stimulus:
        opens = self._opens is None or await self._opens(knock.door)
        return msg.Knocked(knock.host, knock.watch, opens)

    async def _send_work(self, send: msg.SendWork) -> msg.Stimulus:
        host, work, watch = send.work.host, send.work, send.watch
        handle = self._handles.get(send.address)
        try:
            if handle is None:
                return msg.WorkInDoubt(host, watch, HostGone(f"{send.address} is forgotten"))
            if work.closes:
                await handle.ask(CloseSessionsCall(work.closes))
            else:
                if self._told.get(send.address, -1) < self._machine.state.held_at:
                    # It may have started while a hold was being placed: no leader there
                    # may begin a deletion before it knows that.
                    await self._pinged(host, send.address, handle)
                await handle.ask(PlaceCall(work.placements))
        except HostFailed as error:
            return msg.WorkFailed(host, watch, error)
        except (OutcomeUnknown, RetryableError) as error:
            return msg.WorkInDoubt(host, watch, error)
        except Exception as error:  # noqa: BLE001 - The host raised it.
            return msg.WorkFailed(host, watch, error)
        return msg.WorkDone(host, watch)
