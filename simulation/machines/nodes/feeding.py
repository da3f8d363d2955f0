"""Brokers' replicas, fed by leaders and followers over wires that lose and delay messages.

The feed has random numbers, wires and timers of its own: the rest of a world is the same with
and without replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.feed.frames import Change, FeedFenced, Frame, SnapshotBegun
from tierledger.actors.feed.replica import Replica
from tierledger.actors.feed.source import FeedSource
from tierledger.actors.messages import Query
from tierledger.actors.queries import QUERIES, answer_from
from tierledger.events.errors import DataError, NotReady, Overloaded, PartitionDeleted
from tierledger.events.tables.segment_rows import END, EPOCHS, unpack_row
from tierledger.simulation.checkers.feed import DELETED, ReplicaSeen
from tierledger.simulation.history.observations import Ready
from tierledger.simulation.machines.environment.clockwork import MS
from tierledger.simulation.machines.nodes.broker import BrokerNode
from tierledger.simulation.machines.nodes.host import HostNode
from tierledger.simulation.machines.nodes.processes import Processes
from tierledger.simulation.machines.nodes.shell import Shell

TICK = (10 * MS, 120 * MS)
"""Bounds of the pause between two ticks; in each, one replica of each partition acts."""

TIMEOUT = 700 * MS
"""How long a replica waits for a source's answer before it leaves the source."""

ROW_FRAMES, RINGS = (1, 2, 1000), (1, 2000, 1 << 20)
LOSES, LEAVES, LOOKS, ASTRAY = 0.03, 0.15, 0.2, 0.5
"""The shares of messages that are lost, of actions in which a replica leaves its source, or is
asked questions, and of subscriptions at any host that serves the partition."""


class _Fed(NamedTuple):
    """A subscription, as the host holds it."""

    shell: Shell
    source: FeedSource
    number: int


class ReplicaNode:
    """A replica in one process of a broker."""

    def __init__(self, broker: BrokerNode, number: int) -> None:
        self.broker = broker
        self.number = number
        self.name = f"{broker.life.name}/replica-{number}"
        self.replica = Replica(broker.world.keys_of[number], FOLLOWER)
        self.host: HostNode | None = None
        self.token = 0
        """The number of the present subscription; messages of another one are late."""
        self.is_fed = False
        """Whether the present subscription has brought a frame."""
        self.short_text, self.partition = f"replica-{number}", number
        """Its name and partition in the text of a message."""
        self.asked_at = -1
        """Since when it waits for an answer of its source (us); -1: it does not wait."""


