"""Mistakes that callers hardly see: placement, readiness, checkpoints, pages, imports."""

from __future__ import annotations

from tierledger.actors.coordinator import decide as coordinator_decide
from tierledger.actors.coordinator import evolve as coordinator_evolve
from tierledger.actors.coordinator import placement as places
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.follower import Follower
from tierledger.actors.host.host import Host
from tierledger.actors.leader.checkpoints import Checkpoints
from tierledger.events.partition import decide, placement
from tierledger.events.partition import imports as decide_import
from tierledger.events.partition.state import Tombstones
from tierledger.events.tables.paged_map import PagedMap
from tierledger.simulation.machines.scenario.drawing import WHOLE_EVERY
from tierledger.simulation.mutants.mistakes import Patches, mistake
from tierledger.simulation.mutants.rewriting import rewritten


@mistake("M46", "altered_write")
def update_says_another_time() -> Patches:
    """An update is stored with another time than it was given."""
    return rewritten(
        decide._update, "update.broker_id, update.event_timestamp_ms\n",
        "update.broker_id, update.event_timestamp_ms + 1\n",
    )  # fmt: skip


@mistake("M47", "hollow_write")
def other_content_holds_already() -> Patches:
    """A segment that is added again with other content counts as held already."""
    return rewritten(decide._add, "if row == pack_row(started_fields(body)):", "if row:")


@mistake("M48", "unlike_model")
def highest_offset_goes_back() -> Patches:
    """The highest offset of an epoch is that of the last segment to finish."""
    return rewritten(placement.reference, "if highest is None or end > highest:", "if True:")


@mistake("M49", "miscoordinated")
def replaced_claim_forgotten() -> Patches:
    """A claim that another's replaced is not kept in mind."""
    return rewritten(
        coordinator_evolve._announced,
        "entry.displaced[entry.leadership.claim.broker_id] = entry.leadership",
        "pass",
    )


@mistake("M50", "unfollowed")
def follower_never_placed_again() -> Patches:
    """A follower of a lost host is never placed again."""
    return rewritten(
        CoordinatorState.review,
        "bool(entry.followers) and entry.follower_host is None",
        "False",
    )


@mistake("M51", "wrong_memory")
def ready_too_early() -> Patches:
    """A follower is ready after a read that began before the announcement."""
    began_too_early = rewritten(Follower._assigned, "self._read(again=True)", "self._read()")
    read = "if read.number == self.next_batch and read.value is None:"
    return began_too_early + rewritten(Follower._slot_read, read, "if True:")


@mistake("M52", "unready")
def never_ready() -> Patches:
    """A follower forgets who waits for it."""
    return rewritten(
        Follower._look,
        "self._looking, self._awaiting_end = self._awaiting_end, []",
        "self._looking, self._awaiting_end = [], []",
    )


@mistake("M53", "replay_determinism")
def tombstone_stays_in_index() -> Patches:
    """A tombstone that was dropped stays in the index by id."""
    drop = "self._positions.drop(hash(value[:ID_BYTES]), position)"
    return rewritten(Tombstones.drop_at, drop, "pass")


@mistake("M54", "stalled_checkpoint")
def one_checkpoint_only() -> Patches:
    """A leader writes no checkpoint after its first."""
    return rewritten(
        Checkpoints.done, "self.is_writing = False", "self.is_writing = done.stored"
    )


@mistake("M55", "needless_move")
def leader_moves_with_each_claim() -> Patches:
    """A leader's next claim is placed on another host."""
    return rewritten(
        places._Placing.lead,
        "if home is None or home in self.closed.emptied:", "if True:",
    )  # fmt: skip


@mistake("M56", "together")
def follower_stays_beside_leader() -> Patches:
    """A follower stays on the host where its leader has come."""
    return rewritten(
        places.place,
        "entry.follower_host is not None and entry.follower_host == led_from",
        "entry.follower_host is None",
    )


@mistake("M57", "unanswered")
def waiting_reader_dropped() -> Patches:
    """Of those who wait for a position the first is forgotten."""
    return rewritten(Follower._serve, "for query in due]", "for query in due[1:]]")


@mistake("M58", "wrong_import", within=50, first=0, every=WHOLE_EVERY)
def illegal_record_imported() -> Patches:
    """A recorded segment is added over one that is there."""
    return rewritten(
        decide_import._added,
        "if not is_valid_segment_transition(_state_of(view, segment_id), metadata.state):",
        "if False:",
    )


@mistake("M59", "miscoordinated")
def former_process_ends_host() -> Patches:
    """A host is given up for the end of a process that it had before."""
    return rewritten(coordinator_decide.host_lost, "process not in {None, known}", "False")


@mistake("M107", "needless_loss")
def repeat_taken_for_outdated() -> Patches:
    """A broker that repeats its announcement is refused as out of date."""
    return rewritten(coordinator_decide.announce, "if pair < last:", "if pair <= last:")


@mistake("M108", "endless")
def polls_without_a_pause() -> Patches:
    """A host polls its followers' logs all the time."""
    return rewritten(Host._poll, "asyncio.sleep(POLL_INTERVAL_S)", "asyncio.sleep(0)")


@mistake("M60", "lifecycle")
def page_moves_without_its_index() -> Patches:
    """The first entry of a page is another, and is not found."""
    return rewritten(PagedMap.set, "page.first = self._firsts[at] = key", "page.first = key")
