"""Importers: further brokers that lead a partition to import history that Kafka recorded."""

from __future__ import annotations

from hashlib import blake2b
from random import Random

from tierledger.events.commands import ImportedRecord
from tierledger.events.errors import RemoteStorageError
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaRecord, KafkaValue
from tierledger.events.lifecycle import RemoteLogSegmentState as State
from tierledger.events.metadata import RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate
from tierledger.simulation.machines.environment.clockwork import MS
from tierledger.simulation.machines.struck import RECORDED_MS, Struck, StruckBroker

IMPORTER = 90
"""The first importer's broker id; brokers have lower ones."""

METADATA_PARTITION = 7
CHUNK = 3
"""Records that one call imports."""

STEP = 20 * MS
PATIENCE = 1500 * MS
"""How long an importer tries before it gives up, so that brokers lead again."""

STATES = (
    State.COPY_SEGMENT_FINISHED,
    State.DELETE_SEGMENT_STARTED,
    State.DELETE_SEGMENT_FINISHED,
)


def recorded(tip: TopicIdPartition, history: int, count: int) -> list[ImportedRecord]:
    """`count` records of the history with that number; some of them Kafka would drop."""
    random, further = Random(f"{history}:history"), Random(f"{history}:further")
    moves, pace_ms = further.random() < 0.5, further.choice((1, 1, 400))
    ids = [
        RemoteLogSegmentId(
            tip, Uuid(blake2b(b"%d.%d" % (history, at), digest_size=16).digest())
        )
        for at in range(1 + count // 3)
    ]
    states = [-1] * len(ids)
    found = []
    for offset in range(count):
        at = random.randrange(len(ids))
        target = states[at] + 1 if random.random() < 0.85 else random.randrange(4)
        value = _record(ids[at], at, target % 4, offset)
        states[at] = max(states[at], target % 4) if target < 4 else -1
        if moves and further.random() < 0.3:  # Another leader adds it, in its own epochs.
            epochs = further.choice(({1: 10 * at}, {0: 10 * at, 2: 10 * at + 4}))
            value = _started(ids[at], at, offset, epochs)
        time_ms = RECORDED_MS + offset * pace_ms
        found.append(ImportedRecord(METADATA_PARTITION, offset, time_ms, KafkaRecord(value)))
    return found


def _record(segment: RemoteLogSegmentId, at: int, target: int, time_ms: int) -> KafkaValue:
    if target == State.COPY_SEGMENT_STARTED:
        return _started(segment, at, time_ms, {0: 10 * at})
    return RemoteLogSegmentMetadataUpdate(
        remote_log_segment_id=segment,
        event_timestamp_ms=time_ms,
        custom_metadata=None,
        state=STATES[target - 1],
        broker_id=5,
    )


def _started(
    segment: RemoteLogSegmentId, at: int, time_ms: int, epochs: dict[int, int]
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=segment,
        start_offset=10 * at,
        end_offset=10 * at + 9,
        max_timestamp_ms=at,
        broker_id=5,
        event_timestamp_ms=time_ms,
        segment_size_in_bytes=50 + at,
        state=State.COPY_SEGMENT_STARTED,
        segment_leader_epochs=epochs,
        txn_index_empty=at % 2 == 0,
    )


def _moves(value: KafkaValue | None) -> bool:
    """Whether a segment is recorded in other leader epochs than it was at first."""
    return isinstance(value, RemoteLogSegmentMetadata) and (
        list(value.segment_leader_epochs or ()) != [0]
    )


class Importer:
    """Imports one partition's history, as far as it gets to lead, and then stops."""

    def __init__(
        self, world: Struck, number: int, partition: int, history: int, count: int
    ) -> None:
        self.world = world
        self.partition = partition
        self.number = number
        self.cluster = f"recorded-{number}"
        self.records = recorded(world.tips[partition], history, count)
        self._done = 0
        self._until = world.clock.now + PATIENCE
        self._has_stopped = False
        self.broker = self._new_broker()
        self.broker.notify({partition: 0}, [], [], False)
        world.clock.after(STEP, self.broker.life, self._step)

    def _new_broker(self) -> StruckBroker:
        return self.world.start_importing(self.number, self.cluster)

    def stop(self) -> None:
        """Announce that the importer no longer leads, by a new process if its own has ended."""
        if self.broker.life.is_dead:
            self.broker = self._new_broker()
        elif self._has_stopped:
            return
        self._has_stopped = True
        self.broker.notify({}, [], [self.partition], False)

    def _step(self) -> None:
        if self._has_stopped:
            return
        if self._done >= len(self.records) or self.world.clock.now > self._until:
            self.stop()
            return
        # It repeats the last record, as an importer that resumes, and some chunks entirely.
        chunk = tuple(self.records[max(0, self._done - 1) : self._done + CHUNK])
        end = self._done + CHUNK
        for at in range(1 + (self._done // CHUNK) % 2):
            caller = self.broker.caller(self.partition, at, "import")
            if not caller.is_busy:
                self.broker.import_records(
                    self.partition, caller, chunk, lambda error: self._heard(error, end)
                )
        self.world.clock.after(STEP, self.broker.life, self._step)

    def _heard(self, error: RemoteStorageError | None, end: int) -> None:
        if error is None:
            self.world.recording.mark("history imported")
            if any(_moves(one.record.value) for one in self.records[self._done : end]):
                self.world.recording.mark("recorded again in other leader epochs")
            self._done = max(self._done, end)
