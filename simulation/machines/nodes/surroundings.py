"""What all processes of a world share: its scenario, its clock, its network, its store."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.events.commands import Claim, LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.partition.decide import Limits
from tierledger.simulation.history.calls import Recorder
from tierledger.simulation.machines.environment.clockwork import MS, Clockwork, ProcessLife
from tierledger.simulation.machines.environment.medium import Medium
from tierledger.simulation.machines.environment.newer_release import NewerSerDe, OlderSerDe
from tierledger.simulation.machines.environment.observer import Observer
from tierledger.simulation.machines.environment.recording import Recording
from tierledger.simulation.machines.environment.wires import Wires
from tierledger.simulation.machines.scenario.knobs import KEPT_DEFAULT
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.serde import MsgpackSerDe

CLUSTER_ID = "machines"
CUSTOM_BYTES_MAX = 128
BEGAN_MS = 1_700_000_000_000

_TOPIC_ID = Uuid(bytes(15) + b"\x09")
_TIPS = [TopicIdPartition(_TOPIC_ID, number, "orders") for number in range(16)]
_KEYS = [PartitionKey.of(tip) for tip in _TIPS]
_ITEMS = [(bytes(tip.topic_id), tip.partition, tip.topic) for tip in _TIPS]


class Surroundings(ABC):
    """A world without its processes."""

    def __init__(self, scenario: Scenario, *, keeps: bool) -> None:
        self.scenario = scenario
        self.cluster_id = CLUSTER_ID
        self.tips, self.keys_of, self.items = _TIPS[: scenario.partitions], _KEYS, _ITEMS
        self.keys = DefaultMetadataKeyFactory(CLUSTER_ID)
        self.serde = MsgpackSerDe()
        self.older_serde = OlderSerDe()
        self.newer_serde = NewerSerDe(writes_newer=scenario.writes_newer)
        self.limits = Limits(CUSTOM_BYTES_MAX, scenario.retention_ms)
        self.requests_kept = dict(scenario.knobs).get("REQUESTS_KEPT", KEPT_DEFAULT)
        self.clock = Clockwork()
        self.recording = Recording(self.clock, keeps=keeps)
        self.recorder = Recorder(self._now_ns)
        self.wires = Wires(self.clock, scenario.delays, self.recording)
        self.medium = Medium(self.clock, self.wires, self.recording)
        self.observer = Observer(
            self.clock,
            self.recording,
            lambda key, life: self.leading_elsewhere(key.partition, life),
        )
        self.lives: list[ProcessLife] = []
        self.lies: list[int] = []
        """Indexes of `placed` orders that coordinators are to add to their next ones."""
        self.placed: list[HostWork] = []
        self.moved: set[int] = set()
        """Numbers of the placements that a coordinator was made to decide on without cause."""
        self.is_healing = self.is_well = False
        self.healed_at = self.well_at = 0
        self.written: dict[tuple[int, int], int] = {}
        """By broker and partition, when its last write that succeeded had begun (us)."""
        self.damaged: set[int] = set()
        self.deletions: dict[int, int] = {}
        """By partition, how many steps of its deletion have succeeded."""
        self.verdicts: dict[int, list[LeaderVerdict]] = {}
        """By partition, all leaders that were elected; the last is the true one."""
        self.oracle_named: dict[int, list[tuple[int, LeaderVerdict]]] = {}
        """By partition, all answers of the leader oracle, and when it was asked (ns)."""
        self.informed: dict[tuple[Claim, PartitionKey], list[LeaderVerdict | None]] = {}
        """By claim and partition, its answers about an announcement, one for each arrival."""
        self.refusals: set[tuple[str, int, int]] = set()
        """Host, partition and assignment of refused claims that hosts have reported."""
        self._numbers = self._ends = self._oracle_asked = 0

    # Time.

    def _now_ns(self) -> int:
        return self.clock.now * 1000

    def now_ms(self) -> int:
        return BEGAN_MS + self.clock.now // 1000

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # Processes.

    def new_life(self, site: str) -> ProcessLife:
        life = ProcessLife(site, len(self.lives))
        self.lives.append(life)
        self.recording.moment(life.name, "start")
        return life

    def start_delay(self, name: str) -> int:
        self._ends += 1
        return (50 + (37 * self._ends + len(name)) % 200) * MS

    @abstractmethod
    def kill(self, life: ProcessLife) -> None:
        """End a process between two steps: its callers are notified, and its pings fail."""

    def end(self, life: ProcessLife) -> None:
        """End a process on a coordinator's order; two in three go on all the same, as zombies.

        A process that cannot be reached is not ended.
        """
        if not life.is_reachable:
            return
        self._ends += 1
        way = 1 if life.is_paused else (self._ends + self.scenario.seed) % 3
        if not way:
            self.kill(life)
            return
        self.recording.mark("host replaced while it lives")
        self.recording.moment(life.name, "replaced")
        life.is_cut_off = way == 1  # Otherwise clients that know it go on calling it.

    @abstractmethod
    def passes(self, point: str, life: ProcessLife) -> None:
        """Let a planned fault strike a process that has reached `point`."""

    @abstractmethod
    def leading_elsewhere(self, number: int, life: ProcessLife) -> int:
        """How many other processes believe that they lead the partition."""

    # Kafka.

    def oracle(self, number: int) -> LeaderVerdict | None:
        """Kafka's answer on the leader: the true one, or a former one, or None.

        How often it answers, and how far it is behind, is up to the scenario.
        """
        self._oracle_asked += 1
        if (self._oracle_asked * 61 + self.scenario.seed) % 100 >= self.scenario.oracle_knows:
            return None
        behind = 0 if self.is_healing else self.scenario.oracle_behind
        verdicts = self.verdicts[number]
        verdict = verdicts[max(0, len(verdicts) - 1 - self._oracle_asked % (behind + 1))]
        self.oracle_named.setdefault(number, []).append((self._now_ns(), verdict))
        return verdict
