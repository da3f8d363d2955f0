"""Commands that might come at the end of a log, decided by the service's rules and slow ones.

A world leads to few of the cases that a rule distinguishes, and seldom to several in one batch.
So for each state that a world has led to, a batch of new commands is decided: most fit the
state, some just miss it. The events that follow extend the log, and the other checkers ask
about them in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from tierledger.actors import messages as msg
from tierledger.actors.leader.batch import draft
from tierledger.events import commands as cmd
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import KafkaRecord
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.log_events import Event, Origin
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.all import Asking
from tierledger.simulation.checkers.content import content
from tierledger.simulation.checkers.decisions import Drafted, difference
from tierledger.simulation.checkers.slow.decisions import CUSTOM_KEPT_MAX, Facts
from tierledger.simulation.checkers.violation import ASKED, Violation
from tierledger.simulation.history.final_log import FinalLog

LIMITS: Final = Limits(custom_metadata_bytes_max=16, tombstone_retention_ms=1_500)

CUSTOM: Final = tuple(
    None if size < 0 else CustomMetadata(bytes(size)) for size in (-1, -1, 0, 16, 17)
)
CUSTOM_OVER_ALL: Final = CustomMetadata(bytes(CUSTOM_KEPT_MAX + 1))

BROKERS: Final = (0, 1, 2)
"""Brokers that send claims; in worlds some of them do, too."""


def asking(count: int) -> Asking:
    """A function that asks for `count` further decisions behind a log."""
    return partial(_misdecided_behind, count=count)


def _misdecided_behind(
    log: FinalLog, facts: Facts, state: PartitionState, count: int
) -> tuple[list[Violation], list[Event]]:
    """Decide on `count` commands behind the log; returns how the rules differ, or the events.

    `facts` and `state` are of the whole log; the events are applied to `facts` alone.
    """
    asking, overlay = DrawnCommands(log, facts), Overlay(state)
    behind: list[Event] = []
    for number in range(count):
        arrived = msg.CommandArrived(number, asking.command(), asking.time_ms())
        inbox, position, has_claimed = deque([arrived]), facts.end, asking.has_claimed()
        made = draft(overlay, inbox, LIMITS, has_claimed=has_claimed)
        replies, left = tuple(made.replies), len(inbox)
        drafted = Drafted(
            log.key,
            position,
            inbox,
            has_claimed,
            (arrived,),
            left,
            made,
            replies,
            1,
            log.topic_id_partition,
        )
        why = difference(drafted, facts)
        if why is not None:
            message = (
                f"{ASKED}, behind position {position - 1}: for "
                f"{content((arrived.command,))}: {why}"
            )
            return [Violation("misdecided", log.key, message)], []
        behind += made.events
    return [], behind


class DrawnCommands:
    """Draws commands that fit what is known, most of them."""

    def __init__(self, log: FinalLog, facts: Facts, salt: str = "") -> None:
        """`facts`: what is known; they get the limits by which is decided."""
        facts.custom_bytes_max = LIMITS.custom_metadata_bytes_max
        facts.retention_ms = LIMITS.tombstone_retention_ms
        self._facts, self._tip = facts, log.topic_id_partition
        last = log.events[-1].log_time_ms if log.events else 0
        self._random = Random(f"{len(log.events)}:{last}{salt}")
        self._named = 0
        self._imports = "asked" if self._random.random() < 0.3 else None
        write = self._update if self._imports is None else self._import
        self._kinds: Sequence[Callable[[], cmd.Command]] = self._pick(
            (
                (*[self._open] * 8, self._close, self._add),
                (self._open, *[self._add] * 4, *[write] * 8, *[self._delete] * 2, self._close),
                (*[write] * 7, *[cmd.DropTombstones] * 3, *[self._add] * 2, self._add_again),
            )
        )

    def command(self) -> cmd.Command:
        """The next command."""
        facts, chance = self._facts, self._random.random()
        session = facts.session if facts.is_open else None
        is_theirs = session is not None and session.import_cluster == self._imports
        if not is_theirs and chance < 0.7:
            return self._open()
        make: Callable[[], cmd.Command] = self._pick(self._kinds)
        return make()

    def has_claimed(self) -> bool:
        """Whether the leader that gets the command has opened its session already."""
        return self._random.random() < 0.95

    def time_ms(self) -> int:
        """When the command arrives: around the end of a wait, if one is running."""
        return int(self._pick(self._times()))

    def _times(self) -> list[int]:
        facts = self._facts
        times = [facts.time_ms - 1000, facts.time_ms, facts.time_ms + 700]
        if facts.disputes[0]:
            held_ms = min(300_000, 1000 << min(20, facts.disputes[0] - 1))
            times += [facts.disputes[2] + held_ms + off for off in (-1, 0)]
        deletions = [at for _, at in list(facts.deleted.values())[-4:]]
        times += [at + facts.retention_ms + off for at in deletions for off in (0, 1)]
        return times

    def _pick(self, among: Any) -> Any:  # noqa: ANN401
        return among[int(self._random.random() * len(among))]

    # Leaders.

    def _claim(self) -> cmd.Claim:
        """The claim that leads, or seldom another."""
        last = self._facts.session
        if last is None:
            return cmd.Claim(1, 1, 1)
        return cmd.Claim(*last[1:3], last.announcement + self._pick((0, 0, 0, 0, 0, 0, 0, 1)))

    def _open(self) -> cmd.OpenSession:
        last, pick = self._facts.session, self._pick
        number, assignment, epoch = (0, 0, 0) if last is None else (last[0], *last[4:6])
        rivals = BROKERS if last is None else (*BROKERS, last.broker_id)
        broker_id = pick(rivals)
        heard = self._facts.heard.get(broker_id, (1, 0))
        announced = (heard[0], heard[1] + pick((1, 1, 1, 0, -1)))
        around = max(0, (0 if epoch is None else epoch) + pick((-1, 0, 1)))
        verdict = cmd.LeaderVerdict(pick((broker_id, *rivals)), pick((None, around)))
        if last is not None and self._random.random() < 0.6:  # Nobody knows, or not surely.
            ours = None if epoch is not None else around
            known = (around if epoch is None else epoch) + pick((-1, 0, 1))
            named = cmd.LeaderVerdict(pick((broker_id, last.broker_id)), max(0, known))
            return cmd.OpenSession(
                cmd.Claim(broker_id, *announced), assignment + 1, ours, self._tip.topic,
                self._imports, pick((*[cmd.NOBODY_KNOWS] * 4, named)), number,
                pick((0, 999, 1000, 3000)),
            )  # fmt: skip
        return cmd.OpenSession(
            cmd.Claim(broker_id, *announced),
            max(0, assignment + pick((1, 1, 1, 1, 0, -1))),
            pick((None, around, around)),
            self._tip.topic,
            self._imports,
            pick((None, verdict, verdict, cmd.NOBODY_KNOWS, cmd.NOBODY_KNOWS)),
            pick((None, number, number, number, max(0, number - 1))),
            pick((0, 0, 999, 1000, 5000)),
            pick((None, b"asked")),
            self._resigned(),
        )

    def _resigned(self) -> tuple[cmd.Claim, ...]:
        """A claim of the session's broker to follow: from before, with or after its session."""
        last = self._facts.session
        if last is None or self._random.random() < 0.8:
            return ()
        return (cmd.Claim(*last[1:3], last.announcement + self._pick((-1, 0, 1))),)

    def _close(self) -> cmd.CloseSession:
        return cmd.CloseSession(self._claim(), "asked")

    # Segments.

    def _origin(self) -> Origin:
        """The origin of a new request, or of one of its broker's newest requests."""
        claim = self._claim()
        made = self._facts.made.get(claim.broker_id, ())[-3:]
        if made and self._random.random() < 0.1:
            return Origin(claim.broker_id, self._pick(made))
        self._named += 1
        return Origin(claim.broker_id, b"asked %d" % self._named)

    def _segment(self) -> bytes:
        """The id of a segment: most likely one that exists, else a deleted or a new one."""
        facts, chance = self._facts, self._random.random()
        if facts.segments and chance < 0.75:
            return bytes(self._pick(list(facts.segments)[-5:]))
        if facts.deleted and chance < 0.9:
            return bytes(self._pick(list(facts.deleted)[-4:]))
        return self._new_id()

    def _new_id(self) -> bytes:
        return self._random.getrandbits(128).to_bytes(16, "big")

    def _metadata(self, segment_id: bytes) -> RemoteLogSegmentMetadata:
        facts, pick = self._facts, self._pick
        ends = [one.added.end_offset for one in list(facts.segments.values())[-3:]] or [0]
        start = max(0, pick(ends) + pick((1, 1, 0, -9, 10)))
        epoch = 0 if facts.session is None else facts.session.leader_epoch or 0
        epochs = pick(({epoch: start}, {epoch: start}, {epoch: start, epoch + 1: start + 4}))
        return RemoteLogSegmentMetadata(
            remote_log_segment_id=_named(self._tip, segment_id),
            start_offset=start,
            end_offset=start + pick((9, 9, 4)),
            max_timestamp_ms=start,
            broker_id=pick(BROKERS),
            event_timestamp_ms=start,
            segment_size_in_bytes=pick((0, 50, 100)),
            state=pick((*[RemoteLogSegmentState.COPY_SEGMENT_STARTED] * 9,
                RemoteLogSegmentState.COPY_SEGMENT_FINISHED)),
            segment_leader_epochs=epochs,
            custom_metadata=pick(CUSTOM),
            txn_index_empty=pick((True, False)),
        )  # fmt: skip

    def _add(self) -> cmd.AddSegment:
        segment_id = self._new_id() if self._random.random() < 0.7 else self._segment()
        metadata, known = self._metadata(segment_id), self._facts.segments.get(segment_id)
        if known is not None and self._random.random() < 0.5:
            metadata = _same(known.added, self._tip)
        return cmd.AddSegment(self._claim(), self._origin(), metadata)

    def _add_again(self) -> cmd.AddSegment:
        """Add the segment again whose tombstone is the oldest."""
        oldest = [*self._facts.deleted, self._new_id()][0]
        return cmd.AddSegment(self._claim(), self._origin(), self._metadata(oldest))

    def _changed(self, segment_id: bytes) -> RemoteLogSegmentMetadataUpdate:
        known, pick = self._facts.segments.get(segment_id), self._pick
        state = pick(range(4))
        if known is not None and self._random.random() < 0.75:
            state = pick((known.state, known.state + 1, known.state + 1))
        broker_id, time_ms, custom = pick(BROKERS), pick(range(3)), pick(CUSTOM)
        if known is not None and known.state == state and state:
            if pick((True, False)):
                broker_id, time_ms = known.broker_id, known.time_ms
                custom = None if known.custom is None else CustomMetadata(known.custom)
            broker_id = pick((broker_id, broker_id, pick(BROKERS)))
        elif state > 1 and self._random.random() < 0.03:
            custom = CUSTOM_OVER_ALL
        return RemoteLogSegmentMetadataUpdate(
            remote_log_segment_id=_named(self._tip, segment_id),
            event_timestamp_ms=time_ms,
            custom_metadata=custom,
            state=RemoteLogSegmentState(min(state, 3)),
            broker_id=broker_id,
        )

    def _update(self) -> cmd.UpdateSegment:
        return cmd.UpdateSegment(self._claim(), self._origin(), self._changed(self._segment()))

    def _deletion(self) -> RemotePartitionDeleteMetadata:
        known, pick = self._facts.delete, self._pick
        state, broker_id, time_ms = (pick((0, 0, 1)), 1, 1) if known is None else known
        if known is not None and self._random.random() < 0.6:
            state, broker_id = pick((0, state, min(2, state + 1))), pick(BROKERS)
        return RemotePartitionDeleteMetadata(
            topic_id_partition=self._tip,
            state=RemotePartitionDeleteState(state),
            event_timestamp_ms=time_ms,
            broker_id=broker_id,
        )

    def _delete(self) -> cmd.PutPartitionDelete:
        return cmd.PutPartitionDelete(self._claim(), self._origin(), self._deletion())

    def _import(self) -> cmd.ImportRecords:
        """A few records behind those that were imported."""
        session, pick = self._facts.session, self._pick
        cluster = None if session is None else session.import_cluster
        offset = self._facts.imported.get((cluster or "", 7), -1) + pick((0, 1, 1))
        records = []
        for at in range(1 + pick(range(4))):
            chance, segment_id = self._random.random(), self._segment()
            value: Any = self._changed(segment_id)
            if chance < 0.4:
                value = self._metadata(segment_id)
            elif chance < 0.45:
                value = self._deletion()
            time_ms = self._facts.time_ms + pick((0, 10, -5))
            record = cmd.ImportedRecord(7, max(0, offset) + at, time_ms, KafkaRecord(value))
            records.append(record)
        return cmd.ImportRecords(self._claim(), tuple(records))


def _named(tip: TopicIdPartition, segment_id: bytes) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(tip, Uuid(segment_id))


def _same(added: Any, tip: TopicIdPartition) -> RemoteLogSegmentMetadata:  # noqa: ANN401
    """The metadata that `added` was made from."""
    custom = added.custom_metadata
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=_named(tip, added.segment_id),
        start_offset=added.start_offset,
        end_offset=added.end_offset,
        max_timestamp_ms=added.max_timestamp_ms,
        broker_id=added.broker_id,
        event_timestamp_ms=added.event_timestamp_ms,
        segment_size_in_bytes=added.size,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        segment_leader_epochs=dict(zip(added.epochs[::2], added.epochs[1::2], strict=True)),
        custom_metadata=None if custom is None else CustomMetadata(custom),
        txn_index_empty=added.txn_index_empty,
    )
