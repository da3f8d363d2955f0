"""Mistakes about holds, guards and the trash: what is held goes, or what is due stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tierledger.actors import due, holds
from tierledger.actors.coordinator.purges import Purges
from tierledger.actors.coordinator.service import CoordinatorService
from tierledger.actors.host.host import Host
from tierledger.actors.leader import batch
from tierledger.events.partition import decide, evolve
from tierledger.events.partition.state import KeptSegment
from tierledger.simulation.mutants.mistakes import Made, Patches, mistake
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.simulation.service.plan import GUARDED_EVERY, GUARDED_FIRST

_of_guards: Callable[[str, str], Callable[[Made], Made]] = partial(
    mistake, within=60, first=GUARDED_FIRST, every=GUARDED_EVERY
)
"""Declares a mutant that shows where brokers have guards."""


@_of_guards("M109", "held_deleted")
def hold_told_with_pings_only() -> Patches:
    """A hold is said to be in force before hosts know it, which hear of it with pings."""
    return rewritten(
        CoordinatorService.hold,
        "told = await asyncio.gather(*map(self._heeds, running))",
        "told = [[] for _ in running]",
    )


@_of_guards("M110", "held_deleted")
def trash_is_not_held() -> Patches:
    """What is in the trash is purged though a hold is about it."""
    return rewritten(holds.why_kept, "if one.term_ms is None and", "if one.term_ms and")


@_of_guards("M111", "early_purge")
def terms_do_not_count() -> Patches:
    """What is kept is due at once, whatever its time is, and whether it was released."""
    return rewritten(
        due._released, "if command.released else one", "if now_ms else one"
    ) + rewritten(
        decide._purges,
        "elif kept.is_due_at(now_ms, released=command.released):",
        "elif now_ms:",
    )


@_of_guards("M112", "leased_twice")
def lease_does_not_count() -> Patches:
    """A guard is given what another one is purging."""
    return rewritten(
        KeptSegment.is_free,
        "return self.purger in {None, broker_id} or now_ms >= self.lease_until_ms",
        "return True",
    )


@_of_guards("M113", "lost_data")
def given_before_the_purge_has_begun() -> Patches:
    """A guard is given what is only kept, beside what it purges."""
    return rewritten(
        due.purging_of,
        "if one.purger == broker_id and now_ms < one.lease_until_ms",
        "if one.purger in (None, broker_id)",
    )


@_of_guards("M114", "unpurged")
def looked_at_once() -> Patches:
    """A partition in which nothing was due yet is not looked at again."""
    return rewritten(
        Purges._start,
        "self._keeping[key] = _Keeping(one.tip, -1, soon_ms)",
        "self._keeping[key] = _Keeping(one.tip, -1, 1 << 62)",
    )


@_of_guards("M115", "unpurged")
def purges_are_never_ended() -> Patches:
    """What a guard has purged is not written down."""
    return rewritten(Purges.next, "if wish.done is not None:", "if False:")


@_of_guards("M116", "lifecycle")
def copy_that_never_finished_is_kept() -> Patches:
    """A copy that is given up is kept, as if it had been finished."""
    return (
        rewritten(
            decide.segment_to_delete, "fields[STATE] == finished else None",
            "fields[STATE] <= finished else None",
        )
        + rewritten(
            decide._update, "if keep is None or not _begins_to_delete(source, target):",
            "if keep is None:",
        )
    )  # fmt: skip


@_of_guards("M117", "wrong_answer")
def kept_segment_stays_in_answers() -> Patches:
    """A segment that is kept from deletion is answered still, as being deleted."""
    return rewritten(evolve._segment_kept, "_remove(state, stood, fields)", "pass")


@_of_guards("M118", "misdecided")
def widest_term_counts() -> Patches:
    """Of the terms about a segment all count, so a narrow 0 is no exception."""
    return rewritten(holds.in_force, "if one.breadth == terms[0].breadth", "if one.breadth")


@_of_guards("M119", "misdecided")
def unguarded_broker_is_trusted() -> Patches:
    """A broker without a guard deletes what should be kept, and it counts as kept."""
    return rewritten(
        batch.kept_back,
        "if guarded_for is None:\n        return _held",
        "if guarded_for is NotImplemented:\n        return _held",
    )


@_of_guards("M120", "held_deleted")
def batches_under_way_not_awaited() -> Patches:
    """A host says that it heeds a hold while a batch from before is on its way."""
    return rewritten(Host.heed, "shell.machine.in_flight is not None or", "False or")


@mistake(
    "M121",
    "held_deleted",
    within=60,
    first=GUARDED_FIRST + 100 * GUARDED_EVERY,
    every=GUARDED_EVERY,
)
def former_leader_not_waited_for() -> Patches:
    """A host heeds a hold for a leader that has not claimed, while the former one goes on."""
    return rewritten(Host.heed, "or not shell.machine.is_alone", "or False")
