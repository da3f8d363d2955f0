"""All that is needed to judge a run: what callers saw, what the store held, what nodes did."""

from __future__ import annotations

from typing import NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.events.errors import DataError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.partition.decide import Limits
from tierledger.simulation.checkers.all import Minimums, check
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.calls import CallHistory
from tierledger.simulation.history.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.simulation.history.observations import Applied, Healed, Led, StateSeen
from tierledger.storage.serde import MsgpackSerDe


class RecordSettings(NamedTuple):
    """What the checkers need to know of a run beside its history and its store.

    The store's values are assumed to be written by the default serializer.
    """

    cluster_id: str
    origin: str = ""
    """The command that made the record, with its seed, for people."""
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
    """What nodes did and knew, as far as it was recorded."""

    states: list[StateSeen]
    applied: list[Applied]
    """Those of each life in its order."""
    led: list[Led]
    healed: dict[PartitionKey, Healed]


class RunRecord(NamedTuple):
    """A run, ready to be judged."""

    settings: RecordSettings
    history: CallHistory
    logs: list[RecordedLog]
    checkpoints: list[RecordedCheckpoint]
    findings: list[Violation]
    """Violations that the run itself found, and that the record cannot show."""
    seen: Observations = Observations([], [], [], {})


class Judgement(NamedTuple):
    """The violations of a record, and its logs as the checkers read them."""

    violations: list[Violation]
    logs: dict[PartitionKey, FinalLog]


def judged(record: RunRecord) -> Judgement:
    """Judge `record` by every checker; a log that does not verify is itself a violation."""
    settings, found = record.settings, list(record.findings)
    logs: dict[PartitionKey, FinalLog] = {}
    for tip, batches in record.logs:
        key = PartitionKey.of(tip)
        try:
            logs[key] = decode_log(MsgpackSerDe(), settings.cluster_id, tip, batches)
        except DataError as error:
            found.append(Violation(type(error).__name__, key, str(error)))
    # Their logs do not verify, which is a violation already; there is nothing to compare with.
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
