"""What all parts of a service's world share: virtual time, network, store and recordings."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tierledger.actors.calls import PartitionKey
from tierledger.actors.host_settings import ServiceSettings
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.partition.decide import Limits
from tierledger.simulation.history.calls import Recorder
from tierledger.simulation.machines.environment.clockwork import ProcessLife
from tierledger.simulation.machines.environment.medium import COORDINATOR, Medium
from tierledger.simulation.machines.environment.newer_release import NewerSerDe, OlderSerDe
from tierledger.simulation.machines.environment.recording import Recording
from tierledger.simulation.machines.environment.tier import WorldTier
from tierledger.simulation.machines.environment.wires import Wires
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.service.lying_store import LyingStore, StorePlace
from tierledger.simulation.service.network import Network
from tierledger.simulation.service.plan import FURTHER
from tierledger.simulation.service.streams import StreamNetwork
from tierledger.simulation.service.virtual_loop import VirtualLoop, VirtualProcess
from tierledger.simulation.service.wire_watch import WireWatch
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.serde import MetadataSerDe

CLUSTER_ID = "world"
CUSTOM_BYTES_MAX = 128


class Stage:
    """The scenario, loop, network, store, settings and recordings of one world."""

    def __init__(
        self, scenario: Scenario, *, keeps: bool = False, further: Collection[str] = FURTHER
    ) -> None:
        """`further`: marks that only this kind of world has."""
        self.scenario = scenario
        self.cluster_id = CLUSTER_ID
        self.loop = VirtualLoop()  # type: ignore[abstract]  # It has what a world uses.
        self.clock = self.loop.clock
        self.recording = Recording(self.clock, keeps=keeps, further=further)
        self.recorder = Recorder(self.now_ns)
        self.wires = Wires(self.clock, scenario.delays, self.recording)
        self.network = Network(self.loop, self.wires, self.recording)
        self.keys = DefaultMetadataKeyFactory(CLUSTER_ID)
        self.medium = Medium(self.clock, self.wires, self.recording)
        self.store = LyingStore(self.loop, self.medium, self.recording, self.passes)
        limits = Limits(CUSTOM_BYTES_MAX, scenario.retention_ms)
        self.settings = ServiceSettings(CLUSTER_ID, {}, limits)
        self.newer_serde = NewerSerDe(writes_newer=scenario.writes_newer)
        """Reads what hosts of any release write."""
        self._older_serde, self._serde = OlderSerDe(), self.settings.serde()
        self.tips = [
            TopicIdPartition(Uuid(bytes(15) + b"\x07"), number, "orders")
            for number in range(scenario.partitions)
        ]
        self.tips += [
            TopicIdPartition(Uuid(bytes(15) + b"\x08"), number, "orders")
            for number in range(scenario.partitions, scenario.partitions + scenario.spare)
        ]
        self.keys_of = [PartitionKey.of(tip) for tip in self.tips]
        logs = {self.keys.log(tip): tip.partition for tip in self.tips}
        self.store.logs = {**logs, self.keys.coordinator_log(): COORDINATOR}
        self.store.places = dict(self._places())
        self.watch = WireWatch(self.loop)
        self.streams = StreamNetwork(self.network, scenario.doors, self.watch)
        self.lives: list[VirtualProcess] = []
        """All processes of the run, kept so that nothing of theirs is finalized during it."""
        self.tier = WorldTier(self.clock, self.recording)
        self.lies: list[int] = []
        self.damaged: set[int] = set()
        """Partitions whose logs were damaged."""
        self.moved: set[int] = set()
        """Numbers of the placements that a coordinator was made to decide on without cause."""
        self.struck: int | None = None
        """The index of the decision that strikes now."""
        self.calls_of: dict[int, list[int]] = {}
        """By a decision's index in the scenario, the numbers of the calls it made at once."""
        self.is_healing = False
        self.is_quiet = False
        """Brokers make no more calls, so only hints and polls make followers read the log."""

    def _places(self) -> Iterator[tuple[str, StorePlace]]:
        yield self.keys.coordinator_log(), StorePlace("coordinator", None, True)
        for number, tip in enumerate(self.tips):
            text = f"partition {number}"
            yield self.keys.log(tip), StorePlace(text, number, True)
            yield self.keys.state(tip), StorePlace(f"{text} checkpoint", number, False)

    def serde_of(self, host: str) -> MetadataSerDe:
        """What a host's release writes and reads by.

        Hosts that start when all heals run the newest release.
        """
        if host in self.scenario.upgraded or self.is_healing:
            return self.newer_serde
        return self._older_serde if host in self.scenario.outdated else self._serde

    def begins(self, life: VirtualProcess) -> None:
        """Note a process that begins."""
        self.lives.append(life)
        self.recording.moment(life.name, "start")

    def begins_call(self, decision: int | None) -> None:
        """Note that the next call of the history is one that a decision makes."""
        if decision is not None:
            self.calls_of.setdefault(decision, []).append(self.recorder.count)

    def now_ns(self) -> int:
        return self.clock.now * 1000

    def passes(self, point: str, life: ProcessLife) -> None:
        """Let a fault that is due at `point` strike a process that has got there."""
