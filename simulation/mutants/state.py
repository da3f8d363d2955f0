"""Mistakes in the fold and in what leaders decide from it: determinism, repeats, lifecycles."""

from __future__ import annotations

from typing import Any

from tierledger.actors.leader.machine import Leader
from tierledger.events import log_events as log
from tierledger.events.errors import CustomMetadataSizeLimitExceeded
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition import decide, evolve
from tierledger.events.partition.overlay import Overlay
from tierledger.events.tables.paged_map import PagedMap
from tierledger.simulation.mutants.rewriting import rewritten

_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED

REQUESTS_IN_SET = 2
"""Requests of an origin that a mistaken fold keeps: few enough that some are forgotten."""


def request_ids_forgotten() -> list[tuple[Any, str, Any]]:
    def never(_self: Overlay, *_: object) -> None:
        return None

    return [(Overlay, "seen", never)]


def repeat_appended_again() -> list[tuple[Any, str, Any]]:
    holds = "if now == [target, update.broker_id, update.event_timestamp_ms, custom]:"
    return request_ids_forgotten() + rewritten(decide._update, holds, "if False:")


def newest_request_ids_forgotten() -> list[tuple[Any, str, Any]]:
    return rewritten(
        evolve._evolve_each, "list(kept)[:-REQUESTS_KEPT]", "list(kept)[REQUESTS_KEPT:]"
    )


def fold_reads_a_clock() -> list[tuple[Any, str, Any]]:
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
    """Requests of one origin; which goes first is left to the order of a set.

    That of small numbers depends on how the set came about, and on nothing else: what was read
    back from a checkpoint has another one than what grew with the log.
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


def fold_iterates_a_set() -> list[tuple[Any, str, Any]]:
    evolve_each: Any = vars(evolve)["_evolve_each"]

    def unordered(state: Any, events: Any) -> None:  # noqa: ANN401
        for event in events:
            evolve_each(state, (event,))
            kept = state.requests.get(event.broker_id)
            if event.request_id is None or kept is None:
                continue
            if not isinstance(kept, _KeptInSet):
                kept = state.requests[event.broker_id] = _KeptInSet(kept)
            kept.shrink()

    return [(evolve, "_evolve_each", unordered)]


def log_time_from_the_clock() -> list[tuple[Any, str, Any]]:
    append: Any = vars(decide)["_append"]

    def clocked(view: Any, bodies: Any, now_ms: int, origin: Any) -> Any:  # noqa: ANN401
        view.log_time_ms = min(view.log_time_ms, now_ms)
        return append(view, bodies, now_ms, origin)

    return [(decide, "_append", clocked)]


def illegal_transition_accepted() -> list[tuple[Any, str, Any]]:
    def always(_source: object, _target: object) -> bool:
        return True

    return [(decide, "is_valid_segment_transition", always)]


def deleted_id_comes_back() -> list[tuple[Any, str, Any]]:
    def never(_self: Overlay, _segment_id: bytes) -> bool:
        return False

    return [(Overlay, "is_deleted", never)]


def tombstones_dropped_early() -> list[tuple[Any, str, Any]]:
    expired = Overlay.expired_tombstones

    def impatient(self: Overlay, _cutoff_ms: int, limit: int) -> list[int]:
        return expired(self, self.log_time_ms, limit)

    return [(Overlay, "expired_tombstones", impatient)]


def custom_limit_excludes_equal() -> list[tuple[Any, str, Any]]:
    within: Any = vars(decide)["_within_limit"]

    def strict(segment_id: bytes, target: Any, custom: bytes, limits: Any) -> Any:  # noqa: ANN401
        if target == _FINISHED and len(custom) == limits.custom_metadata_bytes_max:
            raise CustomMetadataSizeLimitExceeded(f"{len(custom)} bytes are not below it")
        return within(segment_id, target, custom, limits)

    return [(decide, "_within_limit", strict)]


def custom_limit_not_enforced() -> list[tuple[Any, str, Any]]:
    def generous(_id: bytes, _target: object, custom: bytes, _limits: object) -> Any:  # noqa: ANN401
        return custom, 0

    return [(decide, "_within_limit", generous)]


def passed_pages_told_again() -> list[tuple[Any, str, Any]]:
    return rewritten(PagedMap.items_from, "continue", "pass")
