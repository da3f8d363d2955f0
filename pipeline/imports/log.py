"""One partition's log while recorded history is imported into it.

Rule 1: the log is the lease, as for any leader. A decision takes effect when its batch has been
created in its slot. A slot with anyone else's batch ends this import of the partition.
Rule 2: an import writes only to an empty log, or in its own session. If another session has
opened since, the log has moved on, and the import writes nothing to it.
Rule 3: the same records make the same batches. So an import that was killed goes on in its own
session when it is repeated, and the log becomes what it would have been.
Rule 4: the same records make the same log, but for its sessions, in any number of runs. So a
record that comes out of order ends the import of the partition.

Only the import sees its view of the partition, so that may be ahead of the durable log. Each
record is decided on by what the one before left. If a write fails, the view is discarded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.errors import MetadataParseError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.kafka.codec import decode
from tierledger.events.partition.decide import Accepted, Limits, Rejected, decide
from tierledger.events.partition.import_view import ImportView
from tierledger.events.partition.imports import AFTER_FINISHED
from tierledger.events.partition.state import PartitionState, Session
from tierledger.storage.partition.event_log import encode_batch
from tierledger.storage.partition.loading import LoadedPartition
from tierledger.storage.partition.reader import PartitionReader

IMPORTER = -1
"""The broker id of an import's sessions: Kafka's id for no broker."""

FINISHED = "imported"
"""The reason with which an import closes its session."""

RECORDS_PER_BATCH = 256
"""As in a leader's batches: they take 1 ms to apply, and 64 KiB to store."""

VALUE_BYTES_PER_BATCH = 4 * 1024 * 1024
"""Bytes of record values per batch; its last record may exceed it. A store takes 64 MiB."""

NAMED_MAX = 20
"""Refused records that are named per partition; all are counted."""

_LIMITS = Limits()
_new = tuple.__new__  # A named tuple's own constructor takes three times as long.

_OF_SESSIONS = (log.SessionOpened, log.SessionClosed, log.SessionDisputed)


class RawRecord(NamedTuple):
    """One record of the metadata topic, not decoded yet."""

    source: int
    """The metadata partition."""
    offset: int
    timestamp_ms: int
    value: bytes


@dataclass(slots=True)
class Tally:
    """Outcome of one partition's records. It is kept after the partition's state is dropped."""

    topic_id_partition: TopicIdPartition
    sources: list[int]
    """Metadata partitions with its records. With more than one it is not imported."""
    trouble: str | None = None
    """Why nothing more is written to the log; none if nothing prevents it."""
    records: int = 0
    repeated: int = 0
    """Records that were in the log already."""
    refused: int = 0
    """Records that cannot be decoded."""
    refused_records: dict[str, str] = field(default_factory=dict)
    """Place of the first refused records, and the reason of each."""
    batches: int = 0
    imported: int = 0
    """Records that are durable events now."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Records without effect, by reason. Kafka's own consumer drops them, too. All are events,
    but for those that follow the partition's deletion."""
    position: int | None = None
    """Position of the log's last event; none if it is not known."""

    def refuse(self, record: RawRecord, reason: str) -> None:
        """Count a record that cannot be decoded."""
        self.refused += 1
        if len(self.refused_records) < NAMED_MAX:
            self.refused_records[place_of(record.source, record.offset)] = reason

    def stored(self, slot: Slot) -> None:
        """Count a batch that is durable now."""
        self.batches += 1
        self.imported += slot.records
        self.dropped.update(slot.dropped)
        self.position = slot.position

    def overtaken(self, key: str) -> None:
        """Stop writing to the log: another writer has created the batch at `key`."""
        self.trouble = f"moved on: {key} was written by another process meanwhile"


class Slot(NamedTuple):
    """One batch of a log, its key, and what to count once it is durable."""

    tally: Tally
    key: str
    value: bytes
    records: int
    dropped: list[str]
    position: int


