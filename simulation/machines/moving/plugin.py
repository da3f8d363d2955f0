"""A broker's plugin in short: by whom it decides, its roles, its writes, and what it knows.

What `Deciding`, `Roles` and `Writes` are in Java. Its replica is the
service's own, fed as all replicas are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

from typing_extensions import override

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.coordinator.attendance import Attend
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Decision, OwnerWord, PluginMode, decision
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd
from tierledger.events.errors import DataError, Fenced, NotReady, RemoteStorageError
from tierledger.events.log_events import Origin
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.simulation.machines.broker_node import BrokerNode, BrokerWorld
from tierledger.simulation.machines.clockwork import MS, Life
from tierledger.simulation.machines.feeding import Feeding, ReplicaNode
from tierledger.simulation.machines.moving.segments import Segments
from tierledger.simulation.machines.pending import Op

ATTEND = 60 * MS
"""How often it says how it stands: a plugin does twice a second."""

STEP = (15 * MS, 90 * MS)
"""Between two things that a broker does, about."""

CATCH_UP = 40 * MS
"""Between two looks whether Kafka's own manager knows what the ledger does."""

NOT_TAKEN = 100 * MS
"""After which it says again what was not taken."""

READY = 2000 * MS
"""After which a claim is announced again of which the replica is not ready."""

WRITES = 0.5
"""How often a leader has something to write."""

READS = (0.8, 0.8, 0.1)
"""How often Kafka's own manager in a broker reads a record or two."""


class Client(BrokerNode):
    """A broker's client that is told what it asked for."""

    def __init__(
        self,
        world: BrokerWorld,
        life: Life,
        broker_id: int,
        *,
        import_cluster: str | None = None,
    ) -> None:
        super().__init__(world, life, broker_id, import_cluster=import_cluster)
        self._lists: dict[int, list[bytes]] = {}

    def list_ids(self, number: int, then: Callable[[frozenset[bytes] | None], None]) -> None:
        """The ids of a partition's segments, of its leader; none: it did not answer."""

        def heard(error: RemoteStorageError | None) -> None:
            rows = self._lists.pop(number, ())
            then(frozenset(map(id_of_row, rows)) if error is None else None)

        lane = self.lane(number, 0, "list")
        assert not lane.is_busy, "one list at a time"
        self.read(number, lane, LEADER, Query("list"), heard)

    @override
    def _succeed(self, op: Op, value: Any) -> None:
        if op.lane is self.lane(op.partition, 0, "list"):
            self._lists[op.partition] = value.value
        super()._succeed(op, value)


class _Role(NamedTuple):
    """What Kafka has said last of a partition."""

    role: str | None
    epoch: int
    says_epochs: bool


