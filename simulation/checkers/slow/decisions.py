"""The slow counterpart of `decide`: what each command must lead to after a given log.

`SlowPartition` is Kafka's cache; this is the other half of the rules: who may lead, which
requests are repeats, what a broker may do to a segment. It folds events into tables of its
own, copies them for a batch of several commands, and shares no code with `decide`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack

from tierledger.events import commands as cmd
from tierledger.events import log_events
from tierledger.events.log_events import Event, SessionOpened
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition import decide
from tierledger.events.partition import state as partition_state
from tierledger.simulation.checkers.slow.deletions import KeptFact, SegmentFact
from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
    LEGAL,
    LEGAL_DELETES,
    PARTITION_DELETE_FINISHED,
)

CUSTOM_KEPT_MAX = 1 << 20
"""Bytes of custom metadata that a deletion keeps."""

WAIT_FIRST_MS, WAIT_MAX_MS = 1_000, 300_000
"""How long a claim waits after a first dispute, and at most."""


class Refused(Exception):
    """The command changes nothing; the argument is the name of the error."""


class Waits(Exception):
    """The claim waits so many ms, and for the oracle."""


class Unsure(Exception):
    """The request is so old that the rules allow both: to recognise it, or to forget it."""


class Facts:
    """What decisions need to know of a log."""

    def __init__(self, custom_bytes_max: int, retention_ms: int) -> None:
        self.custom_bytes_max = custom_bytes_max
        self.retention_ms = retention_ms
        self.end = 0
        """How many events there are."""
        self.time_ms = 0
        self.session: SessionOpened | None = None
        """The one that opened last."""
        self.is_open = False
        self.heard: dict[int, tuple[int, int]] = {}
        self.disputes = (0, -1, 0)
        """How many in a row, the session that the last one opened, and its log time."""
        self.delete: tuple[int, int, int] | None = None
        self.segments: dict[bytes, SegmentFact] = {}
        self.deleted: dict[bytes, tuple[int, int]] = {}
        """Id to position and log time of its deletion, oldest first."""
        self.kept: dict[bytes, KeptFact] = {}
        """By id, what was kept from deletion."""
        self.imported: dict[tuple[str, int], int] = {}
        self.requests: dict[bytes, int] = {}
        self.made: defaultdict[int, list[bytes]] = defaultdict(list)
        """Broker to its requests, oldest first."""

    def copy(self) -> Facts:
        """An independent copy of these facts."""
        copied = Facts(self.custom_bytes_max, self.retention_ms)
        copied.__dict__.update(self.__dict__)
        copied.heard, copied.imported = dict(self.heard), dict(self.imported)
        copied.segments, copied.deleted = dict(self.segments), dict(self.deleted)
        copied.kept = dict(self.kept)
        copied.requests, copied.made = dict(self.requests), self.made.copy()
        return copied

    @property
    def is_finished(self) -> bool:
        return self.delete is not None and self.delete[0] == PARTITION_DELETE_FINISHED

    def take(self, event: Event) -> None:
        """Fold one event in."""
        position, _, time_ms, broker_id, request_id, body = event
        _TAKEN[type(body)](self, event, body)
        self.end, self.time_ms = position + 1, time_ms
        if request_id is not None and broker_id >= 0:
            if request_id not in self.requests:  # What is kept takes two events.
                self.made[broker_id] = [*self.made[broker_id], request_id]
            self.requests[request_id] = position
        source = getattr(body, "source", None)
        if source is not None:
            session = self.session
            cluster = None if session is None else session.import_cluster
            self.imported[cluster or "", source[0]] = source[1]

    def _opened(self, _: Event, body: log_events.SessionOpened) -> None:
        self.session, self.is_open = body, True
        self.heard[body.broker_id] = (body.incarnation, body.announcement)

    def _closed(self, _: Event, body: log_events.SessionClosed) -> None:
        if self.session is not None and self.session.number == body.number:
            self.is_open = False

    def _disputed(self, event: Event, body: log_events.SessionDisputed) -> None:
        if body.in_a_row:
            self.disputes = (body.in_a_row, event.session, event.log_time_ms)

    def _added(self, _: Event, body: log_events.SegmentAdded) -> None:
        self.deleted.pop(body.segment_id, None)
        self.segments[body.segment_id] = SegmentFact(
            COPY_STARTED, body.broker_id, body.event_timestamp_ms, body.custom_metadata, body
        )

    def _updated(self, event: Event, body: log_events.SegmentUpdated) -> None:
        segment_id = body.segment_id
        if body.state == DELETE_FINISHED:
            self.segments.pop(segment_id, None)
            self.deleted[segment_id] = (event.position, event.log_time_ms)
        elif segment_id in self.segments:
            added = self.segments[segment_id].added
            self.segments[segment_id] = SegmentFact(*body[1:5], added)

    def _kept(self, event: Event, body: log_events.SegmentKept) -> None:
        added = self.segments.pop(body.segment_id).added
        self.kept[body.segment_id] = KeptFact(body.until_ms, added, event.position)

    def _purge_started(self, event: Event, body: log_events.SegmentPurgeStarted) -> None:
        self.kept[body.segment_id] = self.kept[body.segment_id]._replace(
            purger=event.broker_id, lease_until_ms=body.lease_until_ms
        )

    def _purged(self, event: Event, body: log_events.SegmentPurged) -> None:
        del self.kept[body.segment_id]
        if not self.is_finished:
            self.deleted[body.segment_id] = (event.position, event.log_time_ms)

    def _partition_deleted(self, _: Event, body: log_events.PartitionDeleteUpdated) -> None:
        self.delete = body[:3]
        if self.is_finished:
            self.segments, self.deleted = {}, {}

    def _forgotten(self, _: Event, body: log_events.TombstonesDropped) -> None:
        for segment_id in list(self.deleted)[: body.ids]:
            if self.deleted[segment_id][0] < body.until:
                del self.deleted[segment_id]

    def _nothing(self, _: Event, body: log_events.ImportRecordDropped) -> None:
        """Only the record's source matters, and `take` notes it."""


