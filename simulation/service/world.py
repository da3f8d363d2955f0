"""A whole service with its brokers in one process, under virtual time, from one scenario.

In the first part of a run decisions strike, and no answer may be wrong. Then all faults end,
and the service must recover: every partition's true leader writes again, and every acknowledged
write is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial

from typing_extensions import override

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey, PlaceCall, Placement
from tierledger.actors.coordinator.messages import Requested
from tierledger.actors.follower import FollowerPhase
from tierledger.actors.host.host import Host
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.actors.leader.machine import Leader, LeaderPhase
from tierledger.actors.messages import HintArrived
from tierledger.events.commands import LeaderVerdict
from tierledger.events.errors import DataError, RemoteStorageError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.checkers.all import Minimums
from tierledger.simulation.checkers.decisions import Drafted, drafts_noted
from tierledger.simulation.checkers.verdict import MINIMUMS
from tierledger.simulation.machines.controller import Controller
from tierledger.simulation.machines.copier import Copiers
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife, S
from tierledger.simulation.machines.importer import IMPORTER, Importer
from tierledger.simulation.machines.laws.deletion_laws import fates_of
from tierledger.simulation.machines.laws.run_laws import FollowerSeen, Hindrance
from tierledger.simulation.machines.moved import NeedlessMove
from tierledger.simulation.machines.scenario.knobs import turned_to
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.machines.strikes import plan
from tierledger.simulation.machines.struck import StruckBroker, passes
from tierledger.simulation.service.brokers import Broker
from tierledger.simulation.service.cluster import (
    WALL_MS,
    Cluster,
    HostProcess,
    HostWay,
    ServiceProcess,
)
from tierledger.simulation.service.left_over import LeftOver
from tierledger.simulation.service.logs import log_of
from tierledger.simulation.service.network import WORLD_CONTEXT
from tierledger.simulation.service.operator import Operator
from tierledger.simulation.service.oracle import WorldOracle
from tierledger.simulation.service.plan import ENDED_BY_OPERATOR
from tierledger.simulation.service.replicas import FedNotes
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.stranger import Stranger
from tierledger.simulation.service.virtual_loop import VirtualProcess

HEALING_S = 60.0
"""Virtual time (s) within which the service must recover after all faults have ended."""

LED_S = 15.0
"""Virtual time (s) after which hosts whose doors are closed lead nothing, if others run."""

SEEN_S = 0.25
"""Virtual time (s) between two looks at all followers."""

FOR_GOOD = 1 << 62
"""A time (ns) that no run reaches."""

FOLLOWED_S = 2.0
READ_S = 1.5
"""`FOLLOWED_S`: how long brokers make no calls at the end of a run. `READ_S`: the time in which
a follower must have read a durable batch without a call, as its log is polled each second."""

SUSPECTED = 3 * S
"""How long (us) a coordinator's pings are lost to a host that it is to believe dead."""


OPERATOR_S = 0.5
"""Virtual time (s) between two looks of an operator whether the service refuses its store."""

REST_S = 0.5
"""Virtual time (s) between two looks whether all has come to rest."""


