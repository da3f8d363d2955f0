"""`clean undo`: what a plan took out of the tier comes back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from tierledger.cli.commands.clean.apply import PlanArgument, YesOption, require_place
from tierledger.cli.commands.clean.tier import CleanedTier
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.given_file import readable
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import JsonOption, TierOption
from tierledger.cli.output import confirm, print_json, print_note
from tierledger.events.errors import RejectedError
from tierledger.pages.texts import size_text

if TYPE_CHECKING:
    from tierledger.pipeline.cleaning.plan_file import CleaningPlan


def undo(
    plan: PlanArgument,
    tier: TierOption,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Move objects that a plan has moved into quarantine back to where they were.

    The store is not needed. Copies and deletions that the plan has ended stay ended, and what
    was deleted from the quarantine is gone; undelete reads what is in the trash. A command that
    was killed may be repeated. Exit status 3: something of the plan cannot be undone; the
    command names it.
    """
    from tierledger.pipeline.cleaning.weights import TRASHED

    made = read_plan_of(plan)
    cleaned = CleanedTier.of(tier, StoreOptions())
    require_place(made, cleaned)
    objects, size, gone = asyncio.run(_undo(made, cleaned, yes=yes))
    trashed = sum(1 for one in made.weights if one.kind in TRASHED)
    ended = sum(1 for one in made.weights if not one.can_undo) - trashed
    if json:
        told = {"plan": made.head.plan, "objects": objects, "bytes": size}
        print_json({**told, "gone": gone, "ended": ended, "trashed": trashed})
    else:
        print(f"gave {objects} objects back ({size_text(size)})")
    if ended:
        print_note(f"{ended} segments of the plan cannot be undone: their data was deleted")
    if trashed:
        what = "are in the trash as long as `trash show` says: `undelete` brings them back"
        print_note(f"{trashed} segments of the plan {what}")
    if gone:
        print_note(f"{gone} objects of the plan are neither in the tier nor in quarantine")
    if ended or trashed or gone:
        raise typer.Exit(ExitStatus.PARTLY)


def read_plan_of(plan: PlanArgument) -> CleaningPlan:
    from tierledger.pipeline.cleaning.plan_file import read_plan

    return read_plan(readable(plan, "jsonl"))


async def _undo(made: CleaningPlan, tier: CleanedTier, *, yes: bool) -> tuple[int, int, int]:
    """Give back; the number of objects, their bytes, and how many are gone."""
    from tierledger.tiering.objects.request_counts import Operation
    from tierledger.tiering.objects.store import StoredObject
    from tierledger.tiering.quarantine import Quarantine

    quarantine = Quarantine(tier.objects, tier.names.folder, made.head.plan)
    taken = await quarantine.taken()
    if taken is None:
        return 0, 0, 0
    held = await quarantine.objects()
    objects = [one for one in taken.objects if one.name in held]
    gone, there = 0, dict[str, StoredObject]()
    for folder in sorted({one.name.rpartition("/")[0] for one in taken.objects}):
        there.update(await tier.objects.list(Operation.CLEAN, folder))
    for one in taken.objects:
        found = there.get(one.name)
        if found is not None and found.size != one.size:
            raise RejectedError(
                f"{tier.objects.name_of(one.name)}: expected no object, or the one of "
                f"{one.size} bytes that was taken, found {found.size} bytes; nothing was moved"
            )
        gone += found is None and one.name not in held
    size = sum(one.size for one in objects)
    if objects and not yes:
        confirm(f"Give {len(objects)} objects back ({size_text(size)})?")
    await quarantine.give_back(objects)
    await quarantine.close_if_empty()
    return len(objects), size, gone
