"""The processes of a world: started, found, paused and ended; others notice that later."""

from __future__ import annotations

from abc import abstractmethod

from typing_extensions import override

from tierledger.actors.leader.machine import LeaderPhase
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife
from tierledger.simulation.machines.nodes.broker import BrokerNode, BrokerWorld
from tierledger.simulation.machines.nodes.coordinator import CoordinatorNode
from tierledger.simulation.machines.scenario.scenario import Scenario

DETECTED_AFTER = 300 * MS
"""How soon pings miss a dead process."""
SUSPECTED_AFTER = 1500 * MS
"""How soon pings miss a paused process."""


class Processes(BrokerWorld):
    """Brokers, hosts and coordinators, dead and alive."""

    coordinator: CoordinatorNode | None = None

    def __init__(self, scenario: Scenario, *, keeps: bool) -> None:
        super().__init__(scenario, keeps=keeps)
        self.brokers: dict[int, BrokerNode] = {}
        self.fenced: list[tuple[int, int, tuple[int, int]]] = []
        """Of each fenced broker the time (ns), its id, its incarnation and announcement."""
        self.broker_lives: list[BrokerNode] = []
        self.coordinators: list[CoordinatorNode] = []
        self.dozes: dict[tuple[str, str], int] = {}
        """By site and point, how long (us) the process pauses that next gets there."""
        self.fuses: set[tuple[str, str]] = set()
        """Sites and points; the process that next gets there is killed."""
        self.outages: dict[str, int] = {}
        """By point, how long (us) the process that next gets there cannot reach the store."""
        self.suspected: set[str] = set()
        """The names of processes whose pings ever went unanswered."""

    # Brokers.

    @abstractmethod
    def start_broker(self, broker_id: int) -> BrokerNode:
        """Start a new process of a broker; the former one, if it goes on, becomes a zombie."""

    @abstractmethod
    def restart_broker(self, broker_id: int) -> None:
        """Start a new process of a broker, and let the controller notify it of its roles."""

    @override
    def broker_fenced(self, broker: BrokerNode, pair: tuple[int, int]) -> None:
        self.fenced.append((self.clock.now * 1000, broker.broker_id, pair))
        if self.brokers.get(broker.broker_id) is broker:
            self.restart_broker(broker.broker_id)

    # Coordinators.

    @override
    def coordinator_node(self) -> CoordinatorNode:
        node = self.coordinator
        if node is None or not node.life.is_reachable:
            node = self.coordinator = CoordinatorNode(self, self.new_life("coordinator"))
            self.coordinators.append(node)
            node.start()
        return node

    # Faults of processes.

    def at_site(self, site: str) -> ProcessLife | None:
        """The newest life at `site` that can be reached."""
        for life in reversed(self.lives):
            if life.site == site and life.is_reachable:
                return life
        return None

    @override
    def kill(self, life: ProcessLife) -> None:
        if life.is_dead:
            return
        life.is_dead = True
        self.recording.event("killed", life.name)
        self.recording.moment(life.name, "crash")
        host = self.node_of(life)
        if host is None:
            return
        if any(one.machine.phase is LeaderPhase.LOADING for one in host.shells.values()):
            self.recording.mark("crash while a partition was loaded")
        for caller, op, attempt in host.waiting.values():
            delay = self.wires.delay(life, 7)
            self.clock.after(delay, caller.life, caller.host_gone, op, attempt)
        self.clock.after(DETECTED_AFTER, None, self.detected, life)

    def detected(self, life: ProcessLife) -> None:
        """Let pings of `life` go unanswered: each coordinator notices that for itself."""
        self.suspected.add(life.name)
        for node in self.coordinators:
            if not node.life.is_dead:
                self.clock.at(self.clock.now, node.life, node.suspect, life)

    def missed(self, life: ProcessLife) -> None:
        if life.is_paused and not life.is_dead:
            self.detected(life)

    def pause(self, life: ProcessLife, duration: int) -> None:
        if life.is_dead or life.is_paused:
            return
        life.is_paused = True
        self.recording.moment(life.name, "pause")
        self.clock.after(duration, None, self.resume, life)
        if life.site.startswith("host"):
            self.clock.after(SUSPECTED_AFTER, None, self.missed, life)

    def resume(self, life: ProcessLife) -> None:
        if not life.is_paused or life.is_dead:
            return
        host = self.node_of(life)
        if host is not None and any(
            host.believes_to_lead(number) and self.leading_elsewhere(number, life)
            for number in range(self.scenario.partitions)
        ):
            self.recording.mark("resumed after a successor had claimed")
        self.recording.event("resumed", life.name)
        self.recording.moment(life.name, "resume")
        self.clock.resume(life)
