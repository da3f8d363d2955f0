"""A whole service with its brokers in one process, under virtual time, from one seed.

In the first part of a run faults are injected, and no answer may be wrong. Then all faults end,
and the service must recover: every partition's true leader writes again, and every acknowledged
write is in the log.
"""

from __future__ import annotations

from collections.abc import Callable

from tierledger.actors.calls import FOLLOWER, PartitionKey
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.simulation.checkers.decisions import Drafted, drafts_noted
from tierledger.simulation.machines.scenario.knobs import turned_to
from tierledger.simulation.service.brokers import Broker
from tierledger.simulation.service.cluster import Cluster, HostProcess
from tierledger.simulation.service.controller import Controller, WorldOracle
from tierledger.simulation.service.disturber import Disturber, StreamDisturber
from tierledger.simulation.service.left_over import LeftOver
from tierledger.simulation.service.network import WORLD_CONTEXT
from tierledger.simulation.service.plan import WorldPlan, stream
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.stranger import Stranger

HEALING_S = 60.0
"""Virtual time (s) within which the service must recover after all faults have ended."""

LED_S = 15.0
"""Virtual time (s) after which hosts whose doors are closed lead nothing, if others run."""


REST_S = 0.5
"""Virtual time (s) between two looks whether all has come to rest."""


class World(Stage):
    """A simulated service and its brokers, made from a plan; `run` may be called once."""

    def __init__(self, plan: WorldPlan) -> None:
        super().__init__(plan)
        self.brokers: dict[int, Broker] = {}
        self.controller = Controller(self, self.brokers, self.start_broker)
        self.cluster = Cluster(self, WorldOracle(plan, self.controller))
        self.disturber = Disturber(self, self.cluster, self.brokers, self.restart_broker)
        self.stream_disturber = StreamDisturber(self, self.cluster, self.brokers)
        self.drafts: list[Drafted] = []
        """Every batch that a leader has drafted."""
        self.is_well = False
        """Whether the service recovered after all faults had ended; `run` sets it."""
        self.followers: list[tuple[HostProcess, PartitionShell]] = []
        """The followers that read when brokers stopped calling, each with its host's process.

        Not those that were still loading: with small pages and slow messages that takes longer
        than this world then runs.
        """
        self.left_over: set[LeftOver] | None = None
        """What was left over each time that anybody looked since brokers make no calls."""
        self.unreached: list[tuple[PartitionKey, str]] = []
        """Partitions that a host with a closed door led `LED_S` after all other faults had
        ended, with that host."""
        self.healed_at = self.well_at = 0
        """When all faults ended, and when the service had recovered (ns)."""
        self._lives = 0

    def start_broker(self, broker_id: int) -> Broker:
        """Start a process of a broker; its former process, if it lives, becomes a zombie."""
        self._lives += 1
        random = stream(self.plan.seed, f"broker {broker_id} {self._lives}")
        broker = self.brokers[broker_id] = Broker(
            self, self.cluster.connect, self._fenced, broker_id, self._lives, random
        )
        self.cluster.processes.append(broker.process)
        broker.start()
        return broker

    def restart_broker(self, broker_id: int) -> None:
        """Start a process of a broker, and notify it of its role in every partition."""
        self.start_broker(broker_id)
        self.controller.notify_all(broker_id)

    def _fenced(self, broker: Broker) -> None:
        """Restart a fenced broker, as an operator would, unless a newer process of it exists.

        It is fenced because a zombie with the same broker id registered after it.
        """
        if self.brokers[broker.broker_id] is broker:
            self.restart_broker(broker.broker_id)

    # The run.

    def run(self, is_at_rest: Callable[[], bool] = lambda: True) -> None:
        """Inject the plan's faults, then end them and wait for recovery; sets `is_well`.

        A service that has recovered goes on until `is_at_rest`, too, in the same time.
        """
        with turned_to(self.plan.knobs), drafts_noted(self.drafts):
            for broker_id in range(1, self.plan.brokers + 1):
                self.start_broker(broker_id)
            self.controller.start()
            self.disturber.start()
            self.loop.create_task(self.cluster.keep_coordinator(), context=WORLD_CONTEXT.copy())
            self.stream_disturber.start(self.streams)
            Stranger(self).start()
            self.loop.run(until=self.plan.duration_s)
            deadline = self.loop.time() + HEALING_S
            self._heal()
            self.loop.call_later(LED_S, self._note_unreached, context=WORLD_CONTEXT)
            well = self.controller.wait_until_well(deadline, self._be_quiet)
            self.loop.run(until=deadline)
            self.is_well = well.done() and well.result()
            while self.is_well and self.loop.time() < deadline and not is_at_rest():
                self.loop.run(until=self.loop.time() + REST_S)
            self.loop.close()

    def _heal(self) -> None:
        self.is_healing, self.healed_at = True, self.now_ns()
        self.disturber.stop()
        self.network.heal()
        self.store.heal()
        self.streams.heal()
        for process in self.cluster.processes:
            if process.is_paused and not (process.is_dead or process.is_frozen):
                self.recording.mark("resumed at the end")
                self.loop.resume(process)
            process.fuse = None

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

    def _be_quiet(self) -> None:
        """Stop the brokers' calls, and note the followers that read now."""
        self.is_quiet, self.well_at = True, self.now_ns()
        self.followers = [
            (process, shell)
            for process in self.cluster.hosts.values()
            if process.host is not None and process.is_reachable and not process.is_frozen
            for (_, role), shell in process.host._shells.items()
            if role == FOLLOWER and shell.machine.state is not None
        ]
