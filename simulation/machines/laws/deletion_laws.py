"""Laws of deletion: what is held stays, and what is kept goes when its time is over.

They hold logs against the holds of which an operator was told that they are in force, and
against the tier, whose data nothing gives back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator import events as ev
from tierledger.actors.holds import Hold
from tierledger.events import log_events
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import UNTIL_RELEASED_MS, Event, SegmentAdded
from tierledger.simulation.checkers.answer_text import id_text
from tierledger.simulation.checkers.slow.deletions import is_about, is_over, keepers
from tierledger.simulation.checkers.slow.model import COPY_FINISHED, DELETE_STARTED
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.machines.environment.tier import Erased
from tierledger.simulation.machines.laws.coordination_laws import Coordinated

COMMAND = -1
"""In place of a broker: an operator's command."""


class HoldSeen(NamedTuple):
    """A hold as its operator knows it, and as the coordinator's log has it. Times are ns."""

    hold: Hold
    told: Mapping[PartitionKey, int]
    """Since when the operator knows that it is in force, by partition."""
    let_go: int | None = None
    """When the operator first asked for its release; None: never."""
    placed: int | None = None
    """When it was durable; None: never."""


class PurgeBegun(NamedTuple):
    """A purge that began."""

    durable_at: int
    event: Event
    lease_until_ms: int
    is_unled: bool
    """Whether nobody led the partition: who wrote it had read the coordinator's whole log."""


class Fate:
    """What became of one segment."""

    def __init__(self, added: SegmentAdded, added_at: int) -> None:
        self.added, self.added_at = added, added_at
        self.is_finished = False
        """Whether it ever was."""
        self.began: tuple[int, Event] | None = None
        """The deletion of the finished segment: when (ns) that was durable."""
        self.kept: tuple[int, Event, log_events.SegmentKept] | None = None
        self.purges: list[PurgeBegun] = []
        self.is_purged = False

    @property
    def is_unreleased(self) -> bool:
        """Whether it waits for somebody who releases it."""
        return (
            self.kept is not None
            and self.kept[2].until_ms == UNTIL_RELEASED_MS
            and not self.purges
        )


def fates_of(log: FinalLog, unled: Collection[int] = ()) -> dict[bytes, Fate]:
    """All segments that brokers have added, by id; `unled`: times of batches nobody led."""
    found: dict[bytes, Fate] = {}
    for event, durable_at in zip(log.events, log.durable_at, strict=True):
        body, at = event.body, durable_at or 0
        if isinstance(body, log_events.SegmentAdded):
            found[body.segment_id] = Fate(body, at)
        elif isinstance(body, log_events.SegmentUpdated):
            fate = found[body.segment_id]
            fate.is_finished |= body.state == COPY_FINISHED
            if body.source is None and body.state == DELETE_STARTED and fate.is_finished:
                fate.began = fate.began or (at, event)
        elif isinstance(body, log_events.SegmentKept):
            found[body.segment_id].kept = (at, event, body)
        elif isinstance(body, log_events.SegmentPurgeStarted):
            start = PurgeBegun(at, event, body.lease_until_ms, at in unled)
            found[body.segment_id].purges.append(start)
        elif isinstance(body, log_events.SegmentPurged):
            found[body.segment_id].is_purged = True
    return found


def held_deleted(
    log: FinalLog, fates: Mapping[bytes, Fate], holds: Sequence[HoldSeen]
) -> Iterator[Violation]:
    """A segment's deletion or purge began under a hold that was in force before."""
    tip = log.topic_id_partition
    for segment_id, fate in fates.items():
        if fate.began is not None and fate.kept is None:
            at, event = fate.began
            hold = _certain(tip, fate, holds, at, event.log_time_ms, terms=True)
            if hold is not None:
                yield _held(log, segment_id, "deletion", at, hold)
        for start in fate.purges[:1]:
            at, time_ms = start.durable_at, start.event.log_time_ms
            known = [
                one._replace(told={log.key: one.placed})
                for one in holds
                if one.placed is not None
            ]
            among = known if start.is_unled else holds
            hold = _certain(tip, fate, among, at, time_ms, terms=False)
            if hold is not None:
                yield _held(log, segment_id, "purge", at, hold)


def _held(log: FinalLog, segment_id: bytes, what: str, at: int, seen: HoldSeen) -> Violation:
    message = (
        f"the {what} of segment {id_text(segment_id)} began at {ms_text(at)}, under the hold "
        f"{seen.hold.name}, which was in force at {ms_text(seen.told[log.key])}"
    )
    return Violation("held_deleted", log.key, message)


