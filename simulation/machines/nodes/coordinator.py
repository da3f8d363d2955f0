"""A coordinator on virtual time: the service's own machine, and a shell for it.

Pings take no time here. A process answers its first ping at once. Each later ping is held until
the host has something to report, or the world decides that its pings go unanswered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from typing_extensions import override

from tierledger.actors.calls import LEADER, HostPing, PartitionKey, Placement, Refusal
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.coordinator.attendance import Attend, Attendance
from tierledger.actors.coordinator.events import Announcement
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.actors.coordinator.fold import Fold
from tierledger.actors.coordinator.log import BATCHES_PER_READ
from tierledger.actors.coordinator.machine import Coordinator, CoordinatorPhase
from tierledger.actors.coordinator.ownership import Handover, Ownership, PluginMode
from tierledger.actors.coordinator.state import CoordinatorState
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
    SlotRead,
)
from tierledger.events.errors import NotReady, OutcomeUnknown, RemoteStorageError
from tierledger.events.log_events import Event
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife, S
from tierledger.simulation.machines.environment.medium import COORDINATOR
from tierledger.simulation.machines.moved import unnotified
from tierledger.simulation.machines.nodes.host import HostNode, HostWorld
from tierledger.simulation.machines.nodes.surroundings import Surroundings
from tierledger.storage.backend import CreateOutcome
from tierledger.storage.partition.event_log import StoredBatch

RETRY = 50 * MS
"""Pause before a coordinator that could not start is started again."""

SEND_AGAIN = 300 * MS
"""How long a coordinator waits for a host to acknowledge its orders."""


class CallerOfCoordinator(Protocol):
    """A broker's client, as coordinators see it."""

    life: ProcessLife

    @property
    def mode(self) -> PluginMode | None: ...
    def coordinated(self, token: int, result: object, /) -> None: ...


class Attendant(Protocol):
    """A plugin or a follower of Kafka's topic: it reports, and acts on the ownership."""

    @property
    def life(self) -> ProcessLife: ...
    def hear(self, ownership: Ownership, as_of: int, /) -> None: ...


class WatchedCoordinator(Coordinator):
    """The service's machine, which also marks a rare situation."""

    world: Surroundings

    @override
    def apply(self, event: Event) -> list[HostWork]:
        work = super().apply(event)
        body: object = event.body
        if isinstance(body, ev.LeaderRestored):
            key = PartitionKey(body.topic_id, body.partition)
            if self.state.partitions[key].displaced:
                self.world.recording.mark("several claims stood again")
        # No process of this world writes an item that the fold has to set aside.
        assert not self.state.set_aside, f"set aside: {self.state.set_aside}"
        return work


