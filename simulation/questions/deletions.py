"""What guards, operators and clean-ups might ask at the end of a log, in batches.

Under holds and terms, and with what Kafka says of retention: the segment's newest record is
just too old or not, the tier has just too many bytes or not, a segment ends where the log
starts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from typing_extensions import override

from tierledger.actors import messages as msg
from tierledger.actors.coordinator.purge_requests import COMMAND
from tierledger.actors.explained import CLOCKS_MS, NotKnown, ToldRetention
from tierledger.actors.holds import Deletions, Hold
from tierledger.actors.leader import batch as leader_batch
from tierledger.events import commands as cmd
from tierledger.events.lifecycle import DeletionCause, RemoteLogSegmentState
from tierledger.events.log_events import UNTIL_RELEASED_MS, Event, Origin
from tierledger.events.metadata import RemoteLogSegmentMetadataUpdate
from tierledger.events.partition.evolve import evolve_each
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.all import Asking
from tierledger.simulation.checkers.content import content
from tierledger.simulation.checkers.decisions import Drafted, difference
from tierledger.simulation.checkers.slow.decisions import Facts
from tierledger.simulation.checkers.slow.deletions import SegmentFact
from tierledger.simulation.checkers.slow.model import COPY_FINISHED, DELETE_STARTED
from tierledger.simulation.checkers.violation import ASKED, Violation
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.questions import decisions
from tierledger.simulation.questions.decisions import BROKERS, LIMITS, DrawnCommands

PER_BATCH: Final = (1, 1, 2, 4)
"""Numbers of commands in a batch, to draw from."""

NAMED_BEFORE: Final = 10_000
"""Ids of requests begin behind those of other questions."""


def asking(count: int) -> Asking:
    """A function that asks for `count` further decisions behind a log, then for batches."""
    return partial(_asked_behind, count=count)


def _asked_behind(
    log: FinalLog, facts: Facts, state: PartitionState, count: int
) -> tuple[list[Violation], list[Event]]:
    found, behind = decisions.asking(count)(log, facts, state)
    if found:
        return found, behind
    there = state.copy()
    evolve_each(there, behind)
    drawn = _DrawnDeletions(log, facts, there)
    for _ in range(count):
        given, told = drawn.batch(), drawn.told()
        inbox, position = deque(given), facts.end
        made = leader_batch.draft(Overlay(there), inbox, LIMITS, told, has_claimed=True)
        drafted = Drafted(
            log.key,
            position,
            inbox,
            True,
            given,
            len(inbox),
            made,
            tuple(made.replies),
            leader_batch.EVENTS_PER_BATCH,
            log.topic_id_partition,
            told,
        )
        why = difference(drafted, facts)
        if why is not None:
            asked = content([one.command for one in given])
            message = f"{ASKED}, behind position {position - 1}: for {asked}: {why}"
            return [Violation("misdecided", log.key, message)], []
        evolve_each(there, made.events)
        behind += made.events
    return [], behind


class _DrawnDeletions(DrawnCommands):
    """Draws commands that delete, keep and purge, and what forbids them."""

    def __init__(self, log: FinalLog, facts: Facts, state: PartitionState) -> None:
        """`state` is the present one, as `facts` are."""
        super().__init__(log, facts, ":deletions")
        self._state, self._imports = state, None
        self._named = NAMED_BEFORE
        purges: Sequence[Callable[[], cmd.Command]]
        purges = (*[self._start_purges] * 2, self._end_purges)
        self._batches: Sequence[Sequence[Callable[[], cmd.Command]]] = (
            (*[self._add] * 2, *[self._update] * 2, *[self._guarded] * 4, *purges),
            (*[self._guarded] * 4, self._end_segments),
            (*purges, *purges, self._guarded, self._end_segments, cmd.DropTombstones),
            (*[self._guarded] * 5, *[self._add] * 3, self._delete),
        )

    def batch(self) -> tuple[msg.CommandArrived, ...]:
        """The commands of the next batch."""
        self._kinds = self._pick(self._batches)
        return tuple(map(self._arrived, range(self._pick(PER_BATCH))))

    def told(self) -> Deletions:
        """What a leader knows of holds: mostly a few."""
        pick, now_ms = self._pick, self._facts.time_ms
        holds = [self._hold(number, now_ms) for number in range(pick((0, 0, 1, 2, 3)))]
        held = pick(("",) * 5 + ("nobody owned it",))
        return Deletions(0, held, tuple(sorted(holds, key=lambda one: one.breadth)))

    def _hold(self, number: int, now_ms: int) -> Hold:
        pick, tip = self._pick, self._tip
        ends = [one.added.end_offset for one in self._facts.segments.values()] or [0]
        term_ms = pick((None, 0, 0, 300, 2000))
        return Hold(
            f"hold-{number}",
            topic=pick(("*", tip.topic or "*", "another")),
            partition=pick((None, None, tip.partition, tip.partition + 1)),
            first_offset=pick((None, None, pick(ends) + pick((0, 1)))),
            last_offset=pick((None, None, max(0, pick(ends) - 9))),
            until_ms=pick((None, None, now_ms, now_ms + 1)),
            reason="asked",
            term_ms=term_ms,
            cause=0 if term_ms is None else pick((0, 0, 1, 2)),
        )

    def _arrived(self, number: int) -> msg.CommandArrived:
        """The next command, with what Kafka says of retention if that is asked."""
        command, now_ms = self.command(), self.time_ms()
        retention = None
        if isinstance(command, cmd.UpdateSegment) and command.guarded_for is not None:
            segment_id = bytes(command.update.remote_log_segment_id.id)
            retention = self._retention(self._facts.segments.get(segment_id), now_ms)
        return msg.CommandArrived(number, command, now_ms, retention)

    @override
    def _times(self) -> list[int]:
        now_ms = self._facts.time_ms
        kept = list(self._facts.kept.values())[-4:]
        ends = [end for one in kept for end in (one.until_ms, one.lease_until_ms)]
        ends = [end for end in ends if 0 < end < UNTIL_RELEASED_MS]
        return [now_ms, now_ms + 700, *(end + off for end in ends for off in (-1, 0))]

    def _retention(
        self, segment: SegmentFact | None, now_ms: int
    ) -> ToldRetention | NotKnown | None:
        pick, chance = self._pick, self._random.random()
        if segment is None or chance < 0.1:
            return None
        if chance < 0.2:
            return NotKnown("asked")
        added, held = segment.added, list(self._facts.segments.values())
        tier = sum(one.added.size for one in held if one.state == COPY_FINISHED)
        age_ms = now_ms - added.max_timestamp_ms + CLOCKS_MS
        ends = (added.end_offset, added.end_offset + 1, pick(held).added.end_offset)
        rules: dict[str, int] = pick(
            (
                {"retention_ms": age_ms + pick((0, 1))},
                {"retention_bytes": tier - added.size + pick((0, 0, 1))},
                {"log_start": pick(ends) + 1},
                {"first_epoch": pick((added.epochs[0], added.epochs[-2])) + pick((0, 1))},
                {"log_start": pick(ends) + 1, "first_epoch": added.epochs[-2] + 1},
            )
        )
        return ToldRetention(-1, -1, 0, 0, 0)._replace(
            **{rule: max(0, limit) for rule, limit in rules.items()}
        )

    # Commands.

    def _guarded(self) -> cmd.UpdateSegment:
        """A deletion that begins, mostly of a finished segment and with a guard.

        Where nothing is finished, a copy mostly finishes.
        """
        asked, held = self._update(), self._facts.segments.items()
        finished = [one for one, known in held if known.state == COPY_FINISHED]
        if not finished and held and self._random.random() < 0.8:
            return asked._replace(update=self._moved(self._segment(), COPY_FINISHED))
        segment_id = self._pick(finished) if finished else self._segment()
        update = self._moved(segment_id, DELETE_STARTED)
        causes = (None, *DeletionCause, *DeletionCause)
        return asked._replace(update=update, guarded_for=self._pick(causes))

    def _moved(self, segment_id: bytes, state: int) -> RemoteLogSegmentMetadataUpdate:
        update = self._changed(segment_id)
        return replace(update, state=RemoteLogSegmentState(state), custom_metadata=None)

    def _kept_ids(self) -> tuple[bytes, ...]:
        kept = [*list(self._facts.kept)[-4:], self._new_id()]
        return tuple(self._pick(kept) for _ in range(self._pick((1, 1, 2))))

    def _start_purges(self) -> cmd.StartPurges:
        pick, kept = self._pick, list(self._facts.kept.values())
        origin, lease_ms = Origin(pick((COMMAND, *BROKERS)), None), pick((0, 500, 5000))
        if pick((True, False)):
            ids, is_released = self._kept_ids(), pick((True, False))
            return cmd.StartPurges(origin, ids, lease_ms, released=is_released)
        after = pick((-1, -1, *(one.position for one in kept[:2])))
        return cmd.StartPurges(origin, (), lease_ms, pick((1, 2, 16)), after)

    def _end_purges(self) -> cmd.EndPurges:
        begun = [one for one, of in self._facts.kept.items() if of.purger is not None]
        ids = (self._pick(begun),) if begun and self._pick((True, False)) else self._kept_ids()
        return cmd.EndPurges(Origin(self._pick(BROKERS), None), ids)

    def _end_segments(self) -> cmd.EndSegments:
        """A clean-up of segments as they are, or as one of them was before."""
        pick, now_ms = self._pick, self._facts.time_ms
        rows = [
            row for _ in range(2) if (row := self._state.rows.get(self._segment())) is not None
        ]
        target = pick((2, 2, 3))
        if rows and self._random.random() < 0.1:
            rows[0] = rows[0][:19] + bytes([(rows[0][19] + 1) % 3]) + rows[0][20:]
        keep = cmd.Keep(pick((now_ms, now_ms + 900, UNTIL_RELEASED_MS)), "asked")
        return cmd.EndSegments(
            Origin(COMMAND, None),
            RemoteLogSegmentState(target),
            tuple(rows),
            pick(range(3)),
            pick((None, keep, keep, keep)),
            pick(tuple(DeletionCause)),
        )
