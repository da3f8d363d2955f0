"""A simulated world of brokers, hosts, coordinators and a store, made from a scenario."""

from __future__ import annotations

from typing_extensions import override

from tierledger.simulation.checkers.decisions import Drafted
from tierledger.simulation.machines.environment.clockwork import MS
from tierledger.simulation.machines.moving.cluster import KafkaFollower, Moving
from tierledger.simulation.machines.nodes.broker import BrokerNode
from tierledger.simulation.machines.nodes.controller import Controller
from tierledger.simulation.machines.nodes.copier import Copiers
from tierledger.simulation.machines.nodes.feeding import Feeding
from tierledger.simulation.machines.nodes.importer import IMPORTER, Importer
from tierledger.simulation.machines.nodes.processes import Processes
from tierledger.simulation.machines.scenario.scenario import Scenario


class World(Processes):
    """The processes of a scenario, and what a run records of them; `run` runs it once."""

    def __init__(self, scenario: Scenario, *, keeps: bool = False) -> None:
        super().__init__(scenario, keeps=keeps)
        self.copiers = Copiers(self)
        self.controller = Controller(self, self.copiers)
        self.feeding = Feeding(self)
        self.importers: list[Importer | KafkaFollower] = []
        self.drafts: list[Drafted] = []
        """The batches that leaders drafted, noted only in seeds that judge them."""
        self.calls_of: dict[int, range] = {}
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
    @override
    def all_brokers(self) -> list[BrokerNode]:
        return [*self.brokers.values(), *(one.broker for one in self.importers)]

    def start_import(self, partition: int, history: int, count: int) -> None:
        """Start an importer: a further broker that imports recorded history and then stops."""
        number = IMPORTER + len(self.importers)
        self.importers.append(Importer(self, number, partition, history, count))