class Feeding:
    """The replicas of one world, and records of their states."""

    def __init__(self, world: Processes) -> None:
        seed = world.scenario.seed
        self._random = random = Random(f"feed/{seed}")
        self.knobs = (
            ("FRAME_ROWS", random.choice(ROW_FRAMES)),
            ("RING_BYTES", random.choice(RINGS)),
        )
        """Bounds of the feed in this world."""
        self.seen: list[ReplicaSeen] = []
        self.refused: list[tuple[int, str, int, str]] = []
        """Time (ns), replica, partition and reason of each new subscription that was needed
        though no frame was lost."""
        self.nodes: dict[tuple[int, int], ReplicaNode] = {}
        self._fed: dict[int, _Fed] = {}
        self._tokens = 0
        self._world, self._clock = world, world.clock

    def start(self) -> None:
        if self._world.scenario.has_replicas:
            self._clock.after(self._pause(), None, self._tick)

    def _pause(self) -> int:
        return self._random.randrange(*TICK)

    # The replicas.

    def _tick(self) -> None:
        scenario = self._world.scenario
        for number in range(scenario.partitions):
            nearby = (number + self._random.randrange(2)) % scenario.brokers
            broker = self._world.brokers.get(1 + nearby)
            if broker is not None and not (broker.life.is_dead or broker.life.is_paused):
                self._go_on(self.node(broker, number))
        self._clock.after(self._pause(), None, self._tick)

    def node(self, broker: BrokerNode, number: int) -> ReplicaNode:
        node = self.nodes.get((broker.broker_id, number))
        if node is None or node.broker is not broker:
            node = self.nodes[broker.broker_id, number] = ReplicaNode(broker, number)
        return node

    def _go_on(self, node: ReplicaNode) -> None:
        random, replica = self._random, node.replica
        role, claim = node.broker.claims.get(node.number, (FOLLOWER, None))
        if (role, claim) != (replica.role, replica.claim):
            replica.role = role
            replica.expect(claim)
            self._leave(node)
        if random.random() < LOOKS:
            self.look(node)
        late = node.asked_at >= 0 and self._clock.now - node.asked_at > TIMEOUT
        if late or random.random() < LEAVES:
            self._leave(node)
        if node.host is None:
            self._subscribe(node)
        elif node.asked_at < 0:
            node.asked_at = self._clock.now
            limit = random.choice((1, 2, 16))
            self._send(node.broker.life, node.host.life, self._take, node, node.token, limit)

    def _leave(self, node: ReplicaNode) -> None:
        if node.host is not None:
            self._send(node.broker.life, node.host.life, self._drop, node.token)
            node.host = None
        node.token, node.asked_at, node.is_fed = 0, -1, False

    def _subscribe(self, node: ReplicaNode) -> None:
        random, world, role = self._random, self._world, node.replica.role
        host = world.leading(node.number) if role == LEADER else None
        if host is None or random.random() < ASTRAY:
            role = role if world.is_healing else random.choice((LEADER, FOLLOWER))
            serving = [
                one
                for one in world.hosts.values()
                if one.life.is_reachable and (node.number, role) in one.shells
            ]
            host = random.choice(serving) if serving else None
        if host is None:
            return
        self._tokens += 1
        node.host, node.token = host, self._tokens
        subscription = node.replica.subscription()._replace(role=role)
        self._send(
            node.broker.life, host.life, self._subscribed, host, node.token, subscription
        )

    def _given(self, node: ReplicaNode, token: int, frames: list[Frame] | None) -> None:
        if token != node.token or node.asked_at < 0:
            return
        node.asked_at = -1
        if frames is None:
            self._leave(node)
            return
        replica = node.replica
        for frame in frames:
            was_ready, was_at = replica.is_ready, replica.position
            refusal = replica.take(frame)
            if refusal is not None:
                self._refuse(node, refusal.reason)
                self._leave(node)
                return
            self._note(node, frame, was_at)
            if replica.position > was_at and isinstance(frame, Change):
                self._seen(node)
            if replica.is_ready and not was_ready:
                self._count("replica was ready")
                self._ready(node)

    def _note(self, node: ReplicaNode, frame: Frame, was_at: int) -> None:
        if isinstance(frame, SnapshotBegun):
            self._count("replica took a snapshot")
            if node.is_fed:
                self._count("replica was overtaken")
        elif isinstance(frame, FeedFenced):
            self._count("replica hears that it is fenced")
        elif isinstance(frame, Change) and not node.is_fed and was_at >= 0:
            self._count("replica went on from where it was")
        node.is_fed = True

    def _ready(self, node: ReplicaNode) -> None:
        fed, claim = self._fed.get(node.token), node.replica.claim
        if fed is not None and claim is not None:
            now, key = self._clock.now * 1000, node.replica.key
            ready = Ready(now, node.name, fed.shell.role, key, claim, node.replica.position)
            self._world.observer.note_ready(ready, node.broker.life.name)

    # What they answer.

    def look(self, node: ReplicaNode) -> None:
        """Ask a replica a few questions, and record its answers."""
        if node.replica.is_whole:
            self._seen(node, tuple(self._answers(node.replica)))

    def finish(self) -> None:
        """Feed every replica, at once, all that its leader has; called when all is well."""
        for node in self.nodes.values():
            replica = node.replica
            leading = [  # A replaced leader may be among them; it is behind the others.
                host.shells[node.number, LEADER]
                for host in self._world.hosts.values()
                if host.life.is_reachable and host.believes_to_lead(node.number)
            ]
            if not leading or not node.broker.life.is_reachable or not self._world.is_well:
                continue
            self._leave(node)
            shell = max(leading, key=lambda one: one.machine.position)
            machine, source = shell.machine, shell.machine.open_feed()
            number = source.subscribe(replica.subscription())
            while frames := _taken(_Fed(shell, source, number), 16):
                for frame in frames:
                    refusal = replica.take(frame)
                    if refusal is not None:
                        self._refuse(node, refusal.reason)
            # In a damaged log the replica's position may not be found; then it is not fed.
            is_compared = source.unproven(number) is None
            source.drop(number)
            is_behind = not replica.is_whole or replica.position < machine.position
            if is_compared and is_behind:
                why = (
                    f"it was given all there is and is at position {replica.position}, its "
                    f"source is at {machine.position}"
                )
                self._refuse(node, why)
            self.look(node)

    def _refuse(self, node: ReplicaNode, why: str) -> None:
        self.refused.append((self._clock.now * 1000, node.name, node.number, why))

    def _seen(self, node: ReplicaNode, answers: tuple[tuple[Query, Any], ...] = ()) -> None:
        now, replica = self._clock.now * 1000, node.replica
        at = replica.position, replica.is_whole
        self.seen.append(ReplicaSeen(now, node.name, replica.key, *at, answers))
        text = f"{node.short_text} is at position {replica.position}"
        life = node.broker.life.name
        self._world.recording.moment(life, "replica", text, None, node.number)

    def _answers(self, replica: Replica) -> Iterator[tuple[Query, Any]]:
        random = self._random
        everything = Query("list")
        answer = _answer(replica, everything)
        yield everything, answer
        rows = answer[0] if isinstance(answer, tuple) else []
        for row in random.sample(rows, min(2, len(rows))):
            fields = unpack_row(row)
            at = 3 * random.randrange(len(fields[EPOCHS]) // 3)
            epoch, begins = fields[EPOCHS][at : at + 2]
            offset = random.choice((begins, begins - 1, fields[END], fields[END] + 1))
            for kind in ("list_epoch", "size", "highest_offset"):
                yield Query(kind, epoch), _answer(replica, Query(kind, epoch))
            for kind in ("lookup", "next_txn"):
                query = Query(kind, epoch, max(0, offset))
                yield query, _answer(replica, query)

    # The sources, as hosts serve them.

    def _subscribed(self, host: HostNode, token: int, subscription: Any) -> None:  # noqa: ANN401
        shell = host.shells.get((subscription.key.partition, subscription.role))
        if shell is None:
            return
        source = shell.machine.open_feed()
        try:
            self._fed[token] = _Fed(shell, source, source.subscribe(subscription))
        except Overloaded:
            return  # A replica that gets no answer subscribes elsewhere.

    def _take(self, node: ReplicaNode, token: int, limit: int) -> None:
        fed, host = self._fed.get(token), node.host
        if host is None:
            return
        frames: list[Frame] | None = None
        if fed is not None and host.shells.get((node.number, fed.shell.role)) is fed.shell:
            frames = _taken(fed, limit)
        self._send(host.life, node.broker.life, self._given, node, token, frames)

    def _drop(self, token: int) -> None:
        fed = self._fed.pop(token, None)
        if fed is not None:
            fed.source.drop(fed.number)
            if not len(fed.source) and self._random.random() < 0.3:
                self._count("feed closed")
                fed.shell.machine.close_feed()

    # Wires.

    def _send(self, source: Any, target: Any, call: Callable[..., None], *args: Any) -> None:  # noqa: ANN401
        random = self._random
        delay = random.choice((1, 1, 2, 5, 20, 150)) * MS
        is_lost, world = random.random() < LOSES, self._world
        if target.is_dead or target.is_cut_off:
            return
        if not world.is_healing and (is_lost or world.wires.is_cut(source, target)):
            self._count("feed message lost")
            world.recording.fed(source, target, call, None, args)
            return
        world.recording.fed(source, target, call, self._clock.now + delay, args)
        self._clock.after(delay, target, call, *args)

    def _count(self, mark: str) -> None:
        self._world.recording.mark(mark)


def _taken(fed: _Fed, limit: int) -> list[Frame]:
    """The next frames of a source, which first looks into the log if it has to."""
    frames = fed.source.take(fed.number, limit)
    if (held := fed.source.unproven(fed.number)) is not None:
        try:
            is_held = fed.shell.has_history(*held)
        except DataError:
            return []  # A replica that gets no frames subscribes elsewhere.
        fed.source.proven(fed.number, held, is_held=is_held)
        frames = fed.source.take(fed.number, limit)
    return frames


def _answer(replica: Replica, query: Query) -> Any:  # noqa: ANN401 - Any answer.
    """A replica's answer in a tuple, or `DELETED`; None if it is not ready to answer."""
    try:
        answer = answer_from(replica, query)
        return (answer if QUERIES[query.kind].is_ordered else sorted(answer),)
    except PartitionDeleted:
        return DELETED
    except NotReady:
        return None
