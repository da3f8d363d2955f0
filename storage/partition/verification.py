"""Verifies a partition's log and checkpoint in the store.

Rule: damage is a finding, not an exception; so a run over a thousand partitions reports all.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from tierledger.events.errors import CorruptCheckpoint, DataError, LogClosed, StoreRefused
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import Event
from tierledger.events.partition.state import PartitionState
from tierledger.storage.partition.checkpoint import LOAD_ATTEMPTS, PartitionValue
from tierledger.storage.partition.event_log import StoredBatch, apply_events, decode_batch
from tierledger.storage.partition.reader import PartitionReader
from tierledger.storage.partition.state_comparison import differences

FINDINGS_MAX = 100
"""Most findings kept for one partition; one cause often leads to thousands."""


class FindingKind(StrEnum):
    """Kinds of damage."""

    LOG = "log"
    """A batch or event does not verify (checksum, position or chain), or is missing. The fold
    ends there."""
    TIME = "time"
    """An event is older than the one before it."""
    REPLAY = "replay"
    """An event of a session that had ended before the event."""
    CHECKPOINT = "checkpoint"
    """The checkpoint is not the fold of the log up to its position."""
    HEAD = "head"
    """The key of the next batch exists, but lists do not show it."""


class Finding(NamedTuple):
    """One piece of damage, and its position."""

    kind: FindingKind
    position: int
    message: str


class VerificationReport(NamedTuple):
    """What was verified, and the findings."""

    topic_id_partition: TopicIdPartition
    batches: int
    events: int
    checkpoint_position: int | None
    """Position of the compared checkpoint; None if there was none to compare."""
    findings: tuple[Finding, ...]
    closed: str | None = None
    """Why the log is closed behind its last event; None if it is not."""

    @property
    def passed(self) -> bool:
        return not self.findings


async def verify(reader: PartitionReader) -> VerificationReport:
    """A report of all damage of a partition.

    Raises:
        StoreRefused: The store cannot be read any more, which says nothing about the log.
    """
    verification = _Verification(reader)
    try:
        await verification.run()
    except StoreRefused:
        raise
    except DataError as error:
        verification.find(FindingKind.LOG, str(error))
    return verification.report()


class _Verification:
    """The state of one run."""

    def __init__(self, reader: PartitionReader) -> None:
        self._reader = reader
        self._state: PartitionState | None = None
        self._value: PartitionValue | None = None
        self._value_bytes: bytes | None = None
        self._compared_at: int | None = None
        self._session = 0
        self._batches = 0
        self._events = 0
        self._next_batch = 0
        self._findings: list[Finding] = []
        self._closed: str | None = None

    async def run(self) -> None:
        await self._read_checkpoint()
        self._state, self._next_batch = await self._reader.start()
        self._session = self._state.session.number if self._state.session else 0
        await self._compare_if_due()
        try:
            async for batch in self._reader.log.batches(self._next_batch):
                self._apply(self._state, batch)
                await self._compare_if_due()
        except LogClosed as error:
            self._closed = str(error)
        await self._check_end()

    def find(self, kind: FindingKind, message: str, position: int | None = None) -> None:
        at = position
        if at is None:
            at = 0 if self._state is None else self._state.next_position
        if len(self._findings) < FINDINGS_MAX:
            self._findings.append(Finding(kind, at, message))

    def report(self) -> VerificationReport:
        return VerificationReport(
            self._reader.topic_id_partition,
            self._batches,
            self._events,
            self._compared_at,
            tuple(self._findings),
            self._closed,
        )

    def _apply(self, state: PartitionState, batch: StoredBatch) -> None:
        decoded = decode_batch(self._reader.serde, batch, state.next_position, state.chain_hash)
        for event in decoded.events:
            self._check(state, event)
            apply_events(state, batch.number, (event,), state.chain_hash)
        state.chain_hash = decoded.chain_hash
        self._next_batch = batch.number + 1
        self._batches += 1
        self._events += len(decoded.events)

    def _check(self, state: PartitionState, event: Event) -> None:
        if event.log_time_ms < state.log_time_ms:
            self.find(
                FindingKind.TIME,
                f"log time {event.log_time_ms} after {state.log_time_ms}",
                event.position,
            )
        if event.session < self._session:
            self.find(
                FindingKind.REPLAY,
                f"an event of session {event.session} after session {self._session}",
                event.position,
            )
        self._session = max(self._session, event.session)

    async def _read_checkpoint(self) -> None:
        checkpoints = self._reader.checkpoints
        self._value = None
        self._value_bytes = await checkpoints.read_stored()
        if self._value_bytes is not None:
            try:
                self._value = self._reader.parse_checkpoint(self._value_bytes)
            except DataError as error:
                self.find(FindingKind.CHECKPOINT, str(error))

    async def _compare_if_due(self) -> None:
        """Compare the checkpoint with the state if the fold has reached its position."""
        state = self._state
        for _ in range(LOAD_ATTEMPTS):
            value = self._value
            if state is None or value is None or value.next_position != state.next_position:
                return
            assert self._value_bytes is not None, "a value was parsed from bytes"
            try:
                stored = await self._reader.checkpoints.load(self._value_bytes, value)
            except CorruptCheckpoint as error:
                if await self._reader.checkpoints.read_stored() != self._value_bytes:
                    await self._read_checkpoint()  # A writer replaced it; it is ahead now.
                    continue
                self.find(FindingKind.CHECKPOINT, str(error), value.next_position - 1)
                self._value = None
                return
            self._compare(state, stored, value)
            return

    def _compare(
        self, state: PartitionState, stored: PartitionState, value: PartitionValue
    ) -> None:
        at = value.next_position - 1
        if value.next_batch != self._next_batch:
            self.find(
                FindingKind.CHECKPOINT,
                f"it names batch {value.next_batch} as the next, expected {self._next_batch}",
                at,
            )
        for difference in differences(state, stored):
            self.find(FindingKind.CHECKPOINT, difference, at)
        self._compared_at = at
        self._value = None

    async def _check_end(self) -> None:
        value = self._value
        if value is not None:
            self.find(
                FindingKind.CHECKPOINT,
                f"it is at position {value.next_position - 1}, where no batch ends",
                value.next_position - 1,
            )
        number, log = self._next_batch, self._reader.log
        taken = await self._reader.backend.get(log.key(number)) is not None
        # A writer may have appended since the log was read to its end; a list shows its batch.
        if taken and not await log.read(number, 1):
            self.find(FindingKind.HEAD, f"the slot of batch {number} is taken, but not listed")
