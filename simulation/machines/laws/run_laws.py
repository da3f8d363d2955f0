"""Laws of a run that are not about calls and their answers.

Checkpoints that were written during the run, and answers of the leader oracle, are compared
with the logs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import LeaderVerdict
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import (
    SegmentUpdated,
    SessionDisputed,
    SessionOpened,
    TombstonesDropped,
)
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.machines.environment.medium import Medium
from tierledger.storage.keys import MetadataKeyFactory
from tierledger.storage.partition.checkpoint import CheckpointStore
from tierledger.storage.serde import MetadataSerDe

_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


class Written(NamedTuple):
    """One checkpoint that was stored."""

    time: int
    """Nanoseconds, as in histories."""
    position: int
    """The last position that it covers."""
    digest: bytes


def checkpoints_written(
    medium: Medium, keys: MetadataKeyFactory, serde: MetadataSerDe, tip: TopicIdPartition
) -> list[Written]:
    """Every checkpoint of a partition, in the store's order."""
    store = CheckpointStore(medium.backend, keys, serde, tip)
    found = []
    for time, stored in medium.checkpoints.get(keys.partition(tip), ()):
        value = store.parse_partition(stored)
        found.append(Written(time * 1000, value.next_position - 1, value.digest))
    return found


def checkpoint_regressed(
    checkpoints: Iterable[Written], key: PartitionKey
) -> Iterator[Violation]:
    """A checkpoint was replaced by one of an earlier position."""
    latest = -1
    for time, position, _ in checkpoints:
        if position < latest:
            message = (
                f"the checkpoint up to position {latest} was replaced by one up to {position} "
                f"at {ms_text(time)}"
            )
            yield Violation("checkpoint_regressed", key, message)
        latest = position


class FollowerSeen(NamedTuple):
    """A follower at some moment."""

    time: int
    """Nanoseconds, as in histories."""
    node_life: str
    site: str
    key: PartitionKey
    position: int
    is_reading: bool
    """Whether it has loaded a state and reads on; a quarantined one does not."""


class Hindrance(NamedTuple):
    """A time in which a fault kept a site from reading the store."""

    site: str
    since: int
    until: int
    """Nanoseconds."""


def late_follower(
    seen: Iterable[FollowerSeen],
    logs: Mapping[PartitionKey, FinalLog],
    hindrances: Sequence[Hindrance],
    patience: int,
) -> Iterator[Violation]:
    """A follower lacks what has been durable for `patience` (ns), and nothing hindered it.

    `seen`: in order of time. Only who has followed for that long is judged, once.
    """
    since: dict[str, int] = {}
    late: set[str] = set()
    for time, life, site, key, position, is_reading in seen:
        from_then = time - patience
        if not is_reading:
            since.pop(life, None)
            continue
        if since.setdefault(life, time) > from_then or key not in logs or life in late:
            continue
        due = logs[key].durable_before(from_then) - 1
        if position >= due or any(
            one.site == site and one.since <= time and one.until >= from_then
            for one in hindrances
        ):
            continue
        late.add(life)
        message = (
            f"{life} is at position {position} at {ms_text(time)}; {due} was durable "
            f"{ms_text(patience)} before, and nothing hindered it since"
        )
        yield Violation("late_follower", key, message)


class CheckpointTold(NamedTuple):
    """A leader was told that the checkpoint which it has given away is stored."""

    time: int
    """Nanoseconds, as in histories."""
    node_life: str
    key: PartitionKey
    position: int
    """The last position that the checkpoint covers."""


def unstored_checkpoint(
    told: Iterable[CheckpointTold], written: Mapping[PartitionKey, Collection[Written]]
) -> Iterator[Violation]:
    """A leader was told that its checkpoint is stored, and it never was.

    It would write the next one only after as many events more, and others load from the former.
    """
    for time, life, key, position in told:
        stored = [one.position for one in written.get(key, ()) if one.time <= time]
        if key in written and position not in stored:
            message = (
                f"{life} was told at {ms_text(time)} that its checkpoint up to position "
                f"{position} is stored; up to then, {stored[-3:]} were the last"
            )
            yield Violation("unstored_checkpoint", key, message)


def early_checkpoint(checkpoints: Iterable[Written], log: FinalLog) -> Iterator[Violation]:
    """A checkpoint covers what was not durable when it was written."""
    for time, position, _ in checkpoints:
        if 0 <= position <= log.end and log.durable_before(time + 1) <= position:
            message = (
                f"a checkpoint up to position {position} was written at {ms_text(time)}, when "
                f"the log ended at {log.durable_before(time + 1) - 1}"
            )
            yield Violation("early_checkpoint", log.key, message)


def unsettled_dispute(
    log: FinalLog, named: Iterable[tuple[int, LeaderVerdict]], resigned: AbstractSet[int]
) -> Iterator[Violation]:
    """A session took over where leader epochs cannot be compared, and nothing allowed that.

    `named`: all answers of the leader oracle, and when it was asked (ns). An answer allows the
    takeover if it names the new broker, was asked for after the former session had opened, and
    has an unknown leader epoch, or one from the former session's to the new one's. Otherwise a
    dispute has to stand in the log. An import needs neither against a broker that has
    `resigned`, which has announced at some time that it follows.
    """
    known = list(named)
    last_at = -1
    last: SessionOpened | None = None
    for at in log.sessions:
        body, former, former_at = log.events[at].body, last, last_at
        assert isinstance(body, SessionOpened), "the log's index says so"
        last, last_at = body, at
        if former is None or former.broker_id == body.broker_id or log.claims[at - 1] is None:
            continue
        if body.import_cluster is not None and former.broker_id in resigned:
            continue
        is_unclear = (body.leader_epoch is None) != (former.leader_epoch is None)
        is_on_record = at < log.end and isinstance(log.events[at + 1].body, SessionDisputed)
        since = -1 if former.leader_epoch is None else former.leader_epoch
        epoch = -1 if body.leader_epoch is None else body.leader_epoch
        is_named = any(
            verdict.broker_id == body.broker_id
            and (verdict.leader_epoch is None or since <= verdict.leader_epoch <= epoch)
            for asked, verdict in known
            if asked >= (log.durable_at[former_at] or 0)
        )
        if is_unclear and not (is_on_record or is_named):
            message = (
                f"position {at}: broker {body.broker_id} in {_epoch_text(body)} took over from "
                f"broker {former.broker_id} in {_epoch_text(former)}, without an answer of the "
                "oracle or of a dispute"
            )
            yield Violation("unsettled_dispute", log.key, message)


def _epoch_text(body: SessionOpened) -> str:
    known = body.leader_epoch
    return "an unknown leader epoch" if known is None else f"leader epoch {known}"


def early_forgetting(log: FinalLog, retention_ms: int) -> Iterator[Violation]:
    """A deleted segment's id was dropped before its retention had passed."""
    deleted: list[tuple[int, int]] = []
    for position, _, time_ms, _, _, body in log.events:
        if isinstance(body, SegmentUpdated) and body.state == _DELETED:
            deleted.append((position, time_ms))
        elif isinstance(body, TombstonesDropped):
            kept_ms = min(
                (time_ms - was for at, was in deleted if at < body.until), default=None
            )
            if kept_ms is not None and kept_ms < retention_ms:
                message = (
                    f"position {position}: an id was remembered for {kept_ms} ms, and not for "
                    f"{retention_ms}"
                )
                yield Violation("early_forgetting", log.key, message)
            deleted = [one for one in deleted if one[0] >= body.until]
