"""Mistakes in the fold and in what leaders decide from it: determinism, repeats, lifecycles."""

from __future__ import annotations

from typing import Any

from tierledger.actors.leader.machine import Leader
from tierledger.events import log_events as log
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition import decide, evolve
from tierledger.events.partition.overlay import Overlay
from tierledger.events.tables.paged_map import PagedMap
from tierledger.simulation.mutants.mistakes import Patches, mistake
from tierledger.simulation.mutants.rewriting import rewritten

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED

REQUESTS_IN_SET = 2
"""How many requests of an origin the mistaken fold keeps: so few that some are forgotten."""


@mistake("M09", "lost_write")
def request_ids_forgotten() -> Patches:
    """A repeated request is decided again."""
    seen = "self._state.seen(broker_id, request_id) if position is None else position"
    return rewritten(Overlay.seen, seen, "None")


@mistake("M61", "duplicate_write")
def repeat_appended_again() -> Patches:
    """A repeated request is decided again, and appended although it holds."""
    holds = "if before == [target, update.broker_id, update.event_timestamp_ms, custom]:"
    return request_ids_forgotten() + rewritten(decide._update, holds, "if False:")


@mistake("M32", "unlike_model", first=0)
def newest_request_ids_forgotten() -> Patches:
    """Of a broker's requests the newest are forgotten, not the oldest."""
    return rewritten(
        evolve.evolve_each, "list(kept)[:-REQUESTS_KEPT]", "list(kept)[REQUESTS_KEPT:]"
    )


@mistake("M14", "checkpoint_is_fold")
def fold_reads_a_clock() -> Patches:
    """A leader stamps what it applies with its host's time."""
    stored = Leader._stored

    def clocked(self: Leader, flight: Any) -> Any:  # noqa: ANN401 - As the original.
        now_ms = flight.commands[0].now_ms
        events = [
            event._replace(body=event.body._replace(event_timestamp_ms=now_ms))
            if isinstance(event.body, log.SegmentUpdated)
            else event
            for event in flight.events
        ]
        return stored(self, flight._replace(events=tuple(events)))

    return [(Leader, "_stored", clocked)]


class _KeptInSet(dict[bytes, int]):
    """Requests of one origin; the order of a set decides which is forgotten first.

    The order of a set of small numbers depends only on how the set came about. So a set that
    was read from a checkpoint has another order than one that grew with the log.
    """

    def __init__(self, kept: dict[bytes, int]) -> None:
        super().__init__(kept)
        self.positions = set(kept.values())

    def shrink(self) -> None:
        self.positions.update(self.values())
        while len(self.positions) > REQUESTS_IN_SET:
            position = next(iter(self.positions))
            self.positions.discard(position)
            for request in [one for one, at in self.items() if at == position]:
                del self[request]


@mistake("M15", "checkpoint_is_fold replay_determinism")
def fold_iterates_a_set() -> Patches:
    """Which requests are forgotten is left to the order of a set."""
    evolve_each: Any = vars(evolve)["evolve_each"]

    def unordered(state: Any, events: Any) -> None:  # noqa: ANN401
        for event in events:
            evolve_each(state, (event,))
            kept = state.requests.get(event.broker_id)
            if event.request_id is None or kept is None:
                continue
            if not isinstance(kept, _KeptInSet):
                kept = state.requests[event.broker_id] = _KeptInSet(kept)
            kept.shrink()

    return [(evolve, "evolve_each", unordered)]


@mistake("M24", "lifecycle")
def log_time_from_the_clock() -> Patches:
    """Log time is what the host's clock says."""
    return rewritten(decide._append, "max(view.log_time_ms, now_ms)", "now_ms")


@mistake("M44", "lifecycle")
def illegal_transition_accepted() -> Patches:
    """A segment goes from any state to any other."""

    def always(_source: object, _target: object) -> bool:
        return True

    return [(decide, "is_valid_segment_transition", always)]


@mistake("M45", "lifecycle", within=200)
def deleted_id_comes_back() -> Patches:
    """A segment that was deleted can be added again."""
    return rewritten(Overlay.is_deleted, "position is not None and", "False and")


@mistake("M21", "early_forgetting")
def tombstones_dropped_early() -> Patches:
    """Ids of deleted segments are forgotten at the next checkpoint."""
    return rewritten(Overlay.expired_tombstones, "< cutoff_ms", "< self.log_time_ms")


@mistake("M42", "wrong_refusal")
def custom_limit_excludes_equal() -> Patches:
    """Custom metadata as long as the limit is refused."""
    return rewritten(decide._within_limit, "size > limits", "size >= limits")


@mistake("M43", "lifecycle")
def custom_limit_not_enforced() -> Patches:
    """Custom metadata of any length is taken."""
    return rewritten(decide._within_limit, "size = len(custom)", "return custom, 0")


@mistake("M78", "wrong_table")
def passed_pages_returned() -> Patches:
    """Entries of pages that were to be passed over are returned all the same."""
    return rewritten(PagedMap.items_from, "continue", "pass")