class World(Stage):
    """A simulated service and its brokers, made from a scenario; `run` may be called once."""

    def __init__(self, scenario: Scenario, *, keeps: bool = False) -> None:
        super().__init__(scenario, keeps=keeps)
        self.brokers: dict[int, Broker] = {}
        self.broker_lives: list[Broker] = []
        self.importers: list[Importer] = []
        self.written: dict[tuple[int, int], int] = {}
        self.deletions: dict[int, int] = {}
        self.stepped_ms = 0
        """By how much clocks have stepped, all steps together."""
        self.verdicts: dict[int, list[LeaderVerdict]] = {}
        self.fuses: set[tuple[str, str]] = set()
        self.dozes: dict[tuple[str, str], int] = {}
        self.outages: dict[str, int] = {}
        self.copiers = Copiers(self)
        self.controller = Controller(self)
        oracle = WorldOracle(self)
        self.cluster = Cluster(self, oracle, oracle if scenario.guarded else None)
        self.fed = FedNotes(self, self.cluster.watch.observer)
        self.drafts: list[Drafted] = []
        """Every batch that a leader has drafted."""
        self.is_well = False
        """Whether the service recovered after all faults had ended; `run` sets it."""
        self.left_over: set[LeftOver] | None = None
        """What was left over each time that anybody looked since brokers make no calls."""
        self.seen: list[FollowerSeen] = []
        """The followers that ran, each `SEEN_S`."""
        self.paused: list[Hindrance] = []
        self.unreached: list[tuple[PartitionKey, str]] = []
        """Partitions that a host with a closed door led `LED_S` after all other faults had
        ended, with that host."""
        self.healed_at = self.well_at = 0
        """When all faults ended, and when the service had recovered (ns)."""

    @property
    def minimums(self) -> Minimums | None:
        """What must have happened here; None where too little may have.

        Nothing may be written any more behind damage, and after the deletion of all topics.
        """
        is_gone = self.controller.gone.issuperset(self.controller.leader)
        return None if self.damaged or is_gone or self.scenario.is_part else MINIMUMS

    def start_broker(self, broker_id: int) -> Broker:
        """Start a process of a broker; its former process, if it lives, becomes a zombie."""
        former = self.brokers.get(broker_id)
        if former is not None and not former.life.is_dead:
            self.recording.mark("broker replaced while it lives")
        broker = self.brokers[broker_id] = self._started(broker_id)
        return broker

    def _started(self, broker_id: int, *, import_cluster: str | None = None) -> Broker:
        broker = Broker(
            self,
            self.cluster.connect,
            self._broker_fenced,
            broker_id,
            len(self.lives),
            import_cluster=import_cluster,
            fed=self.fed if self.scenario.has_replicas and import_cluster is None else None,
        )
        self.broker_lives.append(broker)
        self.begins(broker.life)
        broker.start()
        return broker

    def restart_broker(self, broker_id: int) -> None:
        """Start a process of a broker, and notify it of its role in every partition."""
        self.start_broker(broker_id)
        self.controller.notify(broker_id, 5 * MS)

    def _broker_fenced(self, broker: Broker) -> None:
        """Restart a fenced broker, as an operator would, unless a newer process of it exists.

        It is fenced because a zombie with the same broker id registered after it.
        """
        if self.brokers.get(broker.broker_id) is broker:
            self.restart_broker(broker.broker_id)

    # The run.

    def run(self, is_at_rest: Callable[[], bool] = lambda: True) -> None:
        """Let decisions strike, then end all faults and wait for recovery; sets `is_well`.

        A service that has recovered goes on until `is_at_rest`, too, in the same time.
        """
        with turned_to(self.scenario.knobs), drafts_noted(self.drafts):
            self.medium.on_created = self._durable
            for broker_id in range(1, self.scenario.brokers + 1):
                self.start_broker(broker_id)
            self.controller.start()
            self.loop.create_task(self.cluster.keep_coordinator(), context=WORLD_CONTEXT.copy())
            plan(self)
            if not self.scenario.is_direct:
                Stranger(self).start()
            self._see_followers()
            self.loop.run(until=self.scenario.duration / S)
            self._heal()
            self.loop.call_later(LED_S, self._note_unreached, context=WORLD_CONTEXT)
            deadline = self.loop.time() + HEALING_S
            self.loop.run(until=deadline)
            if self.is_well:
                self.is_quiet, self.well_at = True, self.now_ns()
                self.loop.run(until=self.loop.time() + FOLLOWED_S)
            while self.is_well and self.loop.time() < deadline and not is_at_rest():
                self.loop.run(until=self.loop.time() + REST_S)
            self.loop.close()

    def _durable(self, life: ProcessLife) -> None:
        self.passes("durable", life)

    def _heal(self) -> None:
        self.is_healing, self.healed_at = True, self.now_ns()
        self.recording.moment("", "heal", "nothing fails any more")
        self.wires.heal()
        self.medium.heal()
        self.streams.heal()
        self.fuses.clear()
        self.dozes.clear()
        self.outages.clear()
        self.lies.clear()
        for life in self.lives:
            if life.is_paused and not (life.is_dead or life.is_frozen):
                self.recording.mark("resumed at the end")
            self.resume(life)
            life.fuse = None
        for broker_id, broker in list(self.brokers.items()):
            if broker.life.is_dead or broker.is_fenced:
                self.restart_broker(broker_id)
        if self.scenario.writes_newer:  # The roll-out ends: hosts of other releases go.
            for process in list(self.cluster.hosts.values()):
                if process.serde is not self.newer_serde:
                    self.kill(process)
        for importer in self.importers:
            importer.stop()
        self.controller.heal()
        if self.scenario.guarded:
            self._end_holds()

    def _end_holds(self) -> None:
        """Let the operator release what is kept, and every other hold; the others stay."""
        self.tier.away_until = 0
        for name in list(self.operator.holds)[::2]:
            self.operator.release(name)
        self.release_kept()

    def _note_unreached(self) -> None:
        coordinator = self.cluster.coordinator
        if coordinator is None or coordinator.service is None:
            return
        machine, closed = coordinator.service._machine, self.streams.closed
        if machine.hosts.running.keys() <= closed:
            return
        self.unreached = [
            (key, str(entry.leader_host))
            for key, entry in machine.state.partitions.items()
            if entry.leader_host in closed and entry.leadership is not None
        ]

    def _see_followers(self) -> None:
        now = self.now_ns()
        for one in self.cluster.watch.shells.values():
            machine, life = one.machine, one.life
            if one.role == FOLLOWER and not life.is_dead:
                is_reading = machine.phase is FollowerPhase.FOLLOWING
                self.seen.append(
                    FollowerSeen(
                        now, one.name, life.site, one.key, machine.position, is_reading
                    )
                )
        self.loop.call_later(SEEN_S, self._see_followers, context=WORLD_CONTEXT)

    def _operate(self) -> None:
        """End a service that refuses its store, as its operator would, and as it asks for.

        If the newest batch of a log is damaged, the store looks like an older one. What is
        started next remembers no former batch, and goes on.
        """
        served = [life for life in self.lives if isinstance(life, ServiceProcess)]
        if any(life.refuses_store for life in served):
            self.recording.mark(ENDED_BY_OPERATOR)
            for life in served:
                self.kill(life)
        self.loop.call_later(OPERATOR_S, self._operate, context=WORLD_CONTEXT)

    # What decisions strike; see `Struck`.

    @override
    def passes(self, point: str, life: ProcessLife) -> None:
        passes(self, point, life)

    @cached_property
    def operator(self) -> Operator:
        return Operator(self, self.cluster.connect, self.cluster.watch.suspected.add)

    def wall_ms(self) -> int:
        return WALL_MS + self.clock.now // MS

    def release_kept(self) -> None:
        for tip in self.tips:
            self.operator.release_kept(tip, partial(self._unreleased, tip))

    def _unreleased(self, tip: TopicIdPartition) -> list[bytes]:
        """The segments of a partition that are kept until somebody releases them."""
        with suppress(DataError):
            fates = fates_of(log_of(self, tip))
            return [one for one, fate in fates.items() if fate.is_unreleased]
        return []

    @property
    def all_brokers(self) -> Sequence[StruckBroker]:
        return [*self.brokers.values(), *(one.broker for one in self.importers)]

    @property
    def host_lives(self) -> list[VirtualProcess]:
        return [one for one in self.cluster.hosts.values() if not one.is_dead]

    def batches(self, number: int) -> list[bytes]:
        keys = self.store.written(self.keys.log(self.tips[number]))
        return [self.medium.state[key] for key in keys]

    def damage(self, number: int, at: int, value: bytes) -> None:
        if not self.damaged:
            self._operate()
        self.store.damage(self.keys.log_batch(self.tips[number], at), value)

    def settled(self) -> None:
        self.healed_at = self.now_ns()

    def at_site(self, site: str) -> VirtualProcess | None:
        for life in reversed(self.lives):
            if life.site == site and life.is_reachable:
                return life
        return None

    def _shell(self, life: ProcessLife, number: int, role: str) -> PartitionShell | None:
        host = _host(life)
        return None if host is None else host._shells.get((self.keys_of[number], role))

    def leader_life(self, number: int) -> ProcessLife | None:
        for life in reversed(self.host_lives):
            shell = self._shell(life, number, LEADER) if life.is_reachable else None
            machine = None if shell is None else shell.machine
            if (
                isinstance(machine, Leader)
                and machine.phase is LeaderPhase.LEADING
                and machine._has_claimed
            ):
                return life
        return None

    def serves(self, life: ProcessLife) -> bool:
        host = _host(life)
        return host is not None and bool(host._shells)

    def following(self, number: int) -> ProcessLife | None:
        for life in self.host_lives:
            if life.is_reachable and self._shell(life, number, FOLLOWER) is not None:
                return life
        return None

    def kill(self, life: ProcessLife) -> None:
        if not life.is_dead:
            self.recording.event("killed", life.name)
            self.recording.moment(life.name, "crash")
            self.cluster.watch.crashes(life)
            self.loop.kill(_own(life))

    def pause(self, life: ProcessLife, duration: int) -> None:
        if not (life.is_dead or life.is_paused):
            self.recording.moment(life.name, "pause")
            now = self.now_ns()
            self.paused.append(Hindrance(life.site, now, now + duration * 1000))
            self.loop.pause(_own(life))
            self.clock.after(duration, None, self.resume, life)

    def resume(self, life: ProcessLife) -> None:
        if life.is_paused and not (life.is_dead or _own(life).is_frozen):
            self.cluster.watch.resumes(life)
            self.recording.event("resumed", life.name)
            self.recording.moment(life.name, "resume")
            self.loop.resume(_own(life))

    def freeze(self, life: ProcessLife) -> None:
        self.recording.moment(life.name, "pause")
        self.paused.append(Hindrance(life.site, self.now_ns(), FOR_GOOD))
        _own(life).is_frozen = True
        self.loop.pause(_own(life))

    def burn(self, life: ProcessLife, steps: int) -> None:
        process = _own(life)
        process.fuse = process.steps + steps

    def cut_off(self, life: ProcessLife) -> bool:
        scenario = self.scenario
        is_file = scenario.one_writer and not scenario.is_bucket
        if is_file and isinstance(life, HostProcess) and life.writes:
            return False  # The only writer of a file has no rival.
        self.recording.moment(life.name, "cut off")
        self.loop.cut_off(_own(life))
        return True

    def suspect(self, life: ProcessLife) -> None:
        self.wires.cut(("coordinator", life.site), self.clock.now + SUSPECTED)

    def mute(self, life: ProcessLife, until: int) -> None:
        for connection in self.streams.to_host(life.site):
            connection.client.is_deaf = True
        for broker_id in sorted(self.brokers):
            self.wires.cut((life.site, f"broker-{broker_id}"), until)

    def close(self, life: ProcessLife) -> None:
        host = _host(life)

        async def close() -> None:
            if host is not None:
                await host.close()
            self.kill(life)

        self.loop.spawn(_own(life), close())

    def step_clock(self, life: ProcessLife, by_ms: int) -> bool:
        if not isinstance(life, ServiceProcess):
            return False
        life.wall.step(by_ms)
        self.stepped_ms += abs(by_ms)
        return True

    def hint(self, life: ProcessLife, number: int) -> None:
        shell = self._shell(life, number, FOLLOWER)
        if shell is not None:
            stimulus = HintArrived(shell.machine.position + 1)
            self.loop.call_soon(shell.feed, stimulus, context=_own(life).context())

    def placements(self) -> list[Placement]:
        return self.cluster.placed

    def place(self, life: ProcessLife, placement: Placement) -> None:
        assert isinstance(life, HostProcess), "one of `host_lives`"
        way = HostWay(self.cluster, life)

        async def place() -> None:
            with suppress(RemoteStorageError):
                await way.ask(PlaceCall([placement]))

        self.loop.create_task(place(), context=WORLD_CONTEXT.copy())

    def move_leader(self, number: int, pick: int) -> ProcessLife | None:
        coordinator = self.cluster.coordinator
        if coordinator is None or not coordinator.is_reachable or not coordinator.is_started:
            return None
        service = coordinator.service
        assert service is not None, "made with its process"
        idle = [
            life
            for life in self.host_lives
            if life.is_reachable and self._shell(life, number, LEADER) is None
        ]
        if not idle:
            return None
        life = idle[pick % len(idle)]
        moved = NeedlessMove(service._machine, self.moved, self.keys_of[number], life.site)
        stimulus = Requested(None, moved)
        self.loop.call_soon(service._feed, stimulus, context=coordinator.context())
        return life

    def start_importing(self, number: int, cluster: str) -> Broker:
        return self._started(number, import_cluster=cluster)

    def start_import(self, partition: int, history: int, count: int) -> None:
        number = IMPORTER + len(self.importers)
        self.importers.append(Importer(self, number, partition, history, count))


def _host(life: ProcessLife) -> Host | None:
    return life.host if isinstance(life, HostProcess) else None


def _own(life: ProcessLife) -> VirtualProcess:
    assert isinstance(life, VirtualProcess), "all lives here are"
    return life
