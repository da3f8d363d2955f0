"""A whole service with its brokers in one process, under virtual time, from one seed.

First everything may fail and nothing may be wrong; then all heals, and the service has to come
back: every partition's true leader writes again, and what was acknowledged is there.
"""

from __future__ import annotations

import asyncio

from tierledger.actors.calls import FOLLOWER, PartitionKey
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.partition.decide import Limits
from tierledger.simulation.checkers.decisions import Drafted, drafts_noted
from tierledger.simulation.history.calls import Recorder
from tierledger.simulation.machines.knobs import turned_to
from tierledger.simulation.machines.medium import Medium
from tierledger.simulation.machines.recording import Recording
from tierledger.simulation.service.brokers import Broker
from tierledger.simulation.service.cluster import Cluster, HostProcess
from tierledger.simulation.service.controller import Controller, WorldOracle
from tierledger.simulation.service.disturber import Disturber, StreamDisturber
from tierledger.simulation.service.lying_store import LyingStore
from tierledger.simulation.service.network import NOBODY, Network
from tierledger.simulation.service.plan import FURTHER, WorldPlan, stream
from tierledger.simulation.service.stranger import Stranger
from tierledger.simulation.service.streams import StreamNetwork
from tierledger.simulation.service.virtual_loop import VirtualLoop
from tierledger.simulation.service.wire_watch import WireWatch
from tierledger.storage.keys import DefaultMetadataKeyFactory

CLUSTER_ID = "world"
HEALING_S = 60.0
"""Virtual time within which a healed world has to be well again."""

CUSTOM_BYTES_MAX = 128


class World:
    """Made from a plan, run once."""

    def __init__(self, plan: WorldPlan) -> None:
        self.plan = plan
        self.cluster_id = CLUSTER_ID
        self.loop = VirtualLoop()  # type: ignore[abstract]  # What a world has a use for.
        self.recording = Recording(self.loop.clock, further=FURTHER)
        self.recorder = Recorder(self.now_ns)
        self.network = Network(
            self.loop, stream(plan.seed, "network"), plan.network, self.recording
        )
        self.medium = Medium(self.loop.clock, self.network.wires, self.recording)
        self.store = LyingStore(
            self.loop, self.medium, stream(plan.seed, "store"), plan.store, self.recording
        )
        self.keys = DefaultMetadataKeyFactory(CLUSTER_ID)
        limits = Limits(custom_metadata_bytes_max=CUSTOM_BYTES_MAX)
        self.settings = ServiceSettings(CLUSTER_ID, {}, limits)
        self.tips = [
            TopicIdPartition(Uuid(bytes(15) + b"\x07"), number, "orders")
            for number in range(plan.partitions)
        ]
        self.watch = WireWatch(self.loop)
        self.streams = StreamNetwork(
            self.network, stream(plan.seed, "streams"), plan.doors, self.watch
        )
        self.cluster = Cluster(
            settings=self.settings,
            keys=self.keys,
            plan=plan,
            loop=self.loop,
            network=self.network,
            store=self.store,
            random=stream(plan.seed, "cluster"),
            recording=self.recording,
            oracle=WorldOracle(self),
            streams=self.streams,
        )
        self.brokers: dict[int, Broker] = {}
        self.controller = Controller(self)
        self.disturber = Disturber(self)
        self.stream_disturber = StreamDisturber(self)
        self.drafts: list[Drafted] = []
        """What leaders decided."""
        self.calls = 0
        self.is_healing = False
        self.is_well = False
        """Whether the service came back after everything had healed."""
        self.is_quiet = False
        """Brokers ask nothing further: only hints and polls make followers read."""
        self.followers: list[tuple[HostProcess, PartitionShell]] = []
        """Those that lived when it became quiet."""
        self._numbers = 0
        self._lives = 0

    # What brokers ask of the world.

    def now_ns(self) -> int:
        return self.loop.clock.now * 1000

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def may_call(self) -> bool:
        """Whether a client may make another call; counts it. While not, time passes."""
        if self.is_quiet:
            await asyncio.sleep(1.0)
            return False
        if self.calls >= self.plan.calls_max and not self.is_healing:
            if self.calls == self.plan.calls_max:
                self.loop.stop()
            await asyncio.sleep(1.0)
            return False
        self.calls += 1
        return True

    def start_broker(self, broker_id: int) -> Broker:
        """A new life of a broker; the one before, if it lives, becomes a zombie."""
        self._lives += 1
        random = stream(self.plan.seed, f"broker {broker_id} {self._lives}")
        broker = self.brokers[broker_id] = Broker(self, broker_id, self._lives, random)
        self.cluster.processes.append(broker.process)
        broker.start()
        return broker

    def restart_broker(self, broker_id: int) -> None:
        """A new life, which is told everything."""
        self.start_broker(broker_id)
        self.controller.tell_all(broker_id)

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
            Stranger(self, self.streams).start()
            self.loop.run(until=self.plan.duration_s)
            deadline = self.loop.time() + HEALING_S
            self._heal()
            well = self.controller.wait_until_well(deadline)
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

    def be_quiet(self) -> None:
        """Let brokers rest, and note who follows."""
        self.is_quiet = True
        self.followers = [
            (process, shell)
            for process in self.cluster.hosts.values()
            if process.host is not None and process.is_reachable and not process.is_frozen
            for (_, role), shell in process.host._shells.items()
            if role == FOLLOWER
        ]

    def note(self, what: str, node: str, key: PartitionKey | None = None) -> None:
        """A fault, or a change of leaders, for the history."""
        self.recorder.note(self.now_ns(), node, what, key, "")