class ImportingLog:
    """Turns a partition's records, in their order, into batches of its log."""

    def __init__(
        self,
        reader: PartitionReader,
        loaded: LoadedPartition,
        tally: Tally,
        cluster: str,
        holds: Callable[[int], bool],
    ) -> None:
        """Append to a log.

        Args:
            reader: The log's reader.
            loaded: What it has read.
            tally: Takes the outcome.
            cluster: Name of the recorded cluster.
            holds: Whether the log has the record at this offset; asked of those that are not
                above the last one that it has.
        """
        self._holds = holds
        self._reader = reader
        state, self._next_batch = loaded
        self._view, self._chain_hash = ImportView(state), state.chain_hash
        self._tally = tally
        self._cluster = cluster
        self._buffer: list[cmd.ImportedRecord] = []
        self._size = 0
        self._stored = state.imported_offset(cluster, tally.sources[0])
        self._known = self._stored
        tally.trouble = self._why_refused(state)
        if state.next_position:
            tally.position = state.next_position - 1

    def add(self, record: RawRecord) -> Slot | None:
        """Take the next record; return the batch before it if that is complete, else none."""
        tally, offset = self._tally, record.offset
        tally.records += 1
        is_old = offset <= self._stored
        if self._holds(offset) if is_old else offset <= self._known:
            tally.repeated += 1
            return None
        self._known = max(self._known, offset)
        if tally.trouble is not None:
            return None
        try:
            decoded = decode(record.value)
        except MetadataParseError as error:
            tally.refuse(record, str(error))
            return None
        if is_old:
            tally.trouble = (
                f"out of order: {place_of(record.source, record.offset)} is not in the log, "
                f"which has records up to offset {self._stored}"
            )
            return None
        if self._view.is_finished:
            tally.dropped[AFTER_FINISHED] += 1
            return None
        slot = None
        if len(self._buffer) >= RECORDS_PER_BATCH or self._size > VALUE_BYTES_PER_BATCH:
            slot = self._batch(is_last=False)
        of_record = (record.source, record.offset, record.timestamp_ms, decoded)
        self._buffer.append(_new(cmd.ImportedRecord, of_record))
        self._size += len(record.value)
        return slot

    def finish(self) -> Slot | None:
        """The last batch, which closes the session; none if there is nothing to write."""
        session = self._view.session
        if self._tally.trouble is not None:
            return None
        if not self._buffer and (session is None or not session.is_open):
            return None
        return self._batch(is_last=True)

    def _why_refused(self, state: PartitionState) -> str | None:
        session, (source, *_) = state.session, self._tally.sources
        others = {one for of, one in state.imported if of == self._cluster} - {source}
        if others:
            return without_order({source, *others})
        if session is None:
            return None if state.next_position == 0 else "moved on: it has no session"
        if session.broker_id == IMPORTER and session.import_cluster == self._cluster:
            return None
        return f"moved on: session {session.number} has opened, {_whose(session)}"

    def _batch(self, *, is_last: bool) -> Slot | None:
        """Make the log's next batch of the buffered records, and advance the view."""
        records, self._buffer, self._size = tuple(self._buffer), [], 0
        view, events = self._view, list[log.Event]()
        for command, now_ms in self._commands(records, is_last=is_last):
            decision = decide(view, command, now_ms, _LIMITS)
            if isinstance(decision, Rejected):
                self._tally.trouble = f"{type(decision.error).__name__}: {decision.error}"
                return None
            assert isinstance(decision, Accepted), "nobody rivals an import's own session"
            events += decision.events
        encoded = encode_batch(self._reader.serde, events, self._chain_hash)
        self._chain_hash = encoded.chain_hash
        key = self._reader.log.key(self._next_batch)
        self._next_batch += 1
        bodies = [event.body for event in events]
        dropped = [body.reason for body in bodies if type(body) is log.ImportRecordDropped]
        # The others open or close the session.
        made = len(bodies) - sum(type(body) in _OF_SESSIONS for body in bodies)
        dropped += [AFTER_FINISHED] * (len(records) - made)
        position = view.next_position - 1
        return Slot(self._tally, key, encoded.value, made, dropped, position)

    def _commands(
        self, records: tuple[cmd.ImportedRecord, ...], *, is_last: bool
    ) -> list[tuple[cmd.Command, int]]:
        """The commands for a batch, each with its log time (ms)."""
        commands: list[tuple[cmd.Command, int]] = []
        session = self._view.session
        if session is not None and session.is_open:
            claim = session.claim
        else:
            # A first import takes assignment 0, below all that a coordinator assigns. So the
            # coordinator's first assignment is not refused as outdated, and needs no retry.
            assignment = 0 if session is None else session.assignment + 1
            claim = cmd.Claim(IMPORTER, 1, assignment + 1)
            topic = self._tally.topic_id_partition.topic
            opened = cmd.OpenSession(claim, assignment, None, topic, self._cluster)
            commands.append((opened, records[0].timestamp_ms))
        if records:
            commands.append((cmd.ImportRecords(claim, records), records[0].timestamp_ms))
        if is_last:
            commands.append((cmd.CloseSession(claim, FINISHED), self._view.log_time_ms))
        return commands


def _whose(session: Session) -> str:
    if session.import_cluster is None:
        return f"of broker {session.broker_id}"
    whose = f"importing {session.import_cluster!r} for broker {session.broker_id}"
    if session.broker_id != IMPORTER:
        return whose
    return f"{whose}; --recorded-cluster {session.import_cluster} continues that import"


def without_order(sources: Iterable[int]) -> str:
    """Why records of one partition in several metadata partitions are refused.

    Kafka keeps a partition's records in one of them. Between two there is no order.
    """
    held = " and ".join(map(str, sorted(sources)))
    return f"out of order: metadata partitions {held} both hold records of it"


def place_of(source: int | None, offset: int | None) -> str:
    """How errors name a record: by its place in the metadata topic."""
    return f"metadata partition {source}, offset {offset}"
