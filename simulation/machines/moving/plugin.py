"""A short model of a broker's plugin: the manager that it decides by, its roles, its writes.

It stands for `Deciding`, `Roles` and `Writes` in Java. Its replica is the service's own, and is
fed as all replicas are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

from typing_extensions import override

from tierledger.actors.calls import FOLLOWER, LEADER
from tierledger.actors.coordinator.attendance import Attend
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Decision, Ownership, PluginMode, decision
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd
from tierledger.events.errors import DataError, Fenced, NotReady, RemoteStorageError
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.events.tables.segment_rows import id_of_row
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife
from tierledger.simulation.machines.moving.segments import Segments
from tierledger.simulation.machines.nodes.broker import BrokerNode, BrokerWorld
from tierledger.simulation.machines.nodes.feeding import Feeding, ReplicaNode
from tierledger.simulation.machines.nodes.pending import Op

ATTEND = 60 * MS
"""How often a plugin reports here; a real one does so twice a second."""

STEP = (15 * MS, 90 * MS)
"""Bounds of the pause between two actions of a broker."""

CATCH_UP = 40 * MS
"""Pause between two checks whether Kafka's own manager knows all segments of the ledger."""

NOT_TAKEN = 100 * MS
"""Pause before an announcement that failed is repeated."""

READY = 2000 * MS
"""How long a replica may take to be ready for a claim before that is announced again."""

WRITES = 0.5
"""The share of its actions in which a leader writes."""

READS = (0.8, 0.8, 0.1)
"""The share of a broker's actions in which Kafka's own manager reads up to two records."""


class Client(BrokerNode):
    """A broker's client that can also list a partition's segments."""

    def __init__(
        self,
        world: BrokerWorld,
        life: ProcessLife,
        broker_id: int,
        *,
        import_cluster: str | None = None,
    ) -> None:
        super().__init__(world, life, broker_id, import_cluster=import_cluster)
        self._lists: dict[int, list[bytes]] = {}

    def list_ids(self, number: int, then: Callable[[frozenset[bytes] | None], None]) -> None:
        """Ask a partition's leader for the ids of segments; `then` gets None if that fails."""

        def heard(error: RemoteStorageError | None) -> None:
            rows = self._lists.pop(number, ())
            then(frozenset(map(id_of_row, rows)) if error is None else None)

        caller = self.caller(number, 0, "list")
        assert not caller.is_busy, "one list at a time"
        self.read(number, caller, LEADER, Query("list"), heard)

    @override
    def _succeed(self, op: Op, value: Any) -> None:
        if op.caller is self.caller(op.partition, 0, "list"):
            self._lists[op.partition] = value.value
        super()._succeed(op, value)


class _Role(NamedTuple):
    """The broker's role in a partition, by Kafka's newest notification."""

    role: str | None
    epoch: int
    carries_epochs: bool