class CoordinatorNode:
    """One coordinator process; several may run at the same time."""

    def __init__(self, world: HostWorld, life: ProcessLife) -> None:
        self.world = world
        self.life = life
        self._clock, self._medium, self._wires = world.clock, world.medium, world.wires
        self._mark = world.recording.mark
        self._callers: dict[int, tuple[CallerOfCoordinator, int]] = {}
        self._calls = 0
        self._unacknowledged: dict[int, msg.SendWork] = {}
        """Orders that hosts have not acknowledged, by the number of the call."""
        self._held: dict[str, msg.Ping] = {}
        """Pings that are held until their hosts have something to report, by address."""
        self._pinged: set[int] = set()
        """Watches of processes that have answered a ping."""
        self._missed: set[str] = set()
        """Processes that were missed while no ping was held for them: their next one fails."""
        self._attendance = Attendance()
        self.machine = self._new_machine()

    @property
    def state(self) -> CoordinatorState:
        return self.machine.state

    def _new_machine(self) -> WatchedCoordinator:
        world = self.world
        fold = Fold(world.cluster_id, world.keys, world.serde, self.life.name.encode())
        scenario = world.scenario
        machine = WatchedCoordinator(
            fold, hosts=scenario.hosts, partitions_per_host=scenario.partitions_per_host
        )
        machine.world = world
        return machine

    def start(self) -> None:
        """Read the log, ping the hosts, and send them their placements again."""
        self._feed(msg.Started())

    # Requests.

    def take_register(
        self,
        caller: CallerOfCoordinator,
        token: int,
        broker_id: int,
        request: bytes,
        after: int,
    ) -> None:
        """Take a request for a new incarnation of a broker."""
        self._ask(caller, token, msg.Register(broker_id, request, after, caller.mode))

    def take_announce(
        self, caller: CallerOfCoordinator, token: int, given: Announcement
    ) -> None:
        """Take a broker's announcement of the partitions that it leads and follows."""
        self._hear()
        world = self.world
        unknown = [PartitionKey(*item[:2]) for item in given.leaders if item[3] is None]
        if not unknown or given.import_cluster is not None or not world.scenario.asks_kafka:
            self._ask(caller, token, msg.Announce(given))
            return
        named = {key: world.oracle(world.keys_of.index(key)) for key in unknown}
        verdicts = {key: verdict for key, verdict in named.items() if verdict is not None}
        for key, verdict in named.items():
            world.informed.setdefault((given.claim, key), []).append(verdict)
        request = msg.informed(given, verdicts)
        world.recording.mark("Kafka asked about an announcement")
        if request.denied:
            world.recording.mark("Kafka named another broker")
        delay = 0 if world.is_healing else world.scenario.oracle_delay
        self._clock.after(delay, self.life, self._ask, caller, token, request)

    def _ask(self, caller: CallerOfCoordinator, token: int, request: msg.Decidable) -> None:
        self._calls += 1
        self._callers[self._calls] = (caller, token)
        self._feed(msg.Requested(self._calls, request))

    def take_hand_over(self, caller: CallerOfCoordinator, token: int, wish: Handover) -> None:
        """Take an operator's request to change the owner of the cluster's metadata."""
        self._ask(caller, token, msg.HandOver(wish))

    def take_attend(self, caller: Attendant, report: Attend) -> None:
        """Take the report of a broker's plugin, and answer with the ownership."""
        if self.machine.is_started:
            self._attendance.attended(report, self.world.now_ms())
            now = self._clock.now
            self._wires.send(self.life, caller.life, caller.hear, self.state.ownership, now)

    def take_following(self, caller: Attendant, report: dict[str, Any]) -> None:
        """Take the report of a follower of Kafka's topic, and answer with the ownership."""
        if self.machine.is_started:
            self._attendance.followed(report, self.world.now_ms())
            now = self._clock.now
            self._wires.send(self.life, caller.life, caller.hear, self.state.ownership, now)

    def take_stand(self, caller: CallerOfCoordinator, token: int) -> None:
        """Answer with the ownership, and the newest reports of plugins and follower."""
        if self.machine.is_started:
            state, now_ms = self.state, self.world.now_ms()
            report = self._attendance.report(state.ownership, state.incarnations, now_ms)
            self._answer(caller, token, (state.ownership, report["attending"], report["kafka"]))

    def take_route(
        self, caller: CallerOfCoordinator, token: int, numbers: Sequence[int]
    ) -> None:
        """Answer with the hosts of partitions' leaders and followers."""
        if not self.machine.is_started:
            return  # The client retries after its timeout.
        keys = [self.world.keys_of[number] for number in numbers]
        self._answer(caller, token, [self.state.route(key) for key in keys])

    def _answer(self, caller: CallerOfCoordinator, token: int, value: object) -> None:
        self._wires.send(self.life, caller.life, caller.coordinated, token, value)

    def request(self, request: msg.Decidable) -> None:
        """Carry out a request that nobody waits for."""
        self._feed(msg.Requested(None, request))

    # The machine.

    def _feed(self, stimulus: msg.Stimulus) -> None:
        now = msg.Moment(self._clock.now / S, self.world.now_ms())
        for effect in self.machine.handle(stimulus, now):
            self._carry_out(effect)

    def _carry_out(self, effect: msg.Effect) -> None:  # noqa: C901, PLR0912
        life, after = self.life, self._clock.after
        match effect:  # There are many cases, and each is short.
            case Append(number=number, value=value):
                items = [((COORDINATOR, number), value)]
                self._medium.create(life, items, self._created, number)
            case ReadLog(number=number):
                slot = (COORDINATOR, number)
                self._medium.read_log(life, slot, BATCHES_PER_READ, self._read, number)
            case ReadSlot(number=number, delay_ms=delay_ms):
                after(delay_ms * MS, life, self._look, number)
            case msg.Resume():
                after(0, life, self._feed, msg.Resumed())
            case (
                msg.ReplyToRequest(reply_to=caller, value=value)
                | ReplyError(reply_to=caller, error=value)
            ):
                if caller is not None:
                    self._answer(*self._callers.pop(caller), value)
            case msg.StartProcess():
                after(self.world.start_delay(effect.host), life, self._launch, effect)
            case msg.EndProcess():
                self._end(effect)
            case msg.Ping():
                after(0, life, self._ping, effect)
            case msg.SendWork():
                self._send_work(effect)
            case msg.Forget(address=address):
                self._held.pop(address, None)
            case msg.SetTimer(timer=timer, delay_s=delay_s):
                after(round(delay_s * S), life, self._feed, msg.TimerFired(timer))
            case msg.GiveUp():
                after(RETRY, life, self._start_again)
            case msg.Note(error=error) if error is not None:
                raise error
            case _:
                pass  # Log lines, readiness and prepared starts change nothing in this world.

    def _start_again(self) -> None:
        self.machine = self._new_machine()
        self.start()

    # The store.

    def _created(self, result: Any, number: int) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            if isinstance(result, OutcomeUnknown):
                self._mark("coordinator's append in doubt")
            self._feed(msg.AppendFailed(number, result))
            return
        if result[0] is CreateOutcome.CREATED:
            self.world.passes("coordinated", self.life)
            if self.life.is_dead:
                return
        elif self.machine.doubt_until_s is None:
            self._mark("coordinator lost a race for its log")
        self._feed(AppendAnswered(number, AppendOutcome(result[0].value)))

    def _read(self, result: Any, number: int) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            self._feed(LoadFailed(result))
            return
        batches = tuple(StoredBatch(at, value) for at, value in enumerate(result, number))
        self._feed(LogRead(number, batches, is_end=True))

    def _look(self, number: int) -> None:
        self._medium.read_slots(self.life, [(COORDINATOR, number)], self._looked, number)

    def _looked(self, result: Any, number: int) -> None:  # noqa: ANN401
        if isinstance(result, RemoteStorageError):
            self._feed(ProbeFailed(number, result))
            return
        machine = self.machine
        if (
            machine.phase is CoordinatorPhase.LOOKING
            and result[0] is not None
            and machine.is_started
        ):
            self._mark("coordinator read what another had written")
        self._feed(SlotRead(number, result[0]))

    # Hosts.

    def _launch(self, start: msg.StartProcess) -> None:
        host = self.world.launch(start.host, start.address)
        if host is None:  # The process at that address has ended since.
            error = NotReady(f"{start.address} has ended")
            self._feed(msg.StartFailed(start.host, start.address, error))
        else:
            self._feed(msg.ProcessStarted(start.host, start.address, self._ping_answer(host)))

    def _end(self, end: msg.EndProcess) -> None:
        host = self.world.host_at(end.address)
        if host is not None and end.process in (None, host.life.name):
            self.world.end(host.life)
        ended = msg.ProcessEnded(end.host, end.address)
        self._clock.after(0, self.life, self._feed, ended)

    def _ping(self, ping: msg.Ping) -> None:
        host = self.world.host_at(ping.address)
        if host is None or host.life.name in self._missed:
            if host is not None:
                self._missed.discard(host.life.name)
            self._feed(msg.HostEnded(ping.host, ping.watch))
        elif ping.watch in self._pinged:
            self._held[ping.address] = ping
        else:
            self._pinged.add(ping.watch)
            self._feed(msg.PingAnswered(ping.host, ping.watch, self._ping_answer(host)))

    def _ping_answer(self, host: HostNode) -> HostPing:
        return HostPing(process=host.life.name, behind=tuple(host.behind()))

    def suspect(self, life: ProcessLife) -> None:
        """Let the pings of a process go unanswered: it is replaced, though it may still run."""
        if not self.machine.is_started:
            return  # It pings all hosts while it starts.
        self._hear()
        node = self.world.node_of(life)
        ping = None if node is None else self._held.pop(node.address, None)
        if ping is None:
            self._missed.add(life.name)
        else:
            self._feed(msg.HostEnded(ping.host, ping.watch))

    def _hear(self) -> None:
        """Answer the held pings of hosts whose list of followers that are behind has changed.

        The service pings hosts all the time, and so knows that before it decides.
        """
        for address, ping in list(self._held.items()):
            host = self.world.host_at(address)
            running = self.machine.hosts.running.get(ping.host)
            if host is None or running is None:
                continue
            if tuple(host.behind()) != running.behind:
                del self._held[address]
                self._feed(msg.PingAnswered(ping.host, ping.watch, self._ping_answer(host)))

    def take_report(
        self,
        host: HostNode,
        lost: tuple[tuple[PartitionKey, int], ...],
        refused: tuple[tuple[PartitionKey, Refusal], ...],
    ) -> None:
        """Take a host's report of leaders that ended there, and of claims that were refused.

        The report answers a held ping. No ping is held for a process that was replaced, so its
        report changes nothing.
        """
        ping = self._held.get(host.address)
        if ping is None or self.world.host_at(host.address) is not host:
            return  # The host repeats its report.
        del self._held[host.address]
        for key, refusal in refused:
            self.world.refusals.add((host.name, key.partition, refusal.assignment))
        answer = self._ping_answer(host)._replace(lost=lost, refused=refused)
        self._feed(msg.PingAnswered(ping.host, ping.watch, answer))

    def _send_work(self, order: msg.SendWork) -> None:
        host = self.world.host_at(order.address)
        self._calls += 1
        number = self._calls
        self._unacknowledged[number] = order
        if host is not None:
            work = self._distorted(self._unnotified(order.work))
            self._wires.send(self.life, host.life, host.take_work, self, number, work)
        self._clock.after(SEND_AGAIN, self.life, self._not_acknowledged, number)

    def _unnotified(self, work: HostWork) -> HostWork:
        """The orders without releases that moves by `NeedlessMove` call for."""
        kept = unnotified(work.placements, self.world.moved)
        return work._replace(placements=tuple(kept))

    def _distorted(self, work: HostWork) -> HostWork:
        """The orders that are sent: `work`, joined by older placements if a lie is due."""
        world = self.world
        world.placed.append(work)
        if not world.lies:
            return work
        self._mark("coordinator lied")
        which = world.lies.pop(0)
        sent = world.placed[which % len(world.placed)].placements
        former = [one for one in sent if may_be_wrong(one)]
        return work._replace(placements=(*former, *work.placements))

    def work_taken(self, _name: str, number: int) -> None:
        """Take a host's acknowledgement of the orders in call `number`."""
        order = self._unacknowledged.pop(number, None)
        if order is not None:
            self._feed(msg.WorkDone(order.work.host, order.watch))

    def _not_acknowledged(self, number: int) -> None:
        order = self._unacknowledged.pop(number, None)
        if order is not None:
            self._mark("host told again")
            unknown = OutcomeUnknown(f"{order.work.host} did not say that it heard")
            self._feed(msg.WorkInDoubt(order.work.host, order.watch, unknown))


def may_be_wrong(placement: Placement) -> bool:
    """Whether a fault may give this placement to another host than the one it was meant for.

    Releases of followers are exempt: if one goes to a wrong host, no process notices that the
    follower there has ended, and tierledger does not promise to survive that.
    """
    return placement.assignment is not None or placement.role == LEADER
