"""One partition's log while recorded history is taken over into it.

Rule 1: the log is the lease, as for any leader. What is decided here counts once all of it is
in its slots; a slot with anything else ends this import of the partition.
Rule 2: the session is the import's own or there is none. A log in which another has opened
since has moved on, and nothing is written to it.
Rule 3: the same records make the same batches. So an import that was killed goes on in its own
session, and in the end the log is what it would have been.

Nobody but the import sees this state, so it runs ahead of what is durable; if that fails, the
state is thrown away with the rest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import MetadataParseError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.kafka.codec import decode
from tierledger.events.partition.decide import Accepted, Limits, Rejected, decide
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import Session
from tierledger.storage.partition.event_log import encode_batch
from tierledger.storage.partition.loading import LoadedPartition
from tierledger.storage.partition.reader import PartitionReader

IMPORTER = -1
"""The broker id of an import's sessions: Kafka's for no broker."""

FINISHED = "imported"
"""Why an import's session closed."""

RECORDS_PER_BATCH = 256
"""As leaders do: 1 ms to apply, 64 KiB to store."""

VALUE_BYTES_PER_BATCH = 4 * 1024 * 1024
"""Of records, up to the one that exceeds it; a store takes 64 MiB."""

NAMED_MAX = 20
"""Records of a partition that are named when they are refused; all are counted."""

_LIMITS = Limits()


class RawRecord(NamedTuple):
    """One record of the metadata topic, not decoded yet."""

    source: int
    """The metadata partition."""
    offset: int
    timestamp_ms: int
    value: bytes


@dataclass(slots=True)
class Tally:
    """What has become of one partition's records; outlives its state."""

    topic_id_partition: TopicIdPartition
    sources: list[int]
    """Metadata partitions that hold it: one, or it is not imported."""
    trouble: str | None = None
    """Why nothing more is written to its log."""
    records: int = 0
    repeated: int = 0
    """Records that the log had already."""
    refused: int = 0
    """Records that cannot be decoded."""
    refused_records: dict[str, str] = field(default_factory=dict)
    """Where the first of them stand, and why."""
    batches: int = 0
    imported: int = 0
    """Records that are events now."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Those of them without effect, by reason: Kafka's own consumer would have dropped them."""
    position: int | None = None
    """The last event's in the log; none if that is not known."""

    def refuse(self, record: RawRecord, reason: str) -> None:
        """Count a record that cannot be decoded."""
        self.refused += 1
        if len(self.refused_records) < NAMED_MAX:
            self.refused_records[place_of(record.source, record.offset)] = reason

    def stored(self, slot: Slot) -> None:
        """Count what is durable now."""
        self.batches += 1
        self.imported += slot.records
        self.dropped.update(slot.dropped)
        self.position = slot.position

    def overtaken(self, key: str) -> None:
        """Somebody else's batch stands under `key`."""
        self.trouble = f"moved on: {key} was written by somebody else meanwhile"


class Slot(NamedTuple):
    """One batch of a log, the key that it has to be created under, and what counts then."""

    tally: Tally
    key: str
    value: bytes
    records: int
    dropped: list[str]
    position: int


class ImportingLog:
    """Takes records in their order, and gives batches."""

    def __init__(
        self, reader: PartitionReader, loaded: LoadedPartition, tally: Tally, cluster: str
    ) -> None:
        """Go on behind `loaded`, which `reader` read; `cluster` is the recorded one's name."""
        self._reader = reader
        self._state, self._next_batch = loaded
        self._tally = tally
        self._cluster = cluster
        self._buffer: list[cmd.ImportedRecord] = []
        self._size = 0
        self._known = self._state.imported_offset(cluster, tally.sources[0])
        tally.trouble = self._why_moved_on()
        if self._state.next_position:
            tally.position = self._state.next_position - 1

    def add(self, record: RawRecord) -> Slot | None:
        """Take the next record; a batch that is complete without it, if there is one."""
        tally = self._tally
        tally.records += 1
        if record.offset <= self._known:
            tally.repeated += 1
            return None
        self._known = record.offset
        if tally.trouble is not None:
            return None
        try:
            decoded = decode(record.value)
        except MetadataParseError as error:
            tally.refuse(record, str(error))
            return None
        slot = None
        if len(self._buffer) >= RECORDS_PER_BATCH or self._size > VALUE_BYTES_PER_BATCH:
            slot = self._batch(is_last=False)
        self._buffer.append(
            cmd.ImportedRecord(record.source, record.offset, record.timestamp_ms, decoded)
        )
        self._size += len(record.value)
        return slot

    def finish(self) -> Slot | None:
        """The last batch, with which the session closes; none if there is nothing to write."""
        session = self._state.session
        if self._tally.trouble is not None:
            return None
        if not self._buffer and (session is None or not session.is_open):
            return None
        return self._batch(is_last=True)

    def _why_moved_on(self) -> str | None:
        session = self._state.session
        if session is None:
            return None if self._state.next_position == 0 else "moved on: it has no session"
        if session.broker_id == IMPORTER and session.import_cluster == self._cluster:
            return None
        return f"moved on: session {session.number} has opened, {_whose(session)}"

    def _batch(self, *, is_last: bool) -> Slot | None:
        """The records that wait, as the log's next batch; the state goes on behind it."""
        records, self._buffer, self._size = tuple(self._buffer), [], 0
        view, events = Overlay(self._state), list[log.Event]()
        for command, now_ms in self._commands(records, is_last=is_last):
            decision = decide(view, command, now_ms, _LIMITS)
            if isinstance(decision, Rejected):
                self._tally.trouble = f"{type(decision.error).__name__}: {decision.error}"
                return None
            assert isinstance(decision, Accepted), "nobody rivals an import's own session"
            events += decision.events
        encoded = encode_batch(self._reader.serde, events, self._state.chain_hash)
        evolve_all(self._state, events, encoded.chain_hash)
        key = self._reader.log.key(self._next_batch)
        self._next_batch += 1
        bodies = (event.body for event in events)
        dropped = [body.reason for body in bodies if isinstance(body, log.ImportRecordDropped)]
        position = self._state.next_position - 1
        return Slot(self._tally, key, encoded.value, len(records), dropped, position)

    def _commands(
        self, records: tuple[cmd.ImportedRecord, ...], *, is_last: bool
    ) -> list[tuple[cmd.Command, int]]:
        """What the records that wait call for, each with its time."""
        commands: list[tuple[cmd.Command, int]] = []
        session = self._state.session
        if session is not None and session.is_open:
            claim = session.claim
        else:
            # Below what a coordinator assigns, the first time, so that it need not try again.
            assignment = 0 if session is None else session.assignment + 1
            claim = cmd.Claim(IMPORTER, 1, assignment + 1)
            topic = self._tally.topic_id_partition.topic
            opened = cmd.OpenSession(claim, assignment, None, topic, self._cluster)
            commands.append((opened, records[0].timestamp_ms))
        if records:
            commands.append((cmd.ImportRecords(claim, records), records[0].timestamp_ms))
        if is_last:
            commands.append((cmd.CloseSession(claim, FINISHED), self._state.log_time_ms))
        return commands


def _whose(session: Session) -> str:
    if session.import_cluster is None:
        return f"of broker {session.broker_id}"
    return f"importing {session.import_cluster!r} for broker {session.broker_id}"


def place_of(source: int | None, offset: int | None) -> str:
    """How a record is named: by where it stands in the metadata topic."""
    return f"metadata partition {source}, offset {offset}"
