"""A record as a file of JSON Lines, to be judged again; an incomplete file is refused.

First come the settings, then the store's content and what nodes did, then the calls and notes
of `history`, by time. The last line tells how many lines precede it: if any were missing, the
rest would look like an anomaly.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tierledger.actors.calls import PartitionKey
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.simulation.checkers.all import Minimums
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.calls import (
    SHOWN_CHARACTERS_MAX,
    WRONG_LINE,
    CallHistory,
    NodeNote,
    Operation,
    history_lines,
    key_of,
    key_text,
    line_of,
    parsed,
    take_line,
    typed,
)
from tierledger.simulation.history.final_log import LoggedBatch
from tierledger.simulation.history.observations import Applied, Healed, Led, StateSeen
from tierledger.simulation.record.record import (
    Observations,
    RecordedCheckpoint,
    RecordedLog,
    RecordSettings,
    RunRecord,
)

VERSION = 2
"""The version of the format. The seeds that records of version 1 name are other runs now."""


# To a file.


def record_as_lines(record: RunRecord) -> Iterator[bytes]:
    """The lines of a file that `read_record` reads back."""
    lines = 0
    for fields in _lines(record):
        yield line_of(fields)
        lines += 1
    yield line_of({"type": "end", "lines": lines})


def _lines(record: RunRecord) -> Iterator[dict[str, object]]:
    yield _settings_line(record.settings)
    for tip, batches in record.logs:
        part = key_text(PartitionKey.of(tip))
        yield {"type": "partition", "part": part, "topic": tip.topic}
        for number, value, durable_at in batches:
            text = base64.b64encode(value).decode("ascii")
            fields = {"type": "log", "part": part, "batch": number, "value": text}
            yield fields | {"durable_at": durable_at}
    for key, position, digest in record.checkpoints:
        fields = {"type": "checkpoint", "part": key_text(key), "position": position}
        yield fields | {"digest": digest.hex()}
    for one in record.findings:
        fields = {"type": "finding", "checker": one.checker, "message": one.message}
        fields["part"] = None if one.key is None else key_text(one.key)
        yield fields | {"ops": list(one.operations)}
    yield from _observation_lines(record.seen)
    yield from history_lines(record.history)


def _observation_lines(seen: Observations) -> Iterator[dict[str, object]]:
    for state in seen.states:
        fields = {"type": "state", "t": state.time, "node": state.node, "role": state.role}
        fields |= {"part": key_text(state.key), "position": state.position}
        yield fields | {"digest": state.digest.hex()}
    for one in seen.applied:
        fields = {"type": "applied", "t": one.time, "node": one.node_life}
        fields |= {"part": key_text(one.key), "first": one.first_position}
        yield fields | {"last": one.last_position, "hash": one.chain_hash.hex()}
    for led in seen.led:
        fields = {"type": "led", "t": led.time, "node": led.node_life}
        fields |= {"part": key_text(led.key), "session": led.session}
        yield fields | {"position": led.position}
    for key, well in seen.healed.items():
        fields = {"type": "healed", "part": key_text(key), "since": well.since}
        yield fields | {"until": well.until, "broker": well.broker_id}


def _settings_line(settings: RecordSettings) -> dict[str, object]:
    minimums = settings.minimums
    fields: dict[str, object] = {"type": "settings", "version": VERSION}
    fields |= {"cluster": settings.cluster_id, "origin": settings.origin}
    fields["custom_metadata_bytes_max"] = settings.custom_metadata_bytes_max
    fields["check_every"] = settings.check_every
    if minimums is not None:
        notes = sorted(minimums.fault_notes)
        fields["minimums"] = {**minimums._asdict(), "fault_notes": notes}
    return fields


# From a file.


def read_record(path: Path) -> RunRecord:
    """The record in a file; a call whose end is missing has the outcome `INFO`.

    Raises:
        InvalidArgument: The file cannot be read, is no record, is incomplete, or has a wrong
            line; names the file, the line and the value.
    """
    reading = _Reading()
    number = 0
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                try:
                    reading.take(json.loads(text))
                except WRONG_LINE as error:
                    raise _wrong_line(path, number, text, error) from error
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror or error}") from error
    if not reading.is_complete:
        raise InvalidArgument(
            f"{path}, line {number}: the record is cut off there, a line of type end is missing"
        )
    return reading.record()


def _wrong_line(path: Path, number: int, text: bytes, error: Exception) -> InvalidArgument:
    where = f"{path}, line {number}"
    shown = text.strip()[:SHOWN_CHARACTERS_MAX].decode(errors="replace")
    if not text.endswith(b"\n") and number > 1 and isinstance(error, ValueError):
        return InvalidArgument(f"{where}: the record is cut off within {shown}")
    reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
    return InvalidArgument(f"{where}: expected a line of a record, found {shown} ({reason})")


class _Reading:
    """A record that is read line by line."""

    def __init__(self) -> None:
        self.is_complete = False
        self._lines = 0
        self._settings: RecordSettings | None = None
        self._logs: dict[PartitionKey, RecordedLog] = {}
        self._checkpoints: list[RecordedCheckpoint] = []
        self._findings: list[Violation] = []
        self._seen = Observations([], [], [], {})
        self._operations: dict[int, Operation] = {}
        self._notes: list[NodeNote] = []

    def record(self) -> RunRecord:
        assert self._settings is not None, "it is complete"
        operations = [self._operations[one] for one in sorted(self._operations)]
        return RunRecord(
            self._settings,
            CallHistory(operations, self._notes),
            list(self._logs.values()),
            self._checkpoints,
            self._findings,
            self._seen,
        )

    def take(self, line: object) -> None:
        if not isinstance(line, dict):
            raise InvalidArgument(f"expected an object, found {line!r:.80}")
        kind = line.get("type")
        if self.is_complete:
            raise InvalidArgument(f"expected nothing behind the end, found type {kind!r:.80}")
        if (self._settings is None) != (kind == "settings"):
            raise InvalidArgument(
                f"expected settings in the first line and only there, found type {kind!r:.80}; "
                f"calls alone, without what the store held, cannot be judged"
            )
        match kind:
            case "settings":
                self._settings = _settings(line)
            case "partition":
                self._take_partition(line)
            case "log":
                self._log_of(line).batches.append(_batch(line))
            case "checkpoint":
                digest = parsed("digest", line["digest"], bytes.fromhex)
                position = typed(int, line, "position")
                self._checkpoints.append(RecordedCheckpoint(_key(line), position, digest))
            case "finding":
                self._findings.append(_finding(line))
            case "state" | "applied" | "led" | "healed":
                _take_observation(line, self._seen)
            case "end":
                self._take_end(line)
            case _:
                take_line(line, self._operations, self._notes)
        self._lines += 1

    def _take_partition(self, line: dict[str, Any]) -> None:
        key = _key(line)
        if key in self._logs:
            raise InvalidArgument(f"partition {line['part']} is in the record already")
        tip = TopicIdPartition(Uuid(key.topic_id), key.partition, typed(str, line, "topic"))
        self._logs[key] = RecordedLog(tip, [])

    def _log_of(self, line: dict[str, Any]) -> RecordedLog:
        log = self._logs.get(_key(line))
        if log is None:
            raise InvalidArgument(f"expected partition {line['part']} before its log")
        return log

    def _take_end(self, line: dict[str, Any]) -> None:
        lines = typed(int, line, "lines")
        if lines != self._lines:
            raise InvalidArgument(f"expected {lines} lines before the end, found {self._lines}")
        self.is_complete = True


def _key(line: dict[str, Any]) -> PartitionKey:
    return parsed("part", line["part"], key_of)


def _settings(line: dict[str, Any]) -> RecordSettings:
    version = typed(int, line, "version")
    if version != VERSION:
        again = "; the seed that it names is another run now" if version < VERSION else ""
        raise InvalidArgument(
            f"expected version {VERSION} of the format, found {version}{again}"
        )
    minimums = line.get("minimums")
    return RecordSettings(
        typed(str, line, "cluster"),
        typed(str, line, "origin"),
        _number_or_none(line, "custom_metadata_bytes_max"),
        typed(int, line, "check_every"),
        None if minimums is None else _minimums(minimums),
    )


def _minimums(fields: dict[str, Any]) -> Minimums:
    if not isinstance(fields, dict):
        raise InvalidArgument(f"expected 'minimums' to be an object, found {fields!r:.80}")
    expected = Minimums._fields
    if set(fields) != set(expected):
        raise InvalidArgument(f"expected minimums of {expected}, found {sorted(fields)}")
    notes = fields["fault_notes"]
    if not isinstance(notes, list) or not all(isinstance(one, str) for one in notes):
        raise InvalidArgument(f"expected 'fault_notes' to be texts, found {notes!r:.80}")
    numbers = {name: typed(int, fields, name) for name in expected if name != "fault_notes"}
    return Minimums(**numbers, fault_notes=frozenset(notes))


def _batch(line: dict[str, Any]) -> LoggedBatch:
    value = parsed("value", line["value"], lambda text: base64.b64decode(text, validate=True))
    return LoggedBatch(typed(int, line, "batch"), value, _number_or_none(line, "durable_at"))


def _number_or_none(line: dict[str, Any], name: str) -> int | None:
    number: int | None = None if line[name] is None else typed(int, line, name)
    return number


def _finding(line: dict[str, Any]) -> Violation:
    key = None if line["part"] is None else _key(line)
    operations = line["ops"]
    if not isinstance(operations, list) or not all(type(one) is int for one in operations):
        raise InvalidArgument(f"expected 'ops' to be numbers, found {operations!r:.80}")
    checker, message = typed(str, line, "checker"), typed(str, line, "message")
    return Violation(checker, key, message, tuple(operations))


def _take_observation(line: dict[str, Any], seen: Observations) -> None:
    key = _key(line)
    if line["type"] == "healed":
        times = typed(int, line, "since"), typed(int, line, "until")
        seen.healed[key] = Healed(*times, typed(int, line, "broker"))
        return
    time, node = typed(int, line, "t"), typed(str, line, "node")
    match line["type"]:
        case "state":
            digest = parsed("digest", line["digest"], bytes.fromhex)
            role, position = typed(str, line, "role"), typed(int, line, "position")
            seen.states.append(StateSeen(time, node, role, key, position, digest))
        case "applied":
            chain_hash = parsed("hash", line["hash"], bytes.fromhex)
            first, last = typed(int, line, "first"), typed(int, line, "last")
            seen.applied.append(Applied(time, node, key, first, last, chain_hash))
        case _:
            session, position = typed(int, line, "session"), typed(int, line, "position")
            seen.led.append(Led(time, node, key, session, position))