class PluginNode(Client):
    """A process of a broker with the plugin, from its start to its end."""

    def __init__(
        self,
        world: BrokerWorld,
        life: ProcessLife,
        broker_id: int,
        mode: PluginMode,
        segments: Segments,
        feeding: Feeding,
    ) -> None:
        super().__init__(world, life, broker_id)
        self._segments, self._feeding = segments, feeding
        self._mode = mode
        self.ownership = Ownership()
        self.as_of = 0
        """When the coordinator sent the last answer that arrived here."""
        self.is_asked_again = False
        """Whether it is in a move's second owner epoch, which may end without a question."""
        self.under_way = 0
        """The number of writes by either manager that have begun and not ended."""
        self.consumed = 0
        """The number of records that Kafka's own manager in this broker has read."""
        self._roles: dict[int, _Role] = {}
        self._unannounced: dict[int, None] = {}
        """Partitions whose newest role is still to be announced."""
        self._fit_for = 0
        """The newest owner epoch for which the next manager knows all that it has to."""
        self._random = Random(f"plugin/{world.scenario.seed}/{life.name}")
        self._reads = self._random.choice(READS)

    def begin(self) -> None:
        """Start to report and to act; Kafka's own manager has read the whole topic before."""
        self.consumed = len(self._segments.topic)
        self._attend()
        self._go_on()

    @property
    @override
    def mode(self) -> PluginMode:
        return self._mode

    @property
    def decision(self) -> Decision:
        return decision(self.mode, self.ownership)

    def replica(self, number: int) -> ReplicaNode:
        return self._feeding.node(self, number)

    # The ownership.

    def _attend(self) -> None:
        node = self.world.coordinator_node()
        report = Attend(
            self.broker_id,
            self._incarnation or 0,
            self.mode,
            self.ownership.epoch,
            self.is_idle(),
        )
        self._wires.send(self.life, node.life, node.take_attend, self, report)
        self._clock.after(ATTEND, self.life, self._attend)

    def is_idle(self) -> bool:
        """Whether no write is under way or can begin, and another manager may decide.

        A move goes on once all brokers report that. A broker that reports it too early may
        lose a segment: the next manager would not know it.
        """
        is_fit = self._fit_for == self.ownership.epoch
        return self.decision.writes is None and not self.under_way and is_fit

    def hear(self, ownership: Ownership, as_of: int) -> None:
        """Act on the ownership if it is newer than the last one; an older one is late."""
        self.as_of = max(self.as_of, as_of)
        if ownership.epoch <= self.ownership.epoch:
            return
        self.is_asked_again = ownership.owner == self.ownership.owner == Owner.MOVING
        former, self.ownership = self.decision, ownership
        text = (
            f"owner epoch {ownership.epoch}: {ownership.owner}, decided by {ownership.decider}"
        )
        self.world.recording.moment(self.life.name, "owner", text)
        if former.reads != self.decision.reads:
            self._renew(self._roles)
        if ownership.owner == Owner.MOVING and ownership.source == Owner.TIERLEDGER:
            self._catch_up(ownership.epoch)
        else:
            self._fit_for = ownership.epoch

    def _catch_up(self, owner_epoch: int) -> None:
        """Check until Kafka's own manager knows the very segments that the leader lists.

        Brokers will decide by that manager, and a segment that it does not know is lost then.
        """
        if self.ownership.epoch != owner_epoch:
            return

        def heard(ids: frozenset[bytes] | None) -> None:
            if ids == self._segments.ids_until(self.consumed):
                self._fit_for = owner_epoch
            else:
                self._clock.after(CATCH_UP, self.life, self._catch_up, owner_epoch)

        if self.caller(0, 0, "list").is_busy:
            self._clock.after(CATCH_UP, self.life, self._catch_up, owner_epoch)
        else:
            self.list_ids(0, heard)

    # Roles: the newest role in each partition is announced until the coordinator accepts it.

    @override
    def notify(
        self, leads: dict[int, int], follows: list[int], stops: list[int], carries_epochs: bool
    ) -> None:
        for number, epoch in leads.items():
            self._roles[number] = _Role(LEADER, epoch, carries_epochs)
            self.led[number] = epoch
        for number in (*follows, *stops):
            self._roles[number] = _Role(FOLLOWER if number in follows else None, -1, False)
            self.led.pop(number, None)
        self._renew((*leads, *follows, *stops))

    def _renew(self, numbers: Iterable[int]) -> None:
        """Announce partitions anew: former claims, and readiness for them, no longer count."""
        for number in numbers:
            self._notified[number] += 1
            self.claims.pop(number, None)
            self.replica(number).replica.expect(None)
            self._unannounced[number] = None
        self._announce_next()

    @property
    @override
    def has_unannounced(self) -> bool:
        is_gone = self.is_fenced or self.life.is_dead
        return not is_gone and (self._is_announcing or bool(self._unannounced))

    @override
    def _announce_next(self) -> None:
        if self._is_announcing or not self._unannounced or self.is_fenced:
            return
        leads, follows, stops, carries = dict[int, int](), list[int](), list[int](), False
        for number in self._unannounced:
            role = self._roles[number]
            if role.role is None:
                stops.append(number)
            elif role.role == LEADER and self.decision.reads == Owner.TIERLEDGER:
                leads[number], carries = role.epoch, role.carries_epochs
            else:
                follows.append(number)
        self._unannounced.clear()
        self._notifications.append((leads, follows, stops, carries))
        super()._announce_next()

    @override
    def _not_announced(self, notification: tuple[Any, ...]) -> None:
        self._mark("announcement failed")
        for number in (*notification[0], *notification[1], *notification[2]):
            self._unannounced[number] = None
        self._clock.after(NOT_TAKEN, self.life, self._announce_done)

    @override
    def _announced(self, result: Any, notification: tuple[Any, ...]) -> None:
        leads, follows, *_ = notification
        notified = {number: self._notified[number] for number in (*leads, *follows)}
        newer = [number for number in notified if number in self._unannounced]
        super()._announced(result, notification)
        if isinstance(result, RemoteStorageError):
            return
        for number, count in notified.items():
            if number in newer:
                self.claims.pop(number, None)  # It was accepted, and is out of date.
            else:
                self._clock.after(READY, self.life, self._announce_unready, number, count)

    @override
    def _announce_again(self, number: int, notification: tuple[Any, ...]) -> None:
        if number not in self._unannounced:  # Otherwise a newer role is to be announced.
            super()._announce_again(number, notification)

    def _announce_unready(self, number: int, count: int) -> None:
        """Announce a claim again if its replica is not ready by now.

        Another claim may have replaced it before any host knew of it. Then no host reports to
        this broker that it is fenced.
        """
        if self._notified[number] == count and not self.replica(number).replica.is_ready:
            self._renew([number])

    def _fenced(self, number: int, claim: cmd.Claim) -> None:
        """Announce a claim again after a write under it was fenced; pauses double."""
        role = self._roles[number]
        if self.claims.get(number) == (LEADER, claim) and role.role == LEADER:
            self._mark("plugin fenced")
            self.claims.pop(number)
            self.replica(number).replica.expect(None)
            self._announce_again(number, ({number: role.epoch}, [], [], role.carries_epochs))

    # Actions of brokers.

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
        """The ids of segments that a manager lists; None: it is not ready."""
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
        """Write a new segment if the manager is ready: Kafka copies what its manager lacks."""
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
        caller, claim = self.caller(number, 0, "plugin"), self.claim_to_lead(number)
        if caller.is_busy or claim is None or self._is_full(number):
            return

        def heard(error: RemoteStorageError | None) -> None:
            if error is None:
                self._segments.written_by_ledger(metadata)
                self._apply(number, self.seen[number], metadata)
                return
            self.under_way -= 1
            if isinstance(error, Fenced):
                self._fenced(number, claim)

        self.under_way += 1
        self.write(number, caller, metadata, "add", heard)

    def _apply(self, number: int, position: int, metadata: RemoteLogSegmentMetadata) -> None:
        """End a write once the replica here has applied it, or this broker no longer leads.

        The broker reads from this replica, and has to find there what it has written.
        """
        replica = self.replica(number).replica
        is_here = replica.is_whole and replica.position >= position
        if not is_here and self._roles[number].role == LEADER:
            self._clock.after(STEP[0], self.life, self._apply, number, position, metadata)
            return
        self.under_way -= 1
        if is_here:
            self._segments.finished(self, number, metadata)
