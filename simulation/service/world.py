"""A whole service with its brokers in one process, under virtual time, from one seed.

First everything may fail and nothing may be wrong; then all heals, and the service has to come
back: every partition's true leader writes again, and what was acknowledged is there.
"""

from __future__ import annotations

from tierledger.actors.calls import FOLLOWER
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.simulation.checkers.decisions import Drafted, drafts_noted
from tierledger.simulation.machines.knobs import turned_to
from tierledger.simulation.service.brokers import Broker
from tierledger.simulation.service.cluster import Cluster, HostProcess
from tierledger.simulation.service.controller import Controller, WorldOracle
from tierledger.simulation.service.disturber import Disturber, StreamDisturber
from tierledger.simulation.service.network import NOBODY
from tierledger.simulation.service.plan import WorldPlan, stream
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.stranger import Stranger

HEALING_S = 60.0
"""Virtual time within which a healed world has to be well again."""


class World(Stage):
    """Made from a plan, run once."""

    def __init__(self, plan: WorldPlan) -> None:
        super().__init__(plan)
        self.brokers: dict[int, Broker] = {}
        self.controller = Controller(self, self.brokers, self.start_broker)
        self.cluster = Cluster(self, WorldOracle(plan, self.controller))
        self.disturber = Disturber(self, self.cluster, self.brokers, self.restart_broker)
        self.stream_disturber = StreamDisturber(self, self.cluster, self.brokers)
        self.drafts: list[Drafted] = []
        """What leaders decided."""
        self.is_well = False
        """Whether the service came back after everything had healed."""
        self.followers: list[tuple[HostProcess, PartitionShell]] = []
        """Those that lived when it became quiet."""
        self._lives = 0

    def start_broker(self, broker_id: int) -> Broker:
        """A new life of a broker; the one before, if it lives, becomes a zombie."""
        self._lives += 1
        random = stream(self.plan.seed, f"broker {broker_id} {self._lives}")
        broker = self.brokers[broker_id] = Broker(
            self, self.cluster.connect, self._fenced, broker_id, self._lives, random
        )
        self.cluster.processes.append(broker.process)
        broker.start()
        return broker

    def restart_broker(self, broker_id: int) -> None:
        """A new life, which is told everything."""
        self.start_broker(broker_id)
        self.controller.tell_all(broker_id)

    def _fenced(self, broker: Broker) -> None:
        """An earlier life registered after this one did: an operator restarts it."""
        if self.brokers[broker.broker_id] is broker:
            self.restart_broker(broker.broker_id)

    # The run.

    def run(self) -> None:
        """Let the seed have its way, then heal. `is_well`: whether the service came back."""
        with turned_to(self.plan.knobs), drafts_noted(self.drafts):
            for broker_id in range(1, self.plan.brokers + 1):
                self.start_broker(broker_id)
            self.controller.start()
            self.disturber.start()
            self.loop.create_task(self.cluster.keep_coordinator(), context=NOBODY.copy())
            self.stream_disturber.start(self.streams)
            Stranger(self).start()
            self.loop.run(until=self.plan.duration_s)
            deadline = self.loop.time() + HEALING_S
            self._heal()
            well = self.controller.wait_until_well(deadline, self._be_quiet)
            self.loop.run(until=deadline)
            self.is_well = well.done() and well.result()
            self.loop.close()

    def _heal(self) -> None:
        self.is_healing = True
        self.disturber.stop()
        self.network.heal()
        self.store.heal()
        self.streams.heal()
        for process in self.cluster.processes:
            if process.is_paused and not (process.is_dead or process.is_frozen):
                self.recording.mark("resumed at the end")
                self.loop.resume(process)
            process.fuse = None

    def _be_quiet(self) -> None:
        """Let brokers rest, and note who follows."""
        self.is_quiet = True
        self.followers = [
            (process, shell)
            for process in self.cluster.hosts.values()
            if process.host is not None and process.is_reachable and not process.is_frozen
            for (_, role), shell in process.host._shells.items()
            if role == FOLLOWER
        ]
