"""A partition's rules and state without a leader; each accepted command is one batch."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from tierledger.events import commands as cmd
from tierledger.events.errors import RemoteStorageError
from tierledger.events.event_codec import chain, decode_events, encode_event, genesis
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.log_events import Event, Origin
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition.decide import (
    Accepted,
    Decision,
    Limits,
    Rejected,
    Undecided,
    decide,
)
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.slow.model import Add, PartitionDelete, Record, Update

TIP = TopicIdPartition(Uuid(bytes(range(16))), 3, "orders")
CLAIM = cmd.Claim(broker_id=1, incarnation=1, announcement=1)
NO_REQUEST = Origin(broker_id=1, request_id=None)
GENESIS = genesis("cluster", TIP.topic_id, TIP.partition)
IMPORTED = "recorded-cluster"


class DrivenPartition:
    """A partition's state, the stored events that led to it, and methods to go on."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.state = PartitionState(TIP, GENESIS)
        self.stored: list[bytes] = []

    def apply(self, command: cmd.Command, now_ms: int = 0) -> Decision:
        """Decide on `command`; if it is accepted, store and apply its events.

        A command that is not accepted must leave the state unchanged.
        """
        before = self.state.digest()
        decision = decide(Overlay(self.state), command, now_ms, self.limits)
        if isinstance(decision, Accepted):
            self.commit(decision.events)
        else:
            assert self.state.digest() == before
        return decision

    def claim(self, command: cmd.OpenSession, now_ms: int = 0) -> Decision:
        """Decide on a claim, with an oracle that never knows, and without real back-offs."""
        decision = self.apply(command, now_ms)
        while isinstance(decision, Undecided):
            waited_ms = command.waited_ms + decision.delay_ms
            command = command._replace(verdict=cmd.NOBODY_KNOWS, waited_ms=waited_ms)
            decision = self.apply(command, now_ms)
        return decision

    def accept(self, command: cmd.Command, now_ms: int = 0) -> Accepted:
        """Apply `command`, which must be accepted; returns the acceptance."""
        decision = self.apply(command, now_ms)
        assert isinstance(decision, Accepted), decision
        return decision

    def refuse(self, command: cmd.Command, now_ms: int = 0) -> RemoteStorageError:
        """Apply `command`, which must be rejected; returns the error."""
        decision = self.apply(command, now_ms)
        assert isinstance(decision, Rejected), decision
        return decision.error

    def commit(self, events: Iterable[Event]) -> None:
        """Store `events` as one batch, decode them, and apply the decoded events."""
        previous, batch = self.state.chain_hash, []
        for event in events:
            batch.append(encode_event(event, previous))
            previous = chain(batch[-1])
        decoded, last = decode_events(batch, self.state.next_position, self.state.chain_hash)
        assert decoded == list(events)
        assert last == previous
        evolve_all(self.state, decoded, last)
        self.stored += batch


def opened(limits: Limits | None = None, *, imports: bool = False) -> DrivenPartition:
    """A partition in which the session of `CLAIM` is open, for an import if `imports`."""
    partition = DrivenPartition(limits)
    partition.accept(open_session(CLAIM, 1, imports=imports))
    return partition


def open_session(
    claim: cmd.Claim, assignment: int, epoch: int | None = None, *, imports: bool = False
) -> cmd.OpenSession:
    cluster = IMPORTED if imports else None
    return cmd.OpenSession(claim, assignment, epoch, TIP.topic, cluster)


def fold(state: PartitionState, stored: Sequence[bytes], batch: int) -> None:
    """Apply the events `stored` to `state`, in batches of `batch` events."""
    for at in range(0, len(stored), batch):
        part = stored[at : at + batch]
        events, last = decode_events(part, state.next_position, state.chain_hash)
        evolve_all(state, events, last)


# Commands, from the records of the slow model or field by field.


def command_of(
    record: Record, claim: cmd.Claim = CLAIM, origin: Origin = NO_REQUEST
) -> cmd.AddSegment | cmd.UpdateSegment | cmd.PutPartitionDelete:
    """The command that a broker sends to the leader to write `record`."""
    match kafka_value(record):
        case RemoteLogSegmentMetadata() as metadata:
            return cmd.AddSegment(claim, origin, metadata)
        case RemoteLogSegmentMetadataUpdate() as update:
            return cmd.UpdateSegment(claim, origin, update)
        case deletion:
            return cmd.PutPartitionDelete(claim, origin, deletion)


def import_of(
    records: Iterable[Record], first_offset: int = 0, claim: cmd.Claim = CLAIM
) -> cmd.ImportRecords:
    """The import of `records`, recorded at the offsets from `first_offset` on."""
    items = [
        cmd.ImportedRecord(7, offset, offset * 10, KafkaRecord(kafka_value(record)))
        for offset, record in zip(count(first_offset), records, strict=False)
    ]
    return cmd.ImportRecords(claim, tuple(items))


def kafka_value(
    record: Record,
) -> RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata:
    """The Kafka value of a record of the slow model."""
    match record:
        case Add():
            return segment(record)
        case Update():
            return RemoteLogSegmentMetadataUpdate(
                RemoteLogSegmentId(TIP, Uuid(record.segment_id)),
                record.event_timestamp_ms,
                RemoteLogSegmentState(record.state),
                record.broker_id,
                _custom(record.custom_metadata),
            )
        case PartitionDelete():
            return RemotePartitionDeleteMetadata(
                TIP,
                RemotePartitionDeleteState(record.state),
                record.event_timestamp_ms,
                record.broker_id,
            )


def segment(added: Add) -> RemoteLogSegmentMetadata:
    epochs: Mapping[int, int] = added.epochs
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(TIP, Uuid(added.segment_id)),
        start_offset=added.start_offset,
        end_offset=added.end_offset,
        max_timestamp_ms=added.max_timestamp_ms,
        broker_id=added.broker_id,
        event_timestamp_ms=added.event_timestamp_ms,
        segment_size_in_bytes=added.size,
        state=RemoteLogSegmentState(added.state),
        segment_leader_epochs=epochs,
        custom_metadata=_custom(added.custom_metadata),
        txn_index_empty=added.txn_index_empty,
    )


def _custom(value: bytes | None) -> CustomMetadata | None:
    return None if value is None else CustomMetadata(value)
