"""Decodes the records of batches by aiokafka's parser, with all of Kafka's codecs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

# Imported from this module, which has the C version if there is one, not `aiokafka.record`.
from aiokafka.record.default_records import DefaultRecordBatch  # type: ignore[import-untyped]

from tierledger.events.errors import CorruptRemoteData, RejectedError
from tierledger.tiering.formats.record_batches import RecordBatch

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"


class Record(NamedTuple):
    """One record as a consumer gets it."""

    offset: int
    timestamp_ms: int
    timestamp_type: str
    """Kafka's name: CreateTime or LogAppendTime."""
    leader_epoch: int
    key: bytes | None
    value: bytes | None
    """None for a tombstone."""
    headers: Sequence[tuple[str, bytes | None]]
    """In the record's order; names may repeat."""


def decoded(batch: RecordBatch, segment: str) -> list[Record]:
    """The records of `batch`, whose checksum was verified; `segment` is for errors.

    Raises:
        CorruptRemoteData: The records cannot be decoded.
        RejectedError: The compression codec is not supported.
    """
    if batch.compression >= len(CODECS):
        raise RejectedError(
            f"log of {segment}, offset {batch.base_offset}: expected a codec of "
            f"{', '.join(CODECS)}, got number {batch.compression}"
        )
    epoch = batch.leader_epoch
    kind = LOG_APPEND_TIME if batch.has_log_append_time else CREATE_TIME
    try:
        found = [
            Record(one.offset, one.timestamp, kind, epoch, one.key, one.value, one.headers)
            for one in DefaultRecordBatch(batch.data)
        ]
    except Exception as error:
        raise CorruptRemoteData(
            f"log of {segment}: the records from offset {batch.base_offset} on "
            f"({CODECS[batch.compression]}) cannot be decoded: {error}"
        ) from error
    if len(found) != batch.record_count:
        raise CorruptRemoteData(
            f"log of {segment}: expected {batch.record_count} records from offset "
            f"{batch.base_offset} on, got {len(found)}"
        )
    return found
