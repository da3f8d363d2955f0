"""Traces made up by a test, of good and of damaged records."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import force_setattr

from tierledger.events.kafka.codec import encode
from tierledger.events.kafka.writer import KafkaValue

TIME_MS = 1_700_000_000_000
RECORDS = "records.jsonl"

T = TypeVar("T", bound=KafkaValue)


def write_trace(
    folder: Path, values: Sequence[KafkaValue | bytes | None], name: str = RECORDS
) -> Path:
    """Write a trace of one metadata partition with `values` at the offsets from 0 on."""
    folder.mkdir(exist_ok=True)
    text = "".join(trace_line(offset, value) for offset, value in enumerate(values))
    data = text.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder


def trace_line(offset: int, value: KafkaValue | bytes | None) -> str:
    stored = value if value is None or isinstance(value, bytes) else encode(value)
    fields = {
        "partition": 0,
        "offset": offset,
        "timestamp_ms": TIME_MS + offset,
        "value_hex": None if stored is None else stored.hex(),
    }
    return json.dumps(fields) + "\n"


def bent(value: T, **wrong: object) -> T:
    """`value` with fields that its constructor would refuse."""
    for field, content in wrong.items():
        force_setattr(value, field, content)
    return value