_TAKEN: dict[type[Any], Callable[[Facts, Event, Any], None]] = {
    log_events.SessionOpened: Facts._opened,
    log_events.SessionClosed: Facts._closed,
    log_events.SessionDisputed: Facts._disputed,
    log_events.SegmentAdded: Facts._added,
    log_events.SegmentUpdated: Facts._updated,
    log_events.SegmentKept: Facts._kept,
    log_events.SegmentPurgeStarted: Facts._purge_started,
    log_events.SegmentPurged: Facts._purged,
    log_events.PartitionDeleteUpdated: Facts._partition_deleted,
    log_events.TombstonesDropped: Facts._forgotten,
    log_events.ImportRecordDropped: Facts._nothing,
}


class Led(NamedTuple):
    """A command's events, folded into `facts` already, and the position of its reply."""

    events: list[Event]
    position: int


def decided(  # noqa: C901, PLR0912 - One case each.
    facts: Facts, command: cmd.Command, now_ms: int
) -> Led:
    """Decide on a command as of `now_ms`; `facts` hold what follows from it afterwards.

    Raises:
        Refused: It changes nothing.
        Waits: It is a disputed claim, and the leader oracle has not decided yet.
        Unsure: It repeats a request so old that leaders may have forgotten it.
    """
    made = list[log_events.Event]()

    def append(body: Any, broker_id: int, request_id: bytes | None, at_ms: int) -> None:  # noqa: ANN401
        session = facts.session
        number = 0 if session is None else session.number
        if isinstance(body, log_events.SessionOpened):
            number = body.number
        time_ms = max(facts.time_ms, at_ms)
        made.append(log_events.Event(facts.end, number, time_ms, broker_id, request_id, body))
        facts.take(made[-1])

    match command:
        case cmd.OpenSession():
            opener_id = command.claim.broker_id if command.opener is None else -1
            for one in _sessions(facts, command, now_ms):
                append(one, opener_id, command.opener, now_ms)
        case cmd.CloseSession():
            session = facts.session
            if session is not None and facts.is_open and session[1:4] == command.claim:
                at_ms = now_ms if session.import_cluster is None else facts.time_ms
                closed = log_events.SessionClosed(session.number, command.reason)
                append(closed, session.broker_id, None, at_ms)
        case cmd.DropTombstones():
            old = now_ms - facts.retention_ms
            oldest = list(facts.deleted.values())[: decide.TOMBSTONES_PER_DROP]
            positions = [position for position, time_ms in oldest if time_ms < old]
            if positions:
                dropped = log_events.TombstonesDropped(positions[-1] + 1, len(positions))
                append(dropped, -1, None, now_ms)
        case cmd.StartPurges() | cmd.EndPurges():
            for body in _purges(facts, command, now_ms):
                append(body, *command.origin, now_ms)
        case cmd.EndSegments():
            for body in _ended(facts, command):
                append(body, *command.origin, now_ms)
        case cmd.ImportRecords():
            _needs_session(facts, command.claim)
            cluster = facts.session.import_cluster if facts.session is not None else None
            if cluster is None:
                raise Refused("InvalidArgument")
            for item in command.records:
                known = facts.imported.get((cluster, item.metadata_partition), -1)
                if item.offset > known and not facts.is_finished:
                    body = _imported(facts, item)
                    append(body, command.claim.broker_id, None, item.timestamp_ms)
        case _:
            request = command.origin.request_id
            if request is not None and request in facts.requests:
                later = facts.made[command.origin.broker_id]
                if request not in later[-partition_state.REQUESTS_KEPT :]:
                    raise Unsure
                return Led([], facts.requests[request])
            for body in _written(facts, command):
                append(body, *command.origin, now_ms)
    return Led(made, facts.end - 1)