def _certain(
    tip: TopicIdPartition,
    fate: Fate,
    holds: Sequence[HoldSeen],
    at: int,
    time_ms: int,
    *,
    terms: bool,
) -> HoldSeen | None:
    """A hold that keeps the segment at that time, whichever uncertain ones also do."""
    key = PartitionKey.of(tip)
    about = [one for one in holds if is_about(one.hold, tip, fate.added)]
    certain = [
        one
        for one in about
        if one.told.get(key, at) < at
        and (one.let_go is None or one.let_go > at)
        and not is_over(one.hold, time_ms)
    ]
    plain = [one for one in certain if one.hold.term_ms is None]
    if plain or not terms:
        return next(iter(plain), None)
    if any(one.hold.term_ms is not None and one not in certain for one in about):
        return None  # A narrower term may have been known, or not any more.
    keeping = keepers([one.hold for one in certain], 0)
    return next((one for one in certain if one.hold in keeping and not one.hold.cause), None)


def early_purge(
    log: FinalLog,
    fates: Mapping[bytes, Fate],
    wall_ms: int,
    spread_ms: int,
    released: Mapping[bytes, int],
) -> Iterator[Violation]:
    """A purge began before its time: by the world's clock, or before anybody released it.

    `wall_ms`: the time of day when the world began. `spread_ms`: by so much clocks differ.
    `released`: when (ns) an operator asked to release a segment.
    """
    for segment_id, fate in fates.items():
        if fate.kept is None:
            continue
        until_ms = fate.kept[2].until_ms
        for start in fate.purges[:1]:
            at, where = start.durable_at, f"the purge of segment {id_text(segment_id)} began"
            if until_ms == UNTIL_RELEASED_MS:
                if start.event.broker_id != COMMAND or released.get(segment_id, at) >= at:
                    message = f"{where} at {ms_text(at)}, and nobody had released it"
                    yield Violation("early_purge", log.key, message)
                continue
            early_ms = until_ms - wall_ms - at // 1_000_000
            if early_ms > spread_ms:
                message = f"{where} at {ms_text(at)}, {early_ms} ms before its time"
                yield Violation("early_purge", log.key, message)


def leased_twice(
    log: FinalLog, fates: Mapping[bytes, Fate], lease_ms: int
) -> Iterator[Violation]:
    """A guard was given a segment while another one had it."""
    for segment_id, fate in fates.items():
        last: PurgeBegun | None = None
        for start in fate.purges:
            began_ms = start.lease_until_ms - lease_ms
            if (
                last is not None
                and last.event.broker_id != start.event.broker_id
                and began_ms < last.lease_until_ms
            ):
                message = (
                    f"position {start.event.position}: broker {start.event.broker_id} was "
                    f"given segment {id_text(segment_id)}, which broker "
                    f"{last.event.broker_id} has for {last.lease_until_ms - began_ms} ms more"
                )
                yield Violation("leased_twice", log.key, message)
            last = start


def lost_data(
    key: PartitionKey, fates: Mapping[bytes, Fate], erased: Iterable[Erased]
) -> Iterator[Violation]:
    """The data of a finished segment went, and the log had not let it go."""
    for time, process, _, segment_id, is_purge in erased:
        fate = fates.get(segment_id)
        if fate is None or not fate.is_finished or fate.added_at > time:
            continue  # An id that was forgotten may be given again.
        is_kept = fate.kept is not None
        begun = fate.purges[0].durable_at if fate.purges else None
        if not is_kept and fate.began is not None:
            begun = fate.began[0]
        if begun is None or begun > time:
            what = "is kept" if is_kept else "is finished"
            how = "purged" if is_purge else "deleted"
            message = (
                f"{process} has {how} the data of segment {id_text(segment_id)} at "
                f"{ms_text(time)}; the segment {what}"
            )
            yield Violation("lost_data", key, message)


def unpurged(
    log: FinalLog,
    fates: Mapping[bytes, Fate],
    holds: Iterable[Hold],
    there: Collection[bytes],
    now_ms: int,
) -> Iterator[Violation]:
    """A kept segment is still there though its time is over; or its data, though it is purged.

    `holds`: those that are in force at the end. `there`: the ids of all data in the tier.
    `now_ms`: the time of day by which a guard should have purged what is due.
    """
    tip, in_force = log.topic_id_partition, [one for one in holds if one.term_ms is None]
    for segment_id, fate in fates.items():
        if fate.kept is None:
            continue
        what = f"segment {id_text(segment_id)}"
        if fate.is_purged:
            if segment_id in there:
                message = f"{what} is purged, and its data is there"
                yield Violation("unpurged", log.key, message)
        elif fate.purges or (
            fate.kept[2].until_ms <= now_ms
            and not any(is_about(one, tip, fate.added) for one in in_force)
        ):
            message = f"{what} is due, and no guard has purged it"
            yield Violation("unpurged", log.key, message)


def holds_at_end(events: Iterable[Coordinated], now_ms: int) -> list[Hold]:
    """The holds that are in force after all `events` of the coordinator's log."""
    found: dict[str, Hold] = {}
    for _, body in events:
        if isinstance(body, ev.HoldPlaced):
            found[body.name] = Hold(*body)
        elif isinstance(body, ev.HoldReleased):
            found.pop(body.name, None)
    return [one for one in found.values() if not is_over(one, now_ms)]
