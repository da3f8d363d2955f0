"""The segments of a cluster that moves: by which manager each was written, and who knows it.

All segments are of one partition, and each record adds one. A segment that one broker has
written counts as lost if another broker decides without it.
"""

from __future__ import annotations

from random import Random
from typing import Protocol

from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Ownership
from tierledger.events.identifiers import RemoteLogSegmentId, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife
from tierledger.simulation.machines.nodes.surroundings import Surroundings

WAITS, SENT = (100 * MS, 100 * MS, 1200 * MS), (MS, 20 * MS)
"""Bounds of how long a record waits in its broker, and of how long it is under way then."""


class Plugin(Protocol):
    """The plugin of a broker, which writes, and decides by the segments that it knows."""

    life: ProcessLife
    ownership: Ownership
    as_of: int
    is_asked_again: bool
    under_way: int

    def known(self, number: int, manager: str | None, /) -> frozenset[bytes] | None: ...


class Segments:
    """The segments of one world."""

    def __init__(self, world: Surroundings, random: Random) -> None:
        self.topic: list[RemoteLogSegmentMetadata] = []
        self.silent: set[bytes] = set()
        """Ids that comparisons leave out: only the rules of the move keep these from loss."""
        self._noted: set[tuple[str, str]] = set()
        """Checker and life of each violation that was noted; it is noted once."""
        self._written: dict[str, dict[bytes, int]] = {Owner.KAFKA: {}, Owner.TIERLEDGER: {}}
        """Ids by the manager that wrote them, and when they were written."""
        self._made: dict[bytes, RemoteLogSegmentMetadata] = {}
        self._known = [frozenset[bytes]()]
        """By a count of the topic's first records, the ids in these."""
        self._segments = 0
        self._world, self._random = world, random

    def new(self, number: int, broker_id: int, epoch: int) -> RemoteLogSegmentMetadata:
        """A segment that is not written yet."""
        self._segments += 1
        name = Uuid(self._segments.to_bytes(16, "big"))
        if self._random.random() < 0.5:
            self.silent.add(bytes(name))
        start = 10 * self._segments
        metadata = self._made[bytes(name)] = RemoteLogSegmentMetadata(
            remote_log_segment_id=RemoteLogSegmentId(self._world.tips[number], name),
            start_offset=start,
            end_offset=start + 9,
            max_timestamp_ms=start,
            broker_id=broker_id,
            event_timestamp_ms=start,
            segment_size_in_bytes=100,
            state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
            segment_leader_epochs={epoch: start},
            txn_index_empty=True,
        )
        return metadata

    def ids_until(self, consumed: int) -> frozenset[bytes]:
        """The ids that Kafka's own manager lists after it has read `consumed` records."""
        return self._known[consumed]

    def append(self, metadata: RemoteLogSegmentMetadata) -> None:
        self.topic.append(metadata)
        self._known.append(self._known[-1] | {_id(metadata)})

    def mirror(self, name: bytes) -> None:
        """Append a segment of the ledger to the topic, as the follower does that mirrors."""
        if name in self._made:
            self.append(self._made[name])

    def write_late(self, broker_id: int) -> None:
        """Write a new segment by Kafka's own manager, in a stock broker."""
        metadata = self.new(0, broker_id, 0)
        self.silent.add(_id(metadata))
        self.append(metadata)
        self._wrote(Owner.KAFKA, metadata)

    def _wrote(self, manager: str, metadata: RemoteLogSegmentMetadata) -> None:
        self._written[manager][_id(metadata)] = self._world.clock.now

    def write_by_kafka(self, plugin: Plugin, metadata: RemoteLogSegmentMetadata) -> None:
        """Write a segment by Kafka's own manager.

        The record waits in its broker for a while. Once sent, it lands even if the broker ends.
        """
        after, random = self._world.clock.after, self._random

        def landed() -> None:
            plugin.under_way -= 1

        def land() -> None:
            self.append(metadata)
            self._wrote(Owner.KAFKA, metadata)
            self._world.recording.mark("written by Kafka's own manager")
            self._world.recording.event("kafka", plugin.life.name, _id(metadata))
            after(random.randrange(*SENT), plugin.life, landed)

        def send() -> None:
            if not plugin.life.is_dead:
                after(random.randrange(*SENT), None, land)

        after(random.randrange(random.choice(WAITS)), None, send)

    def written_by_ledger(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._wrote(Owner.TIERLEDGER, metadata)
        self._world.recording.mark("written by tierledger")

    # Laws.

    def decides(
        self, plugin: Plugin, number: int, manager: str, known: frozenset[bytes]
    ) -> None:
        """Note a violation if a broker decides by a manager that lacks the other's segments.

        A broker may freeze between its report in a move's second owner epoch and the end of the
        move. Once it goes on, it acts by that owner epoch until it hears of the next, and lacks
        what others have written since, as a replica of Kafka's own manager does that lags. So
        those segments do not count. In that owner epoch it writes nothing, and takes no further
        role.
        """
        other = Owner.KAFKA if manager == Owner.TIERLEDGER else Owner.TIERLEDGER
        until = plugin.as_of if plugin.is_asked_again else self._world.clock.now
        written = self._written[other].items()
        missing = {one for one, at in written if at <= until} - known
        if missing:
            what = f"{len(missing)} segments that were written by {other}'s manager"
            message = self._wrong(plugin, f"decides by {manager}'s without {what}")
            found = Violation("lost_record", self._world.keys_of[number], message)
            self._found(plugin, found)

    def finished(self, plugin: Plugin, number: int, metadata: RemoteLogSegmentMetadata) -> None:
        """Note a violation if a broker does not find a segment that it has written."""
        self._world.recording.mark("plugin's write applied")
        known = plugin.known(number, Owner.TIERLEDGER)
        if known is not None and _id(metadata) not in known:
            message = self._wrong(plugin, "does not find what it has written")
            found = Violation("unread_write", self._world.keys_of[number], message)
            self._found(plugin, found)

    def _wrong(self, plugin: Plugin, what: str) -> str:
        now = ms_text(self._world.clock.now * 1000)
        return f"{plugin.life.name}, in owner epoch {plugin.ownership.epoch}, {what}, at {now}"

    def _found(self, plugin: Plugin, violation: Violation) -> None:
        pair = violation.checker, plugin.life.name
        if pair not in self._noted:
            self._noted.add(pair)
            self._world.observer.failures.append(violation)


def _id(metadata: RemoteLogSegmentMetadata) -> bytes:
    return bytes(metadata.remote_log_segment_id.id)