class PluginNode(Client):
    """One life of a broker with the plugin."""

    def __init__(
        self,
        world: BrokerWorld,
        life: Life,
        broker_id: int,
        mode: PluginMode,
        segments: Segments,
        feeding: Feeding,
    ) -> None:
        super().__init__(world, life, broker_id)
        self._segments, self._feeding = segments, feeding
        self._mode = mode
        self.word = OwnerWord()
        self.under_way = 0
        """Writes that a manager has begun."""
        self.consumed = 0
        """Records that Kafka's own manager in it has read."""
        self._roles: dict[int, _Role] = {}
        self._unsaid: dict[int, None] = {}
        """Partitions of which the newest word was not taken yet."""
        self._fit_for = 0
        """The newest word by which the manager that may decide next is fit for it."""
        self._random = Random(f"plugin/{world.scenario.seed}/{life.name}")
        self._reads = self._random.choice(READS)

    def begin(self) -> None:
        """Attend, and do what brokers do, once Kafka's own manager has read the topic."""
        self.consumed = len(self._segments.topic)
        self._attend()
        self._go_on()

    @property
    @override
    def mode(self) -> PluginMode:
        return self._mode

    @property
    def decision(self) -> Decision:
        return decision(self.mode, self.word)

    def replica(self, number: int) -> ReplicaNode:
        return self._feeding.node(self, number)

    # The owner's word.

    def _attend(self) -> None:
        node = self.world.coordinator_node()
        said = Attend(
            self.broker_id, self._incarnation or 0, self.mode, self.word.number, self.is_idle()
        )
        self._wires.send(self.life, node.life, node.take_attend, self, said)
        self._clock.after(ATTEND, self.life, self._attend)

    def is_idle(self) -> bool:
        """Whether no write is under way, none begins, and another manager may decide."""
        is_fit = self._fit_for == self.word.number
        return self.decision.writes is None and not self.under_way and is_fit

    def hear(self, word: OwnerWord) -> None:
        """Go by a word that is newer than the last; no other lets go of that."""
        if word.number <= self.word.number:
            return
        former, self.word = self.decision, word
        said = f"word {word.number}: {word.owner}, decided by {word.decider}"
        self.world.recording.moment(self.life.name, "owner", said)
        if former.reads != self.decision.reads:
            self._renew(self._roles)
        if word.owner == Owner.MOVING and word.source == Owner.TIERLEDGER:
            self._catch_up(word.number)
        else:
            self._fit_for = word.number

    def _catch_up(self, number: int) -> None:
        """Look until Kafka's own manager knows what the leader lists: all else is gone."""
        if self.word.number != number:
            return

        def heard(ids: frozenset[bytes] | None) -> None:
            if ids == self._segments.ids_until(self.consumed):
                self._fit_for = number
            else:
                self._clock.after(CATCH_UP, self.life, self._catch_up, number)

        if self.lane(0, 0, "list").is_busy:
            self._clock.after(CATCH_UP, self.life, self._catch_up, number)
        else:
            self.list_ids(0, heard)

    # Roles: the newest word of each partition is said again and again until it is taken.

    @override
    def told(
        self, leads: dict[int, int], follows: list[int], stops: list[int], says_epochs: bool
    ) -> None:
        for number, epoch in leads.items():
            self._roles[number] = _Role(LEADER, epoch, says_epochs)
            self.led[number] = epoch
        for number in (*follows, *stops):
            self._roles[number] = _Role(FOLLOWER if number in follows else None, -1, False)
            self.led.pop(number, None)
        self._renew((*leads, *follows, *stops))

    def _renew(self, numbers: Iterable[int]) -> None:
        """All that was announced of them, and all readiness for it, counts no more."""
        for number in numbers:
            self._words[number] += 1
            self.claims.pop(number, None)
            self.replica(number).replica.expect(None)
            self._unsaid[number] = None
        self._announce_next()

    @property
    @override
    def has_words(self) -> bool:
        is_gone = self.is_fenced or self.life.is_dead
        return not is_gone and (self._is_announcing or bool(self._unsaid))

    @override
    def _announce_next(self) -> None:
        if self._is_announcing or not self._unsaid or self.is_fenced:
            return
        leads, follows, stops, says = dict[int, int](), list[int](), list[int](), False
        for number in self._unsaid:
            role = self._roles[number]
            if role.role is None:
                stops.append(number)
            elif role.role == LEADER and self.decision.reads == Owner.TIERLEDGER:
                leads[number], says = role.epoch, role.says_epochs
            else:
                follows.append(number)
        self._unsaid.clear()
        self._told.append((leads, follows, stops, says))
        super()._announce_next()

    @override
    def _not_announced(self, told: tuple[Any, ...]) -> None:
        self._mark("announcement failed")
        for number in (*told[0], *told[1], *told[2]):
            self._unsaid[number] = None
        self._clock.after(NOT_TAKEN, self.life, self._announce_done)

    @override
    def _announced(self, result: Any, told: tuple[Any, ...]) -> None:
        words = {number: self._words[number] for number in (*told[0], *told[1])}
        newer = [number for number in words if number in self._unsaid]
        super()._announced(result, told)
        if isinstance(result, RemoteStorageError):
            return
        for number, word in words.items():
            if number in newer:
                self.claims.pop(number, None)  # Taken, and out of date.
            else:
                self._clock.after(READY, self.life, self._announce_unready, number, word)

    @override
    def _say_again(self, number: int, told: tuple[Any, ...]) -> None:
        if number not in self._unsaid:  # Else Kafka has said something newer meanwhile.
            super()._say_again(number, told)

    def _announce_unready(self, number: int, word: int) -> None:
        """Another claim may have replaced it before any host knew: then nobody says so."""
        if self._words[number] == word and not self.replica(number).replica.is_ready:
            self._renew([number])

    def _fenced(self, number: int, claim: cmd.Claim) -> None:
        """Another leads: it is announced again, later each time."""
        role = self._roles[number]
        if self.claims.get(number) == (LEADER, claim) and role.role == LEADER:
            self._mark("plugin fenced")
            self.claims.pop(number)
            self.replica(number).replica.expect(None)
            self._say_again(number, ({number: role.epoch}, [], [], role.says_epochs))

    # What brokers do.

    def _go_on(self) -> None:
        random = self._random
        self._clock.after(random.randrange(*STEP), self.life, self._go_on)
        if random.random() < self._reads:
            self.consumed = min(self.consumed + 2, len(self._segments.topic))
        for number, role in self._roles.items():
            self._look(number)
            if role.role == LEADER and random.random() < WRITES:
                self._write(number, role.epoch)

    def known(self, number: int, manager: str | None) -> frozenset[bytes] | None:
        """The ids that a manager lists; none: it is not ready."""
        if manager == Owner.KAFKA:
            return self._segments.ids_until(self.consumed)
        if manager is None:
            return None
        try:
            return frozenset(map(id_of_row, self.replica(number).replica.list_all()))
        except (NotReady, DataError):
            return None

    def _look(self, number: int) -> None:
        known, by = self.known(number, self.decision.reads), self.decision.reads
        if known is not None and by is not None:
            self._segments.decides(self, number, by, known)

    def _write(self, number: int, epoch: int) -> None:
        """Kafka copies what its manager does not list, once that is ready."""
        manager = self.decision.writes
        if manager is None:
            self._mark("plugin held a write")
            return
        if self.known(number, manager) is None:
            return
        metadata = self._segments.new(number, self.broker_id, epoch)
        if manager == Owner.KAFKA:
            self.under_way += 1
            self._segments.write_by_kafka(self, metadata)
        else:
            self._write_by_ledger(number, metadata)

    def _write_by_ledger(self, number: int, metadata: RemoteLogSegmentMetadata) -> None:
        lane, claim = self.lane(number, 0, "plugin"), self.claim_to_lead(number)
        if lane.is_busy or claim is None or self._is_full(number):
            return

        def make(claim: cmd.Claim, origin: Origin) -> cmd.Command:
            return cmd.AddSegment(claim, origin, metadata)

        def heard(error: RemoteStorageError | None) -> None:
            if error is None:
                self._segments.written_by_ledger(metadata)
                self._apply(number, self.seen[number], metadata)
                return
            self.under_way -= 1
            if isinstance(error, Fenced):
                self._fenced(number, claim)

        self.under_way += 1
        self.write(number, lane, make, "add", metadata, heard)

    def _apply(self, number: int, position: int, metadata: RemoteLogSegmentMetadata) -> None:
        """A write is done once it is applied here as well, or this broker leads no more."""
        replica = self.replica(number).replica
        is_here = replica.is_whole and replica.position >= position
        if not is_here and self._roles[number].role == LEADER:
            self._clock.after(STEP[0], self.life, self._apply, number, position, metadata)
            return
        self.under_way -= 1
        if is_here:
            self._segments.finished(self, number, metadata)
