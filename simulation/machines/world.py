"""State machines with brokers, hosts, coordinators and a store, run from a scenario.

First everything may fail and nothing may be wrong; then all heals, and every partition's true
leader has to write again; then the power goes, and what was acknowledged has to be there.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.rules import HostWork
from tierledger.actors.leader.machine import Phase
from tierledger.events.commands import Claim, LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.partition.decide import Limits
from tierledger.simulation.checkers.decisions import Drafted, drafts_noted
from tierledger.simulation.history.calls import Recorder
from tierledger.simulation.machines.broker_node import BrokerNode
from tierledger.simulation.machines.clockwork import MS, Clockwork, Life, S
from tierledger.simulation.machines.controller import Controller
from tierledger.simulation.machines.coordination_laws import unready
from tierledger.simulation.machines.coordinator_node import CoordinatorNode
from tierledger.simulation.machines.copier import Copier
from tierledger.simulation.machines.feeding import Feeding
from tierledger.simulation.machines.host_node import HostNode
from tierledger.simulation.machines.importer import IMPORTER, Importer
from tierledger.simulation.machines.knobs import KEPT_DEFAULT, turned_to
from tierledger.simulation.machines.medium import REFUSE, Medium
from tierledger.simulation.machines.moving.cluster import KafkaFollower, Moving
from tierledger.simulation.machines.newer_release import NewerSerDe, OlderSerDe
from tierledger.simulation.machines.observer import Observer
from tierledger.simulation.machines.recording import Recording
from tierledger.simulation.machines.scenario import Decision, Scenario
from tierledger.simulation.machines.strikes import STRIKES, may_be_wrong
from tierledger.simulation.machines.wires import Wires
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.serde import MsgpackSerDe

CLUSTER_ID = "machines"
CUSTOM_BYTES_MAX = 128
BEGAN_MS = 1_700_000_000_000

DETECTED_AFTER = 300 * MS
"""How soon a dead process is missed."""
SUSPECTED_AFTER = 1500 * MS
"""How soon one that does not answer is."""

HEALING = 30 * S
"""Time within which a healed world has to be well again."""

CATCHING_UP = 1600 * MS
"""Time within which the followers of a world that is well have read everything."""

READY_LOOKS = 5
"""How often that time passes at most before a replica that is not ready is found wanting."""

_TOPIC_ID = Uuid(bytes(15) + b"\x09")
_TIPS = [TopicIdPartition(_TOPIC_ID, number, "orders") for number in range(16)]
_KEYS = [PartitionKey.of(tip) for tip in _TIPS]
_ITEMS = [(bytes(tip.topic_id), tip.partition, tip.topic) for tip in _TIPS]


TURNS = 12
DRAFTS, DECISIONS, COORDINATION, TABLES = range(4)
"""Of so many seeds one judges what leaders decided, one asks for further decisions of leaders,
one for those of coordinators, and one asks tables: each finds much, and takes its time."""


class World:
    """Made from a scenario, run once."""

    def __init__(  # noqa: PLR0915
        self, scenario: Scenario, *, keeps: bool = False, clock: Clockwork | None = None
    ) -> None:
        """`clock`: who decides what happens next; else it is whatever is due first."""
        self.scenario = scenario
        self.cluster_id = CLUSTER_ID
        self.tips, self.keys_of, self.items = _TIPS[: scenario.partitions], _KEYS, _ITEMS
        self.keys = DefaultMetadataKeyFactory(CLUSTER_ID)
        self.serde = MsgpackSerDe()
        self.older_serde = OlderSerDe()
        self.newer_serde = NewerSerDe(writes_newer=scenario.writes_newer)
        self.limits = Limits(CUSTOM_BYTES_MAX, scenario.retention_ms)
        self.requests_kept = dict(scenario.knobs).get("REQUESTS_KEPT", KEPT_DEFAULT)
        self.clock = clock or Clockwork()
        self.recording = Recording(self.clock, keeps=keeps)
        self.recorder = Recorder(self._now_ns)
        self.wires = Wires(self.clock, scenario.delays, self.recording)
        self.medium = Medium(self.clock, self.wires, self.recording)
        self.controller = Controller(self)
        self.observer = Observer(self)
        self.feeding = Feeding(self)
        self.brokers: dict[int, BrokerNode] = {}
        self.fenced: list[tuple[int, int, tuple[int, int]]] = []
        """When (ns) which broker was told that it is out of date, and what it had announced."""
        self.broker_lives: list[BrokerNode] = []
        self.importers: list[Importer | KafkaFollower] = []
        self.hosts: dict[str, HostNode] = {}
        """By address; also those that are gone."""
        self.coordinator: CoordinatorNode | None = None
        self.coordinators: list[CoordinatorNode] = []
        self.lives: list[Life] = []
        self.copiers: dict[tuple[str, int, int], Copier] = {}
        self.dozes: dict[tuple[str, str], int] = {}
        """Sites that pause at the next of such points, and for how long (us)."""
        self.fuses: set[tuple[str, str]] = set()
        """Sites that die at the next of such points."""
        self.outages: dict[str, int] = {}
        """Points at which the next process loses the store, and for how long (us)."""
        self.lies: list[Any] = []
        """What a coordinator is to say instead of the next placements."""
        self.drafts: list[Drafted] = []
        """What leaders decided, if this seed judges it."""
        self.placed: list[HostWork] = []
        self.moved: set[int] = set()
        """Numbers of the placements that a coordinator was made to decide on for no reason."""
        self.calls_of: dict[int, range] = {}
        """Decision, by its place among them, to the numbers of the calls it led to at once."""
        self.is_healing = self.is_well = False
        self.healed_at = self.well_at = 0
        self.written: dict[tuple[int, int], int] = {}
        """Broker and partition: when the last write that succeeded was begun (us)."""
        self.damaged: set[int] = set()
        self.upgraded: set[str] = set(scenario.upgraded)
        self._numbers = self._ends = self._oracle_asked = 0
        self.oracle_named: dict[int, list[tuple[int, LeaderVerdict]]] = {}
        """Partition to all that the leader oracle ever said, and when it was asked (ns)."""
        self.informed: dict[tuple[Claim, PartitionKey], list[LeaderVerdict | None]] = {}
        """What it said of the leaders of an announcement, each time that this arrived."""
        self.refusals: set[tuple[str, int, int]] = set()
        """Host, partition, assignment: refused claims of which a coordinator was told."""
        self.suspected: set[str] = set()
        """Processes of which pings ever went unanswered."""
        self.moving = Moving(self) if scenario.moves else None
        """The cluster, if its brokers have the plugin, and it moves."""
        if self.moving is not None:
            self.importers.append(self.moving.follower)

    # Time.

    def _now_ns(self) -> int:
        return self.clock.now * 1000

    def now_ms(self) -> int:
        return BEGAN_MS + self.clock.now // 1000

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # Processes.

    def new_life(self, site: str) -> Life:
        life = Life(site, len(self.lives))
        self.lives.append(life)
        self.recording.moment(life.name, "start")
        return life

    def start_broker(self, broker_id: int) -> BrokerNode:
        """A new life of a broker; the one before, if it lives, becomes a zombie."""
        former = self.brokers.get(broker_id)
        if former is not None and not former.life.is_dead and not self.is_healing:
            if self.scenario.repeats:
                self.recording.mark("broker replaced while it lives")
            else:  # Kafka would have to tell it once more that it leads nothing.
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

    def restart_broker(self, broker_id: int) -> None:
        self.start_broker(broker_id)
        self.controller.tell(broker_id, 5 * MS)

    def broker_fenced(self, broker: BrokerNode, pair: tuple[int, int]) -> None:
        """An earlier life had registered after this one: an operator restarts it."""
        self.fenced.append((self.clock.now * 1000, broker.broker_id, pair))
        if self.brokers.get(broker.broker_id) is broker:
            self.restart_broker(broker.broker_id)

    @property
    def everybody(self) -> list[BrokerNode]:
        """All that announce something: each broker's present life, and importers."""
        return [*self.brokers.values(), *(one.broker for one in self.importers)]

    def start_import(self, partition: int, history: int, count: int) -> None:
        """One more broker comes, takes recorded history over, and goes."""
        number = IMPORTER + len(self.importers)
        self.importers.append(Importer(self, number, partition, history, count))

    def coordinator_node(self) -> CoordinatorNode:
        """The coordinator that everybody finds; a new one if there is none."""
        node = self.coordinator
        if node is None or not node.life.is_reachable:
            node = self.coordinator = CoordinatorNode(self, self.new_life("coordinator"))
            self.coordinators.append(node)
            node.start()
        return node

    def start_delay(self, name: str) -> int:
        self._ends += 1
        return (50 + (37 * self._ends + len(name)) % 200) * MS

    def launch(self, name: str, address: str) -> HostNode | None:
        """A new process at `address`, or the one that somebody else has started there."""
        known = self.hosts.get(address)
        if known is not None:
            return known if known.life.is_reachable else None
        life = self.new_life(name)
        serde = self.newer_serde if name in self.upgraded or self.is_healing else self.serde
        if serde is self.serde and name in self.scenario.outdated:
            serde = self.older_serde
        host = self.hosts[address] = HostNode(self, life, name, address, serde)
        host.skew_ms = self.scenario.skews_ms[life.number % len(self.scenario.skews_ms)]
        host.start()
        return host

    def host_at(self, address: str) -> HostNode | None:
        host = self.hosts.get(address)
        return host if host is not None and host.life.is_reachable else None

    def at_site(self, site: str) -> Life | None:
        """The newest life at `site` that can be reached."""
        for life in reversed(self.lives):
            if life.site == site and life.is_reachable:
                return life
        return None

    def node_of(self, life: Life) -> HostNode | None:
        for host in self.hosts.values():
            if host.life is life:
                return host
        return None

    def leading(self, number: int) -> HostNode | None:
        """The newest host that can be reached and believes to lead the partition."""
        for host in reversed(list(self.hosts.values())):
            if host.life.is_reachable and host.believes_to_lead(number):
                return host
        return None

    def kill(self, life: Life) -> None:
        """End a process between two steps; who waits for it hears so, and pings miss it."""
        if life.is_dead:
            return
        life.is_dead = True
        self.recording.event("killed", life.name)
        self.recording.moment(life.name, "crash")
        host = self.node_of(life)
        if host is None:
            return
        if any(one.machine.phase is Phase.LOADING for one in host.shells.values()):
            self.recording.mark("crash while a partition was loaded")
        for caller, op, attempt in host.waiting.values():
            delay = self.wires.delay(life, 7)
            self.clock.after(delay, caller.life, caller.host_gone, op, attempt)
        self.clock.after(DETECTED_AFTER, None, self.detected, life)

    def end(self, life: Life) -> None:
        """A coordinator ends a process; one that cannot be reached goes on, as a zombie."""
        if not life.is_reachable:
            return
        self._ends += 1
        way = 1 if life.is_paused else (self._ends + self.scenario.seed) % 3
        if not way:
            self.kill(life)
            return
        self.recording.mark("host replaced while it lives")
        self.recording.moment(life.name, "replaced")
        life.is_cut_off = way == 1  # Else clients that know it go on calling it.

    def detected(self, life: Life) -> None:
        """Pings of `life` go unanswered: every coordinator finds out for itself."""
        self.suspected.add(life.name)
        for node in self.coordinators:
            if not node.life.is_dead:
                self.clock.at(self.clock.now, node.life, node.suspect, life)

    def missed(self, life: Life) -> None:
        if life.is_paused and not life.is_dead:
            self.detected(life)

    def pause(self, life: Life, duration: int) -> None:
        if life.is_dead or life.is_paused:
            return
        life.is_paused = True
        self.recording.moment(life.name, "pause")
        self.clock.after(duration, None, self.resume, life)
        if life.site.startswith("host"):
            self.clock.after(SUSPECTED_AFTER, None, self.missed, life)

    def resume(self, life: Life) -> None:
        if not life.is_paused or life.is_dead:
            return
        host = self.node_of(life)
        if host is not None and any(
            host.believes_to_lead(number) and self.leads_elsewhere(number, host)
            for number in range(self.scenario.partitions)
        ):
            self.recording.mark("resumed after a successor had claimed")
        self.recording.event("resumed", life.name)
        self.recording.moment(life.name, "resume")
        self.clock.resume(life)

    def leads_elsewhere(self, number: int, host: HostNode) -> bool:
        return any(
            other is not host and not other.life.is_dead and other.believes_to_lead(number)
            for other in self.hosts.values()
        )

    def passes(self, point: str, life: Life) -> None:
        """A process is at a point where crashes are rare and interesting."""
        if self.dozes and (length := self.dozes.pop((life.site, point), 0)):
            self.recording.mark(f"doze: {point}")
            self.pause(life, length)
        if self.fuses and (life.site, point) in self.fuses:
            self.fuses.discard((life.site, point))
            self.recording.mark(f"crash: {point}")
            self.kill(life)
        if self.outages and (length := self.outages.pop(point, 0)):
            self.recording.mark(f"store away: {point}")
            self.medium.cut_off(life.site, self.clock.now + length, REFUSE)

    def durable(self, life: Life) -> None:
        self.passes("durable", life)

    # What nodes tell.

    def oracle(self, number: int) -> LeaderVerdict | None:
        """Kafka's word on who leads: the truth, or as often as the scenario has it, nothing."""
        self._oracle_asked += 1
        if (self._oracle_asked * 61 + self.scenario.seed) % 100 >= self.scenario.oracle_knows:
            return None
        behind = 0 if self.is_healing else self.scenario.oracle_behind
        said = self.controller.verdict(number, self._oracle_asked % (behind + 1))
        self.oracle_named.setdefault(number, []).append((self._now_ns(), said))
        return said

    def distorted(self, work: HostWork) -> HostWork:
        """What a coordinator says, or what it is made to say instead."""
        self.placed.append(work)
        if not self.lies:
            return work
        self.recording.mark("coordinator lied")
        which = self.lies.pop(0)
        told = self.placed[which % len(self.placed)].placements
        former = [one for one in told if may_be_wrong(one)]
        return work._replace(placements=(*former, *work.placements))

    # The run.

    def run(self) -> None:
        """Let the scenario have its way, then heal; `is_well` says if the service came back."""
        scenario, clock = self.scenario, self.clock
        knobs = turned_to((*scenario.knobs, *self.feeding.knobs))
        is_noted = scenario.seed % TURNS == DRAFTS
        with knobs, drafts_noted(self.drafts) if is_noted else nullcontext():
            self.medium.on_created = self.durable
            self.coordinator_node()
            for broker_id in range(1, scenario.brokers + 1):
                self.start_broker(broker_id)
            self.controller.start()
            if self.moving is not None:
                self.moving.start()
            self.feeding.start()
            for at, decision in enumerate(scenario.decisions):
                clock.at(decision.at, None, self._strike, at, decision)
            clock.run(scenario.duration)
            self._heal()
            clock.run(clock.now + HEALING)
            self.well_at = clock.now
            if self.is_well:
                for broker in self.brokers.values():
                    broker.ready.clear()
                self._wait_until_ready()
                self.feeding.finish()
            for host in self.hosts.values():
                if not host.life.is_dead:
                    for shell in host.shells.values():
                        self.observer.saw(shell)

    def _wait_until_ready(self) -> None:
        """Let brokers ask for their replicas, longer where a slow answer is still under way."""
        for _ in range(READY_LOOKS):
            for broker in self.brokers.values():
                for number in broker.claims:
                    broker.ask_ready(number)
            self.clock.run(self.clock.now + CATCHING_UP)
            if not any(unready(self)):
                return

    def _strike(self, at: int, decision: Decision) -> None:
        before = self.recorder.count
        STRIKES[decision.kind](self, *decision.args)
        if self.recorder.count > before:
            self.calls_of[at] = range(before, self.recorder.count)

    def _heal(self) -> None:
        self.is_healing = True
        self.recording.moment("", "heal", "nothing fails any more")
        self.wires.heal()
        self.medium.heal()
        self.fuses.clear()
        self.dozes.clear()
        self.outages.clear()
        self.lies.clear()
        for life in list(self.lives):
            self.resume(life)
        for broker_id, broker in list(self.brokers.items()):
            if broker.life.is_dead or broker.is_fenced:
                self.restart_broker(broker_id)
        if self.scenario.writes_newer:  # The roll-out is finished: what is old goes.
            for host in list(self.hosts.values()):
                if host.serde is not self.newer_serde:
                    self.kill(host.life)
        for importer in self.importers:
            importer.stop()
        self.coordinator_node()
        if self.moving is not None:
            self.moving.heal()
        self.controller.heal()