# Who leads.


def _sessions(facts: Facts, command: cmd.OpenSession, now_ms: int) -> list[Any]:
    """The events that open a session for a claim.

    Claims of an older announcement or assignment are fenced: they only arrive late. Another
    broker's open session is a rival, unless that broker has announced since that it follows.
    Against a rival a claim needs a higher leader epoch. If neither epoch is known the newer
    claim wins. If only one is, the two cannot be compared, and the leader oracle decides.
    If the oracle names nobody the claim wins after a wait, which doubles with each dispute in a
    row: two brokers must not take the session from each other all the time.
    """
    claim, last, ours = command.claim, facts.session, command.leader_epoch
    if claim[1:] < facts.heard.get(claim.broker_id, (0, 0)):
        raise Refused("Fenced")
    if last is not None:
        if command.assignment <= last.assignment:
            raise Refused("Fenced")
        if not facts.is_open and last[1:4] == claim:
            raise Refused("Fenced")
    is_rivalled = last is not None and facts.is_open and last.broker_id != claim.broker_id
    for broker_id, *follows in command.resigned:
        if last is not None and last.broker_id == broker_id and tuple(follows) > last[2:4]:
            is_rivalled = False
    theirs = None if last is None else last.leader_epoch
    epoch, dispute = ours, list[Any]()
    if is_rivalled and last is not None:
        if (ours is None) == (theirs is None):
            if ours is not None and theirs is not None and ours <= theirs:
                _finished(facts)
                raise Refused("Fenced")
        else:
            named = _named(command, last)
            if named is None:
                _wait(facts, command, now_ms)
                run = facts.disputes[0] if facts.disputes[1] == last.number else 0
                rival = (last.broker_id, theirs)
                dispute = [log_events.SessionDisputed(claim[0], ours, *rival, run + 1)]
            elif named.broker_id != claim.broker_id:
                _finished(facts)
                raise Refused("Fenced")
            else:
                epochs = [one for one in (ours, named.leader_epoch) if one is not None]
                epoch = max(epochs) if epochs else None
    _finished(facts)
    number = 1 if last is None else last.number + 1
    opened = log_events.SessionOpened(
        number, *claim, command.assignment, epoch, command.topic, command.import_cluster
    )
    return [opened, *dispute]


def _finished(facts: Facts) -> None:
    if facts.is_finished:
        raise Refused("PartitionDeleted")


