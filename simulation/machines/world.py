"""A simulated world of brokers, hosts, coordinators and a store, made from a scenario."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from tierledger.actors.calls import FOLLOWER, Placement
from tierledger.actors.leader.machine import Leader
from tierledger.simulation.checkers.decisions import Drafted
from tierledger.simulation.machines.controller import Controller
from tierledger.simulation.machines.copier import Copiers
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife
from tierledger.simulation.machines.importer import IMPORTER, Importer
from tierledger.simulation.machines.moved import NeedlessMove
from tierledger.simulation.machines.moving.cluster import KafkaFollower, Moving
from tierledger.simulation.machines.nodes.broker import BrokerNode
from tierledger.simulation.machines.nodes.coordinator import may_be_wrong
from tierledger.simulation.machines.nodes.feeding import Feeding
from tierledger.simulation.machines.nodes.processes import Processes
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.machines.struck import StruckBroker, passes


class World(Processes):
    """The processes of a scenario, and what a run records of them; `run` runs it once."""

    def __init__(self, scenario: Scenario, *, keeps: bool = False) -> None:
        super().__init__(scenario, keeps=keeps)
        self.copiers = Copiers(self)
        self.controller = Controller(self)
        self.feeding = Feeding(self)
        self.importers: list[Importer | KafkaFollower] = []
        self.drafts: list[Drafted] = []
        """The batches that leaders drafted, noted only in seeds that judge them."""
        self.struck: int | None = None
        self.calls_of: dict[int, list[int]] = {}
        """By a decision's index in the scenario, the numbers of the calls it made at once."""
        self.moving = Moving(self, self.feeding) if scenario.moves else None
        """The move of the cluster between managers; None if its brokers have no plugin."""
        if self.moving is not None:
            self.importers.append(self.moving.follower)

    @override
    def start_broker(self, broker_id: int) -> BrokerNode:
        former = self.brokers.get(broker_id)
        if former is not None and not former.life.is_dead and not self.is_healing:
            if self.scenario.repeats:
                self.recording.mark("broker replaced while it lives")
            else:  # Only a repeated notification could show it that it leads nothing.
                self.kill(former.life)
        life = self.new_life(f"broker-{broker_id}")
        if self.moving is None:
            broker = BrokerNode(self, life, broker_id)
        else:
            broker = self.moving.broker(life, broker_id)
        self.brokers[broker_id] = broker
        self.broker_lives.append(broker)
        broker.start()
        return broker

    @override
    def restart_broker(self, broker_id: int) -> None:
        self.start_broker(broker_id)
        self.controller.notify(broker_id, 5 * MS)

    @property
    def all_brokers(self) -> Sequence[StruckBroker]:
        return [*self.brokers.values(), *(one.broker for one in self.importers)]

    def start_importing(self, number: int, cluster: str) -> BrokerNode:
        life = self.new_life(f"broker-{number}")
        broker = BrokerNode(self, life, number, import_cluster=cluster)
        self.broker_lives.append(broker)
        broker.start()
        return broker

    def start_import(self, partition: int, history: int, count: int) -> None:
        number = IMPORTER + len(self.importers)
        self.importers.append(Importer(self, number, partition, history, count))

    # What decisions strike; see `Struck`.

    @override
    def passes(self, point: str, life: ProcessLife) -> None:
        passes(self, point, life)

    @property
    def host_lives(self) -> list[ProcessLife]:
        return [one.life for one in self.hosts.values() if not one.life.is_dead]

    @property
    def may_change(self) -> bool:
        return any(
            isinstance(shell.machine, Leader) and len(shell.machine.undecided)
            for host in self.hosts.values()
            if host.life.is_reachable
            for shell in host.shells.values()
        )

    @property
    def length(self) -> int:
        return len(self.medium.log)

    def batches(self, number: int) -> list[bytes]:
        medium = self.medium
        return [medium.log[number, at] for at in range(medium.heads.get(number, 0))]

    def damage(self, number: int, at: int, value: bytes) -> None:
        self.medium.log[number, at] = value

    def settled(self) -> None:
        self.healed_at = self.clock.now

    def leader_life(self, number: int) -> ProcessLife | None:
        host = self.leading(number)
        return None if host is None else host.life

    def following(self, number: int) -> ProcessLife | None:
        for host in self.hosts.values():
            if (number, FOLLOWER) in host.shells and host.life.is_reachable:
                return host.life
        return None

    def cut_off(self, life: ProcessLife) -> bool:
        self.recording.moment(life.name, "cut off")
        life.is_cut_off = True
        if life.site == "coordinator":
            self.coordinator_node()
        else:
            self.detected(life)
        return True

    def suspect(self, life: ProcessLife) -> None:
        self.detected(life)

    def mute(self, life: ProcessLife, until: int) -> None:
        for broker_id in sorted(self.brokers):
            self.wires.cut((life.site, f"broker-{broker_id}"), until)

    def close(self, life: ProcessLife) -> None:
        host = self.node_of(life)
        if host is not None:
            self.clock.step(life, host.close)

    def step_clock(self, life: ProcessLife, by_ms: int) -> bool:
        host = self.node_of(life)
        if host is None:
            return False
        host.skew_ms += by_ms
        return True

    def hint(self, life: ProcessLife, number: int) -> None:
        host = self.node_of(life)
        if host is not None:
            self.clock.step(life, host.hint, host.shells[number, FOLLOWER])

    def placements(self) -> list[Placement]:
        return [one for work in self.placed for one in work.placements if may_be_wrong(one)]

    def place(self, life: ProcessLife, placement: Placement) -> None:
        host = self.node_of(life)
        if host is not None:
            self.clock.step(life, host.place, placement)

    def move_leader(self, number: int, pick: int) -> ProcessLife | None:
        idle = [
            node
            for node in self.hosts.values()
            if node.life.is_reachable and not node.believes_to_lead(number)
        ]
        coordinator = self.coordinator
        if coordinator is None or coordinator.life.is_dead or not idle:
            return None
        node = idle[pick % len(idle)]
        moved = NeedlessMove(coordinator.machine, self.moved, self.keys_of[number], node.name)
        self.clock.step(coordinator.life, coordinator.request, moved)
        return node.life
