"""Reads recorded `__remote_log_metadata` topics from a directory or a file.

A trace is sorted by metadata partition, then offset. A record that is missing, repeated or out
of order is an error here: it would lead to wrong answers of a replay that no check notices.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tierledger.conformance.json_lines import INT32_MAX, INT64_MAX, JsonLine, read_json_lines
from tierledger.events.errors import InvalidArgument

RECORDS_NAMES = ("records.jsonl", "records.jsonl.gz")
ANSWERS_NAMES = ("answers.jsonl", "answers.jsonl.gz")
"""Names of the files in a trace's directory; the first that exists is read."""


class TraceRecord(NamedTuple):
    """One record of the metadata topic; a tombstone has no value."""

    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None


class OffsetGap(NamedTuple):
    """Offsets of one metadata partition that the trace leaves out, both inclusive."""

    partition: int
    first_offset: int
    last_offset: int


def records_path(trace: Path) -> Path:
    """The records file of a trace: `trace` itself, or the one in that directory."""
    return _file_of(trace, RECORDS_NAMES)


def answers_path(trace: Path) -> Path:
    """The file of questions and Kafka's answers: `trace` itself, or the one in it."""
    return _file_of(trace, ANSWERS_NAMES)


def read_records(
    trace: Path,
    *,
    allow_gaps: bool = False,
    on_gap: Callable[[OffsetGap], None] | None = None,
) -> Iterator[TraceRecord]:
    """The records of a trace, in the file's order.

    A trace may begin at any offset of a metadata partition, so that one can continue another.

    Args:
        trace: A trace directory, or a records file, plain or gzipped.
        allow_gaps: Continue if offsets are missing within a metadata partition.
        on_gap: Called with each gap that was allowed.

    Raises:
        InvalidArgument: There is no such file; raised before anything is read.
        MetadataParseError: A line is damaged, repeated, out of order or follows a gap; the
            records before it were yielded.
    """
    return _in_order(records_path(trace), allow_gaps, on_gap)


def _in_order(
    path: Path, allow_gaps: bool, on_gap: Callable[[OffsetGap], None] | None
) -> Iterator[TraceRecord]:
    before: TraceRecord | None = None
    for line in read_json_lines(path):
        record = _record(line)
        gap = _gap(line, before, record)
        if gap and not allow_gaps:
            raise line.error(
                f"expected offset {gap.first_offset} of metadata partition {gap.partition}, "
                f"found {record.offset}: {record.offset - gap.first_offset} missing"
            )
        if gap and on_gap:
            on_gap(gap)
        yield record
        before = record


def _gap(line: JsonLine, before: TraceRecord | None, record: TraceRecord) -> OffsetGap | None:
    if before is None or record.partition > before.partition:
        return None
    if record.partition < before.partition:
        raise line.error(
            f"expected records sorted by metadata partition, found partition "
            f"{record.partition} after {before.partition}"
        )
    where = f"of metadata partition {record.partition}"
    if record.offset == before.offset:
        raise line.error(f"expected every offset once, found {record.offset} {where} again")
    if record.offset < before.offset:
        raise line.error(
            f"expected offsets {where} to rise, found {record.offset} after {before.offset}"
        )
    if record.offset == before.offset + 1:
        return None
    return OffsetGap(record.partition, before.offset + 1, record.offset - 1)


def _record(line: JsonLine) -> TraceRecord:
    return TraceRecord(
        partition=line.integer("partition", low=0, high=INT32_MAX),
        offset=line.integer("offset", low=0, high=INT64_MAX),
        timestamp_ms=line.integer("timestamp_ms", low=-1, high=INT64_MAX),
        value=_value(line),
    )


def _value(line: JsonLine) -> bytes | None:
    found = line.field("value_hex")
    if found is None:
        return None
    if not isinstance(found, str):
        raise line.wrong("value_hex", "null or pairs of hex digits", found)
    try:
        # `bytes.fromhex` would skip blanks, but a blank here is damage.
        return unhexlify(found)
    except ValueError as error:
        raise line.wrong(
            "value_hex", f"null or pairs of hex digits ({error})", found
        ) from error


def _file_of(trace: Path, names: tuple[str, ...]) -> Path:
    try:
        if not trace.exists():
            raise InvalidArgument(f"expected a trace, but {trace} does not exist")
        if not trace.is_dir():
            return trace
        for name in names:
            if (trace / name).exists():
                return trace / name
    except OSError as error:
        raise InvalidArgument(f"cannot read {trace}: {error.strerror}") from error
    raise InvalidArgument(f"expected {' or '.join(names)} in {trace}, found neither")