def _named(command: cmd.OpenSession, rival: SessionOpened) -> cmd.LeaderVerdict | None:
    """The oracle's verdict; none if it names nobody or is older than a leader epoch here."""
    verdict = command.verdict
    if verdict is None or command.asked_of not in (None, rival.number):
        raise Waits(0)
    if verdict.broker_id < 0:
        return None
    for one in (command.leader_epoch, rival.leader_epoch):
        if one is not None and verdict.leader_epoch is not None and verdict.leader_epoch < one:
            return None
    return verdict


def _wait(facts: Facts, command: cmd.OpenSession, now_ms: int) -> None:
    in_a_row, session, since_ms = facts.disputes
    if facts.session is None or session != facts.session.number:
        return
    wait_ms = WAIT_FIRST_MS
    for _ in range(in_a_row - 1):
        wait_ms = min(2 * wait_ms, WAIT_MAX_MS)
    left_ms = wait_ms - max(command.waited_ms, now_ms - since_ms)
    if left_ms > 0:
        raise Waits(left_ms)


def _needs_session(facts: Facts, claim: cmd.Claim) -> None:
    session = facts.session
    if session is None or not facts.is_open:
        raise Refused("NotLeader")
    if session[1:4] != claim:
        raise Refused("Fenced")


# What brokers write.


def _written(
    facts: Facts, command: cmd.AddSegment | cmd.UpdateSegment | cmd.PutPartitionDelete
) -> list[Any]:
    is_repeated = isinstance(command, cmd.PutPartitionDelete) and facts.delete == (
        int(command.metadata.state),
        command.metadata.broker_id,
        command.metadata.event_timestamp_ms,
    )
    if not is_repeated:
        _finished(facts)
    _needs_session(facts, command.claim)
    match command:
        case cmd.AddSegment():
            return _added(facts, command.metadata)
        case cmd.UpdateSegment():
            return _updated(facts, command)
        case _:
            return [] if is_repeated else [_deletion(facts, command.metadata)]


def _added(facts: Facts, metadata: RemoteLogSegmentMetadata) -> list[Any]:
    body = log_events.added_body(metadata)
    known = facts.segments.get(body.segment_id)
    if metadata.state != COPY_STARTED:
        raise Refused("InvalidArgument")
    if known is not None:
        if known.state == COPY_STARTED and known.added[:10] == body[:10]:
            return []
        raise Refused("InvalidStateTransition")
    if body.segment_id in facts.deleted or body.segment_id in facts.kept:
        raise Refused("InvalidStateTransition")
    if len(body.custom_metadata or b"") > facts.custom_bytes_max:
        raise Refused("CustomMetadataSizeLimitExceeded")
    return [body]


def _updated(facts: Facts, command: cmd.UpdateSegment) -> list[Any]:
    update = command.update
    segment_id, target = bytes(update.remote_log_segment_id.id), int(update.state)
    known = facts.segments.get(segment_id)
    if target == COPY_STARTED:
        raise Refused("InvalidArgument")
    if known is None:
        if target == COPY_FINISHED:
            raise Refused("RemoteResourceNotFound")
        return []
    if (known.state, target) not in LEGAL:
        raise Refused("InvalidStateTransition")
    custom = None if update.custom_metadata is None else update.custom_metadata.value
    size = dropped = len(custom or b"")
    if target == COPY_FINISHED and size > facts.custom_bytes_max:
        raise Refused("CustomMetadataSizeLimitExceeded")
    if target == COPY_FINISHED or size <= CUSTOM_KEPT_MAX:
        dropped = 0
    else:
        custom = None
    asked = (target, update.broker_id, update.event_timestamp_ms, custom)
    if known[:4] == asked:
        return []
    if command.keep is not None and (known.state, target) == (COPY_FINISHED, DELETE_STARTED):
        until_ms, why = command.keep
        cause = 0 if command.guarded_for is None else int(command.guarded_for)
        return [
            log_events.SegmentUpdated(segment_id, *asked[:3], known.custom),
            log_events.SegmentKept(segment_id, until_ms, cause, *asked[1:3], why),
        ]
    return [log_events.SegmentUpdated(segment_id, *asked, dropped)]


