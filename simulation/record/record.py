"""All that is needed to judge a run: what callers saw, what the store held, what nodes did."""

from __future__ import annotations

from typing import NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.events.errors import DataError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.partition.decide import Limits
from tierledger.simulation.checkers.all import Minimums, check
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.calls import History
from tierledger.simulation.history.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.simulation.history.observations import Applied, Healed, Led, StateSeen
from tierledger.storage.serde import MsgpackSerDe


class RecordSettings(NamedTuple):
    """What the checkers have to know of a run beside its history and its store.

    Of the store's bytes it is taken for granted that the default serializer made them.
    """

    cluster_id: str
    origin: str = ""
    """What made the record, for people: a command with its seed."""
    custom_metadata_bytes_max: int | None = None
    """The limit that leaders were given, none if unknown."""
    check_every: int = 0
    """Check a state's invariants after so many events, and always at the end."""
    minimums: Minimums | None = None
    """What the run must have seen at least."""


class RecordedLog(NamedTuple):
    """One partition's log as the store held it."""

    topic_id_partition: TopicIdPartition
    batches: list[LoggedBatch]


class RecordedCheckpoint(NamedTuple):
    """A checkpoint that was seen in the store: the last position it covers, and its digest."""

    key: PartitionKey
    position: int
    digest: bytes


class Observations(NamedTuple):
    """What nodes did and knew, as far as somebody wrote it down."""

    states: list[StateSeen]
    applied: list[Applied]
    """Each life's in its order."""
    led: list[Led]
    healed: dict[PartitionKey, Healed]


class Record(NamedTuple):
    """A run, ready to be judged."""

    settings: RecordSettings
    history: History
    logs: list[RecordedLog]
    checkpoints: list[RecordedCheckpoint]
    findings: list[Violation]
    """What the run itself found wrong, which nobody can see afterwards."""
    seen: Observations = Observations([], [], [], {})


class Judgement(NamedTuple):
    """What the checkers say of a record, and the logs as they read them."""

    violations: list[Violation]
    logs: dict[PartitionKey, FinalLog]


def judged(record: Record) -> Judgement:
    """Every checker's word on `record`; a log that does not verify is a violation itself."""
    settings, found = record.settings, list(record.findings)
    logs: dict[PartitionKey, FinalLog] = {}
    for tip, batches in record.logs:
        key = PartitionKey.of(tip)
        try:
            logs[key] = decode_log(MsgpackSerDe(), settings.cluster_id, tip, batches)
        except DataError as error:
            found.append(Violation(type(error).__name__, key, str(error)))
    # Of these it is said already why there is nothing to hold the calls against.
    damaged = {one.key for one in found} - logs.keys()
    checkpoints: dict[PartitionKey, list[tuple[int, bytes]]] = {}
    for key, position, digest in record.checkpoints:
        checkpoints.setdefault(key, []).append((position, digest))
    operations = [op for op in record.history.operations if op.key not in damaged]
    most = settings.custom_metadata_bytes_max
    found += check(
        record.history._replace(operations=operations),
        logs,
        checkpoints=checkpoints,
        states=record.seen.states,
        applied=record.seen.applied,
        led=record.seen.led,
        healed=record.seen.healed,
        limits=None if most is None else Limits(most),
        check_every=settings.check_every,
        minimums=settings.minimums,
    )
    return Judgement(found, logs)
