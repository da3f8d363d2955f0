"""Splits a log file into its record batches, parses their headers, and verifies checksums.

Only the message format that Kafka has written since 0.11 (magic 2) is supported. A batch keeps
the log's own bytes, so that readers get exactly what was stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

import google_crc32c

from tierledger.events.errors import CorruptRemoteData, RejectedError

MAGIC: Final = 2
NO_LEADER_EPOCH: Final = -1
"""The leader epoch of a batch that no leader has stamped."""

_HEADER: Final = Struct(">qiibIhiqqqhii")
_OFFSET_AND_LENGTH: Final = Struct(">qi")
SMALLEST_BATCH: Final = _HEADER.size
"""Bytes of a batch without records."""

_MAGIC_AT: Final = 16
_PRODUCER_EPOCH: Final = Struct(">hi")
_PRODUCER_EPOCH_AT: Final = 51
_BASE_TIMESTAMP: Final = Struct(">q")
_BASE_TIMESTAMP_AT: Final = 27
_INT64_HALF: Final = 1 << 63
_CHECKED_FROM: Final = 21
"""The checksum covers all from the attributes on, but not offset, length and leader epoch."""

_COMPRESSION: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class RecordBatch(NamedTuple):
    """One batch: its bytes, and fields of its header."""

    data: bytes
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    max_timestamp_ms: int
    producer_id: int
    record_count: int
    """Number of records. After compaction it may be lower than the number of offsets."""
    error: CorruptRemoteData | RejectedError | None = None
    """Why nothing of it is known but its place: a reader that goes on was told so."""

    @classmethod
    def passed_over(cls, error: CorruptRemoteData | RejectedError) -> RecordBatch:
        """A batch that cannot be read. Its offsets are not known here."""
        return cls(b"", -1, -1, NO_LEADER_EPOCH, 0, -1, -1, 0, error)

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction's end marker, and no data."""
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def producer_epoch(self) -> int:
        epoch: int = _PRODUCER_EPOCH.unpack_from(self.data, _PRODUCER_EPOCH_AT)[0]
        return epoch

    @property
    def base_sequence(self) -> int:
        """The producer's number of the first record; -1 without a producer."""
        sequence: int = _PRODUCER_EPOCH.unpack_from(self.data, _PRODUCER_EPOCH_AT)[1]
        return sequence

    @property
    def has_log_append_time(self) -> bool:
        """Whether the records' timestamps are the broker's append time."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    def time_of(self, delta_ms: int) -> int:
        """The timestamp of a record from its difference to the header's; it wraps as Java's."""
        base: int = _BASE_TIMESTAMP.unpack_from(self.data, _BASE_TIMESTAMP_AT)[0]
        return (base + delta_ms + _INT64_HALF) % (2 * _INT64_HALF) - _INT64_HALF

    @property
    def compression(self) -> int:
        """The number of the compression codec."""
        return self.attributes & _COMPRESSION


def note_transaction(opened: dict[int, int], batch: RecordBatch) -> None:
    """Bring `opened`, the first offsets of open transactions by producer, behind `batch`."""
    if batch.is_control:
        opened.pop(batch.producer_id, None)
    elif batch.is_transactional:
        opened.setdefault(batch.producer_id, batch.base_offset)


def _has_checksum(data: bytes) -> bool:
    """Whether `data` has a correct checksum of message format 2."""
    if len(data) < _HEADER.size:
        return False
    crc: int = _HEADER.unpack_from(data)[4]
    return int(google_crc32c.value(data[_CHECKED_FROM:])) == crc


class BatchSplitter:
    """Splits pieces of a log file into batches, which may span several pieces."""

    def __init__(
        self, segment: str, position: int, size_in_bytes: int, *, passes_damage: bool = False
    ) -> None:
        """Begin at `position`, which must be the start of a batch.

        Args:
            segment: The segment's name in errors.
            position: Position of the first piece in the file, in bytes.
            size_in_bytes: Size of the whole file; not positive if it is not known.
            passes_damage: Go on behind a damaged batch if its length leads to a sound one, or
                to the file's end.
        """
        self.position = position
        """Position of the next batch in the file."""
        self._segment = segment
        self._size = size_in_bytes
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._passes_damage = passes_damage
        self._passed: RecordBatch | None = None
        """A damaged batch; what follows it has to show that its length is right."""
        self._wanted: int | None = None
        """Size of the batch that begins in `_rest`; none if it is not known yet."""

    def feed(self, piece: bytes) -> Iterator[RecordBatch]:
        """The batches that `piece` completes. Take all of them before the next piece.

        Raises:
            CorruptRemoteData: The bytes are no batch, or its checksum is wrong.
            RejectedError: The batch is in an older format.
        """
        try:
            yield from self._fed(piece)
        except (CorruptRemoteData, RejectedError) as error:
            if self._passed is not None and self._passed.error is not None:
                raise self._passed.error from error
            raise

    def _fed(self, piece: bytes) -> Iterator[RecordBatch]:
        at = 0
        if self._rest:
            begun = self._begun(piece)
            if begun is None:
                return
            data, at = begun
            yield from self._taken(data)
        end = len(piece)
        while (length := self._length_at(piece, at)) is not None and at + length <= end:
            data = piece[at : at + length]
            at += length
            yield from self._taken(data)
        if at < end:
            self._keep(piece[at:])

    def _taken(self, data: bytes) -> Iterator[RecordBatch]:
        try:
            batch = self._parsed(data)
        except (CorruptRemoteData, RejectedError) as error:
            if not self._passes_damage or self._passed is not None:
                raise
            self._passed = RecordBatch.passed_over(error)
            self.position += len(data)
            return
        passed = self.passed()
        if passed is not None:
            yield passed
        yield batch

    def passed(self) -> RecordBatch | None:
        """The damaged batch that came last, once what follows it is sound, or nothing does."""
        passed, self._passed = self._passed, None
        return passed

    def finish(self) -> None:
        """Check that the last piece ended the file.

        Raises:
            CorruptRemoteData: The file ends within a batch, or has not the expected size.
        """
        end = self.position + self._rest_bytes
        if self._rest or 0 < self._size != end:
            size = f"{self._size}" if self._size > 0 else "more"
            raise CorruptRemoteData(
                f"log of {self._segment}: expected {size} bytes, it ends after {end}"
            )

    def _begun(self, piece: bytes) -> tuple[bytes, int] | None:
        """The batch begun in earlier pieces, and where it ends in `piece`; none if later."""
        if self._wanted is None:
            head = b"".join((*self._rest, piece[: _OFFSET_AND_LENGTH.size]))
            self._wanted = self._length_at(head, 0)
        if self._wanted is None or self._wanted > self._rest_bytes + len(piece):
            self._keep(piece)
            return None
        used = self._wanted - self._rest_bytes
        data = b"".join((*self._rest, piece[:used]))
        self._rest, self._rest_bytes, self._wanted = [], 0, None
        return data, used

    def _keep(self, piece: bytes) -> None:
        self._rest.append(piece)
        self._rest_bytes += len(piece)

    def _length_at(self, data: bytes, at: int) -> int | None:
        """Size of the batch at `at`; none if `data` ends before its length field does."""
        if len(data) - at < _OFFSET_AND_LENGTH.size:
            return None
        _, following = _OFFSET_AND_LENGTH.unpack_from(data, at)
        length: int = _OFFSET_AND_LENGTH.size + following
        # Checked here, so that a damaged length does not gather half a segment in memory.
        if length < _CHECKED_FROM or 0 < self._size < self.position + length:
            limit = f"{self._size - self.position}" if self._size > 0 else "more"
            raise self._corrupt(
                f"a batch of {_CHECKED_FROM} to {limit} bytes", f"one of {length} bytes"
            )
        return length

    def _parsed(self, data: bytes) -> RecordBatch:
        magic = data[_MAGIC_AT]
        if magic != MAGIC:
            # The checksum does not cover the format's number (magic). If the checksum of format
            # 2 is right, only the magic is damaged, and the batch is not of an older format.
            if magic < MAGIC and not _has_checksum(data):
                raise RejectedError(
                    f"log of {self._segment} at {self.position}: messages of format {magic} "
                    f"are not read, expected format {MAGIC} (Kafka 0.11 and later)"
                )
            raise self._corrupt(f"message format {MAGIC}", str(magic))
        if len(data) < _HEADER.size:
            raise self._corrupt(f"a header of {_HEADER.size} bytes", f"{len(data)}")
        base, _, epoch, _, crc, attributes, last_delta, _, latest, producer, _, _, count = (
            _HEADER.unpack_from(data)
        )
        actual = google_crc32c.value(data[_CHECKED_FROM:])
        if actual != crc:
            raise self._corrupt(f"checksum {crc:#010x} at offset {base}", f"{actual:#010x}")
        if base < 0 or last_delta < 0 or count < 0:
            raise self._corrupt("offsets of 0 or more", f"{base} and {last_delta} on")
        self.position += len(data)
        return RecordBatch(
            data, base, base + last_delta, epoch, attributes, latest, producer, count
        )

    def _corrupt(self, expected: str, got: str) -> CorruptRemoteData:
        return CorruptRemoteData(
            f"log of {self._segment} at {self.position}: expected {expected}, got {got}"
        )
