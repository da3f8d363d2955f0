"""What all parts of a service's world share: virtual time, network, store and recordings."""

from __future__ import annotations

import asyncio

from tierledger.actors.calls import PartitionKey
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.partition.decide import Limits
from tierledger.simulation.history.calls import Recorder
from tierledger.simulation.machines.environment.medium import Medium
from tierledger.simulation.machines.environment.recording import Recording
from tierledger.simulation.service.lying_store import LyingStore
from tierledger.simulation.service.network import Network
from tierledger.simulation.service.plan import FURTHER, WorldPlan, stream
from tierledger.simulation.service.streams import StreamNetwork
from tierledger.simulation.service.virtual_loop import VirtualLoop
from tierledger.simulation.service.wire_watch import WireWatch
from tierledger.storage.keys import DefaultMetadataKeyFactory

CLUSTER_ID = "world"
CUSTOM_BYTES_MAX = 128


class Stage:
    """The plan, loop, network, store, settings and recordings of one world."""

    def __init__(self, plan: WorldPlan) -> None:
        self.plan = plan
        self.cluster_id = CLUSTER_ID
        self.loop = VirtualLoop()  # type: ignore[abstract]  # It has what a world uses.
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
        self.calls = 0
        self.is_healing = False
        self.is_quiet = False
        """Brokers make no more calls, so only hints and polls make followers read the log."""
        self._numbers = 0

    def now_ns(self) -> int:
        return self.loop.clock.now * 1000

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def may_call(self) -> bool:
        """Whether a client may make another call: counts it if so, else sleeps 1 s first."""
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

    def note(self, what: str, node: str, key: PartitionKey | None = None) -> None:
        """Record a fault or a change of leaders in the history."""
        self.recorder.note(self.now_ns(), node, what, key, "")
