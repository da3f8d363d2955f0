"""Logs of single partitions, written by hand or imported from a trace."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tierledger.cli.pages.report.model import PartitionLog
from tierledger.conformance.trace import read_records
from tierledger.events import commands as cmd
from tierledger.events import log_events as log
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.codec import decode
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition.decide import Accepted, Limits, decide
from tierledger.events.partition.evolve import evolve
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState

TRACES = Path(__file__).parents[2] / "traces"
STARTED, FINISHED, DELETING, DELETED = (int(state) for state in RemoteLogSegmentState)


def segment_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def partition(topic: str = "orders", number: int = 0) -> TopicIdPartition:
    return TopicIdPartition(Uuid(bytes(15) + b"\x07"), number, topic)


def opened(
    number: int, broker_id: int, *, cluster: str | None = None, topic: str = "orders"
) -> log.Body:
    return log.SessionOpened(number, broker_id, 1, number, number, number, topic, cluster)


def added(
    number: int, start: int, end: int, epochs: Mapping[int, int] | None = None
) -> log.SegmentAdded:
    pairs = sorted((epochs or {0: start}).items())
    flat = tuple(value for pair in pairs for value in pair)
    return log.SegmentAdded(segment_id(number), start, end, flat, 1000, 5, 1, 5, None, False)


def updated(number: int, state: int) -> log.SegmentUpdated:
    return log.SegmentUpdated(segment_id(number), state, 2, 6, None)


def finished(
    number: int, start: int, end: int, epochs: Mapping[int, int] | None = None
) -> list[log.Body]:
    return [added(number, start, end, epochs), updated(number, FINISHED)]


def history(
    bodies: Sequence[log.Body], tip: TopicIdPartition | None = None, *, step_ms: int = 1000
) -> PartitionLog:
    first = opened(1, 1)
    events = [
        log.Event(at, 1, 1_700_000_000_000 + at * step_ms, 1, None, body)
        for at, body in enumerate([first, *bodies])
    ]
    return PartitionLog(tip or partition(), events)


def folded(given: PartitionLog) -> PartitionState:
    state = PartitionState(given.topic_id_partition, b"")
    for event in given.events:
        evolve(state, event)
    return state


def imported(trace: str) -> list[PartitionLog]:
    states: dict[TopicIdPartition, PartitionState] = {}
    logs: dict[TopicIdPartition, list[log.Event]] = {}
    claim = cmd.Claim(1, 1, 1)

    def apply(tip: TopicIdPartition, command: cmd.Command, now_ms: int) -> None:
        decided = decide(Overlay(states[tip]), command, now_ms, Limits())
        assert isinstance(decided, Accepted)
        for event in decided.events:
            evolve(states[tip], event)
            logs[tip].append(event)

    for record in read_records(TRACES / trace):
        assert record.value is not None
        recorded = decode(record.value)
        tip = topic_id_partition(recorded.value)
        if tip not in states:
            states[tip], logs[tip] = PartitionState(tip, b""), []
            apply(tip, cmd.OpenSession(claim, 1, None, tip.topic, "c"), 0)
        item = cmd.ImportedRecord(
            record.partition, record.offset, record.timestamp_ms, recorded
        )
        apply(tip, cmd.ImportRecords(claim, (item,)), record.timestamp_ms)
    return [PartitionLog(tip, events) for tip, events in logs.items()]


def topic_id_partition(value: object) -> TopicIdPartition:
    found = getattr(value, "topic_id_partition", None)
    if found is None:
        found = value.remote_log_segment_id.topic_id_partition  # type: ignore[attr-defined]
    assert isinstance(found, TopicIdPartition)
    return found
