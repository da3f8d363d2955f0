"""What may go from one partition: no hold is about it, and its time in the trash is over.

Rule: whoever writes the log, its leader or nobody's (`UnledLog`), takes a command as `heeding`
gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tierledger.actors.calls import Purging
from tierledger.actors.holds import Deletions, kept_until_ms, text_of_hold, why_kept
from tierledger.events import commands as cmd
from tierledger.events.errors import RejectedError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import KeptSegment, PartitionState
from tierledger.events.tables.segment_rows import id_of_row

LOOKED_MAX = 2000
"""Kept segments of one look for what is due, 10 ms; the next look begins behind them."""


def heeding(view: Overlay, command: cmd.Command, told: Deletions, now_ms: int) -> cmd.Command:
    """`command` as the holds and terms of this moment allow it.

    Raises:
        RejectedError: It cleans up a partition of which something is held.
    """
    if isinstance(command, cmd.StartPurges):
        return only_due(view, command, told, now_ms)
    if isinstance(command, cmd.EndSegments):
        tip, keep = view.topic_id_partition, command.keep
        if why := why_held(tip, told, now_ms):
            raise RejectedError(f"held: {tip}: {why}")
        if keep is not None:
            longer_ms = kept_until_ms(told.over(tip, now_ms), now_ms)
            keep = keep._replace(until_ms=max(keep.until_ms, longer_ms))
            return command._replace(keep=keep)
    return command


def only_due(
    view: Overlay, command: cmd.StartPurges, told: Deletions, now_ms: int
) -> cmd.StartPurges:
    """`command` with ids of segments that its broker may purge now, maybe with none."""
    found: Iterator[KeptSegment | None]
    if command.segment_ids:
        found = map(view.kept_segment, command.segment_ids)
    else:
        found = (one for _, one in islice(view.kept_after(command.after), LOOKED_MAX))
    tip, broker_id = view.topic_id_partition, command.origin.broker_id
    due = (
        id_of_row(one.row)
        for one in found
        if one is not None
        and (one.is_unreleased if command.released else True)
        and not why_kept(_released(one, command, now_ms), tip, told, broker_id, now_ms)
    )
    most = len(command.segment_ids) or command.choose
    return command._replace(segment_ids=tuple(islice(due, most)))


def _released(one: KeptSegment, command: cmd.StartPurges, now_ms: int) -> KeptSegment:
    """As it is by the release that `command` is, if it is one."""
    return one._replace(until_ms=now_ms) if command.released else one


def why_held(tip: TopicIdPartition, told: Deletions, now_ms: int) -> str:
    """Why nothing of that partition may be cleaned up now; empty: it may.

    Any hold that may be about a part of the partition counts for all of it. A term does not: it
    is about what brokers delete.
    """
    if told.held:
        return told.held
    holds = (one for one in told.over(tip, now_ms) if one.term_ms is None)
    hold = next(holds, None)
    return "" if hold is None else text_of_hold(hold)


def rows_now(state: PartitionState, command: cmd.EndSegments) -> Sequence[bytes]:
    """The segments of `command`, as they are in `state`; without those that have ended."""
    found = (state.rows.get(id_of_row(seen)) for seen in command.rows)
    return [row for row in found if row is not None]


def purging_of(
    state: PartitionState, command: cmd.StartPurges | cmd.EndPurges, now_ms: int
) -> Purging:
    """What the broker of `command`, which is durable, is purging; found by one look."""
    kept, broker_id = state.kept, command.origin.broker_id
    after = command.after if isinstance(command, cmd.StartPurges) else -1
    looked = list(islice(kept.after(after), LOOKED_MAX))
    rows = [
        one.row for _, one in looked if one.purger == broker_id and now_ms < one.lease_until_ms
    ]
    waits = (one.until_ms for _, one in looked if one.purger is None)
    due_ms = min((one for one in waits if one > now_ms), default=None)
    end = looked[-1][0] if len(looked) == LOOKED_MAX else -1
    return Purging(rows, end, due_ms, len(kept) > 0)