def _purges(facts: Facts, command: cmd.StartPurges | cmd.EndPurges, now_ms: int) -> list[Any]:
    """What is kept is purged once its time is over, by one at a time; a repeat is no news."""
    made = list[Any]()
    for one in dict.fromkeys(command.segment_ids):
        if one not in facts.kept:
            continue
        until_ms, _, _, purger, lease_until_ms = facts.kept[one]
        if isinstance(command, cmd.EndPurges):
            if purger is None:
                raise Refused("InvalidStateTransition")
            made.append(log_events.SegmentPurged(one))
        elif now_ms < until_ms and not (
            until_ms == log_events.UNTIL_RELEASED_MS
            and (command.released or purger is not None)
        ):
            raise Refused("InvalidStateTransition")
        elif purger in (None, command.origin.broker_id) or lease_until_ms <= now_ms:
            lease = now_ms + command.lease_ms
            made.append(log_events.SegmentPurgeStarted(one, lease))
    return made


def _ended(facts: Facts, command: cmd.EndSegments) -> list[Any]:
    """What no broker ends goes a step on, if it is as it was seen; a repeat is no news."""
    made = list[Any]()
    for row in dict.fromkeys(command.rows):
        segment_id, seen = row[3:19], msgpack.unpackb(row)
        known = facts.segments.get(segment_id)
        if known is None or known.state == command.target:
            continue
        if known[:4] != (seen[1], *seen[7:10]):
            raise Refused("InvalidStateTransition")
        if (known.state, int(command.target)) not in LEGAL:
            raise Refused("InvalidStateTransition")
        by, at_ms = command.origin.broker_id, command.event_timestamp_ms
        made.append(
            log_events.SegmentUpdated(segment_id, int(command.target), by, at_ms, known.custom)
        )
        if known.state == COPY_FINISHED:
            if command.keep is None:
                raise Refused("InvalidStateTransition")
            until_ms, why = command.keep
            kept = (segment_id, until_ms, int(command.cause), by, at_ms, why)
            made.append(log_events.SegmentKept(*kept))
    return made


def _deletion(facts: Facts, metadata: RemotePartitionDeleteMetadata) -> Any:  # noqa: ANN401
    target = int(metadata.state)
    known = None if facts.delete is None else facts.delete[0]
    if (known, target) not in LEGAL_DELETES:
        raise Refused("InvalidStateTransition")
    return log_events.PartitionDeleteUpdated(
        target, metadata.broker_id, metadata.event_timestamp_ms
    )


# What Kafka has recorded.


def _imported(facts: Facts, item: cmd.ImportedRecord) -> Any:  # noqa: ANN401
    source, value = (item.metadata_partition, item.offset), item.record.value
    tags = item.record.tags.to_plain()

    def dropped(why: str, segment_id: bytes | None = None) -> log_events.ImportRecordDropped:
        return log_events.ImportRecordDropped(source, why, segment_id)

    if isinstance(value, RemotePartitionDeleteMetadata):
        state, time_ms = int(value.state), value.event_timestamp_ms
        return log_events.PartitionDeleteUpdated(state, value.broker_id, time_ms, source, tags)
    if not isinstance(value, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate):
        return dropped("record without a partition")
    segment_id, target = bytes(value.remote_log_segment_id.id), int(value.state)
    known = facts.segments.get(segment_id)
    is_legal = (None if known is None else known.state, target) in LEGAL
    if isinstance(value, RemoteLogSegmentMetadata):
        if target != COPY_STARTED:
            why = "added in another state than COPY_SEGMENT_STARTED"
            return dropped(why, segment_id)
        if not is_legal:
            return dropped("illegal transition", segment_id)
        if segment_id in facts.kept:
            return dropped("kept from deletion", segment_id)
        return log_events.added_body(value)._replace(source=source, tags=tags)
    if known is None:
        return dropped("unknown segment", segment_id)
    if target == COPY_STARTED:
        return dropped("update to COPY_SEGMENT_STARTED", segment_id)
    if not is_legal:
        return dropped("illegal transition", segment_id)
    custom = None if value.custom_metadata is None else value.custom_metadata.value
    return log_events.SegmentUpdated(
        segment_id, target, value.broker_id, value.event_timestamp_ms, custom, 0, source, tags
    )
