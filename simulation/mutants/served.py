"""Mistakes of which callers see little: placement, readiness, checkpoints, pages, imports."""

from __future__ import annotations

from typing import Any

from tierledger.actors.coordinator import placement as places
from tierledger.actors.coordinator import rules
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.follower import Follower
from tierledger.actors.leader.checkpoints import Checkpoints
from tierledger.events.partition import decide, placement
from tierledger.events.partition import imports as decide_import
from tierledger.events.partition.state import Tombstones
from tierledger.events.tables.paged_map import PagedMap
from tierledger.simulation.mutants.rewriting import rewritten


def update_says_another_time() -> list[tuple[Any, str, Any]]:
    return rewritten(
        decide._update, "update.broker_id, update.event_timestamp_ms\n",
        "update.broker_id, update.event_timestamp_ms + 1\n",
    )  # fmt: skip


def other_content_holds_already() -> list[tuple[Any, str, Any]]:
    return rewritten(decide._add, "if row == pack_row(started_fields(body)):", "if row:")


def highest_offset_goes_back() -> list[tuple[Any, str, Any]]:
    return rewritten(placement.reference, "if highest is None or end > highest:", "if True:")


def replaced_claim_forgotten() -> list[tuple[Any, str, Any]]:
    return rewritten(
        rules._announced,
        "entry.displaced[entry.leadership.claim.broker_id] = entry.leadership",
        "pass",
    )


def follower_never_placed_again() -> list[tuple[Any, str, Any]]:
    return rewritten(
        CoordinatorState.review,
        "bool(entry.followers) and entry.follower_host is None",
        "False",
    )


def ready_too_early() -> list[tuple[Any, str, Any]]:
    began_too_early = rewritten(Follower._assigned, "self._read(again=True)", "self._read()")
    read = "if read.number == self.next_batch and read.value is None:"
    return began_too_early + rewritten(Follower._slot_read, read, "if True:")


def never_ready() -> list[tuple[Any, str, Any]]:
    return rewritten(
        Follower._look,
        "self._looking, self._awaiting_end = self._awaiting_end, []",
        "self._looking, self._awaiting_end = [], []",
    )


def tombstone_stays_in_index() -> list[tuple[Any, str, Any]]:
    return rewritten(Tombstones.drop_at, "self._positions.drop(value[:16])", "pass")


def one_checkpoint_only() -> list[tuple[Any, str, Any]]:
    return rewritten(
        Checkpoints.done, "self.is_writing = False", "self.is_writing = done.stored"
    )


def leader_moves_with_each_claim() -> list[tuple[Any, str, Any]]:
    return rewritten(
        places._Placing.lead,
        "    if home is None:\n        if", "    if True:\n        if",
    )  # fmt: skip


def follower_stays_beside_leader() -> list[tuple[Any, str, Any]]:
    return rewritten(
        places.place,
        "entry.follower_host is not None and entry.follower_host == led_from",
        "entry.follower_host is None",
    )


def waiting_reader_dropped() -> list[tuple[Any, str, Any]]:
    return rewritten(Follower._serve, "for query in due]", "for query in due[1:]]")


def illegal_record_imported() -> list[tuple[Any, str, Any]]:
    return rewritten(
        decide_import._added,
        "if not is_valid_segment_transition(_state_of(view, segment_id), metadata.state):",
        "if False:",
    )


def former_process_ends_host() -> list[tuple[Any, str, Any]]:
    return rewritten(rules.host_lost, "process not in {None, known}", "False")


def page_moves_without_its_index() -> list[tuple[Any, str, Any]]:
    return rewritten(PagedMap.set, "page.first = self._firsts[at] = key", "page.first = key")
