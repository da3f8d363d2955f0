"""`clean apply`: do what a plan says, if the world still is what the plan rests on."""

from __future__ import annotations

import asyncio
import getpass
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.clean.tier import TRASH_MS, Bars, CleanedTier, weigh
from tierledger.cli.commands.hold import connected
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.given_file import readable
from tierledger.cli.opened_store import StoreOptions, opened_catalog
from tierledger.cli.options import ClusterOption, JsonOption, StoreOption, TierOption
from tierledger.cli.output import confirm, print_json, print_note
from tierledger.events.errors import RejectedError, RemoteStorageError
from tierledger.events.typed_fields import time_text
from tierledger.pages.texts import size_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set
    from typing import TypeAlias

    from tierledger.cli.commands.clean.tier import Weighed
    from tierledger.events.commands import EndSegments
    from tierledger.events.identifiers import TopicIdPartition
    from tierledger.pipeline.cleaning.plan_file import CleaningPlan
    from tierledger.pipeline.cleaning.rules import SeenQuarantine, SeenWorld
    from tierledger.pipeline.cleaning.weights import DeadWeight
    from tierledger.pipeline.jobs.audit.rows import SegmentKey
    from tierledger.tiering.quarantine import Quarantine
    from tierledger.tiering.remote_storage_manager import RemoteStorageManager

    _Writer: TypeAlias = Callable[[TopicIdPartition, EndSegments], Awaitable[Sequence[bytes]]]
    """Writes to a partition's log, and says how the segments are then."""

PLAN_AGE_MAX_MS: Final = 7 * 86_400_000
"""A plan, and its list of objects, that is older is refused."""

PlanArgument = Annotated[
    Path, typer.Argument(metavar="PLAN", help="File that clean plan has written.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


class _Done(NamedTuple):
    """Segments that a step has cleaned up, and their bytes."""

    segments: int = 0
    bytes: int = 0
    failed: int = 0
    """Segments that have changed meanwhile, and are left."""

    def and_more(self, other: _Done) -> _Done:
        return _Done(*map(sum, zip(self, other, strict=True)))


class _Ended(NamedTuple):
    """What ends by events: as the plan has it, and its row as the log has it now."""

    weight: DeadWeight
    row: bytes


def apply(
    plan: PlanArgument,
    tier: TierOption,
    yes: YesOption = False,
    store: StoreOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Do exactly what a plan says; nothing if anything it rests on has changed.

    The command looks at logs and tier again first: that is the second list of the objects that
    no log knows. They are moved into the tier's quarantine, and clean undo moves them back; a
    plan of a day later deletes them. Copies and deletions end by events, for good; where
    brokers host the partition, its leader decides on these, so the service has to run.
    A command that was killed may be repeated. Exit status 3: something changed, and is left.
    """
    from tierledger.pipeline.cleaning.plan_file import read_plan
    from tierledger.pipeline.cleaning.rules import CleaningAges

    cleaned = CleanedTier.of(tier, StoreOptions(store, cluster))
    made = read_plan(readable(plan, "jsonl"))
    require_place(made, cleaned)
    now_ms = WallClock().now_ms()
    _refuse_times(made, now_ms)
    head = made.head
    ages = CleaningAges(now_ms, head.older_than_ms, head.quarantine_ms, head.is_idle)
    weighed = weigh(cleaned, ages)
    world = weighed.looked.world
    _require_cluster(made, weighed.looked.cluster)
    asyncio.run(_require_history(made, cleaned.options))
    doing = _still_so(made, weighed.weights, world)
    size = sum(one.size_in_bytes for one in doing)
    what = f"{len(doing)} segments ({size_text(size)})"
    if doing and not yes:
        confirm(f"Clean up {what}?")
    done = asyncio.run(_carry_out(cleaned, made, doing, weighed))
    if json:
        counts = {"segments": done.segments, "bytes": done.bytes, "left": done.failed}
        print_json({"plan": head.plan, "planned": len(made.weights), **counts})
    else:
        before = len(made.weights) - len(doing)
        again = f", {before} were done before" if before else ""
        print(f"cleaned up {done.segments} segments ({size_text(done.bytes)}){again}")
    if done.failed:
        raise typer.Exit(ExitStatus.PARTLY)


def require_place(made: CleaningPlan, tier: CleanedTier) -> None:
    """Refuse a tier that is not the plan's, or in which nothing may be moved.

    Raises:
        RejectedError: It is not, or is only read.
    """
    from tierledger.pipeline.cleaning.rules import refuse
    from tierledger.pipeline.cleaning.weights import CleaningRefusal
    from tierledger.tiering.layouts.tier_url import Layout

    if made.head.tier != tier.url.shown:
        refuse(
            CleaningRefusal.OTHER_PLACE,
            f"expected the plan's tier {made.head.tier}, got {tier.url.shown}",
        )
    if tier.url.layout != Layout.LEDGER:
        refuse(
            CleaningRefusal.READ_ONLY,
            f"a tier of layout {tier.url.layout} is only read here; expected tierledger's own",
        )


def _require_cluster(made: CleaningPlan, cluster: str) -> None:
    from tierledger.pipeline.cleaning.rules import refuse
    from tierledger.pipeline.cleaning.weights import CleaningRefusal

    if made.head.cluster != cluster:
        refuse(
            CleaningRefusal.OTHER_PLACE,
            f"expected the plan's cluster {made.head.cluster}, got {cluster}",
        )


def _refuse_times(made: CleaningPlan, now_ms: int) -> None:
    from tierledger.pipeline.cleaning.rules import refuse
    from tierledger.pipeline.cleaning.weights import CleaningRefusal

    made_ms, last_ms = sorted((made.head.made_ms, made.head.listed_ms))
    if now_ms < last_ms:
        refuse(
            CleaningRefusal.CLOCK_JUMPED,
            f"the plan was made at {time_text(last_ms)}; expected that before now, "
            f"{time_text(now_ms)} by this machine's clock",
        )
    if now_ms - made_ms > PLAN_AGE_MAX_MS:
        refuse(
            CleaningRefusal.STALE_PLAN,
            f"the plan and its list of objects are of {time_text(made_ms)}; expected at most 7 "
            "days: make a new one",
        )


async def _require_history(made: CleaningPlan, options: StoreOptions) -> None:
    """Check that the logs are those that the plan has read, and have only grown."""
    from tierledger.events.identifiers import TopicIdPartition, Uuid
    from tierledger.pipeline.cleaning.rules import refuse
    from tierledger.pipeline.cleaning.weights import CleaningRefusal

    async with opened_catalog(options) as catalog:
        for one in made.logs:
            tip = TopicIdPartition(Uuid.parse(one.topic_id), one.partition, one.topic)
            last, chain_hash = one.next_position - 1, bytes.fromhex(one.chain_hash)
            if not await catalog.reader(tip).has_history(last, chain_hash):
                refuse(
                    CleaningRefusal.CHANGED,
                    f"{tip}: the log is not the one that the plan has read, up to position "
                    f"{last}; expected the same store",
                )


def _own_quarantine(made: CleaningPlan, world: SeenWorld) -> SeenQuarantine | None:
    ours = (one for one in world.quarantines if one.taken.plan == made.head.plan)
    return next(ours, None)


def _still_so(
    made: CleaningPlan, now: Sequence[DeadWeight], world: SeenWorld
) -> list[DeadWeight]:
    """What the plan says and is not done yet.

    Raises:
        RejectedError: Something of that is not as the plan has it.
    """
    from tierledger.pipeline.cleaning.rules import refuse
    from tierledger.pipeline.cleaning.weights import CleaningRefusal

    bases = {one.place_in_plan: one.basis for one in now}
    there = {each.name for one in now for each in one.objects}
    taken = _own_quarantine(made, world)
    doing: list[DeadWeight] = []
    changed: list[DeadWeight] = []
    for one in made.weights:
        rest = _rest_of(one, taken, there)
        if rest is None or _is_done(one, world):
            continue
        if _is_begun(one, world) or bases.get(rest.place_in_plan) == rest.basis:
            doing.append(one)
        else:
            changed.append(one)
    if changed:
        first = changed[0]
        refuse(
            CleaningRefusal.CHANGED,
            f"{len(changed)} of {len(made.weights)} segments are not as the plan has them, the "
            f"first: {first.segment_id} of {first.topic or first.topic_id}-{first.partition} "
            f"({first.kind}); nothing was done: make a new plan",
        )
    return doing


def _rest_of(
    one: DeadWeight, taken: SeenQuarantine | None, there: Set[str]
) -> DeadWeight | None:
    """What is left to do of one segment; None: nothing.

    A bucket moves an object by a copy and a deletion, and a command may be killed between the
    two. So what is in quarantine and still `there`, too, has to be moved again.
    """
    import msgspec

    if taken is None or not one.can_undo:
        return one
    left = tuple(
        each for each in one.objects if each.name not in taken.objects or each.name in there
    )
    if not left:
        return None
    return msgspec.structs.replace(
        one, objects=left, size_in_bytes=sum(each.size for each in left)
    )


def _is_done(one: DeadWeight, world: SeenWorld) -> bool:
    """Whether nothing is left to do, as after an earlier run of the same plan."""
    from tierledger.events.lifecycle import RemoteLogSegmentState
    from tierledger.pipeline.cleaning.weights import BY_EVENTS, WeightKind

    if one.kind in BY_EVENTS:
        segment = world.segments.get(_key(one))
        gone = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
        return segment is None or segment.state == gone or segment.is_kept
    if one.kind == WeightKind.QUARANTINED:
        there = {each.name for plan in world.quarantines for each in plan.objects.values()}
        return not any(each.name in there for each in one.objects)
    return False


def _is_begun(one: DeadWeight, world: SeenWorld) -> bool:
    """Whether an earlier run has begun to end it by events."""
    from tierledger.actors.coordinator.purge_requests import COMMAND
    from tierledger.events.lifecycle import RemoteLogSegmentState
    from tierledger.events.tables.segment_rows import BROKER, unpack_row
    from tierledger.pipeline.cleaning.weights import WeightKind

    segment = world.segments.get(_key(one))
    return (
        one.kind == WeightKind.UNFINISHED_COPY
        and segment is not None
        and segment.state == RemoteLogSegmentState.DELETE_SEGMENT_STARTED
        and unpack_row(segment.row)[BROKER] == COMMAND
    )


def _key(one: DeadWeight) -> SegmentKey:
    from tierledger.pipeline.jobs.audit.rows import SegmentKey

    return SegmentKey(one.topic_id, one.partition, one.segment_id)


async def _carry_out(
    tier: CleanedTier,
    made: CleaningPlan,
    doing: Sequence[DeadWeight],
    weighed: Weighed,
) -> _Done:
    from tierledger.pipeline.cleaning.weights import BY_EVENTS, WeightKind

    of_segments = [one for one in doing if one.kind in BY_EVENTS]
    taken = _own_quarantine(made, weighed.looked.world)
    done = _Done()
    try:
        if of_segments:
            done = done.and_more(await _end(tier, of_segments, weighed))
        done = done.and_more(
            await _take(tier, made, [one for one in doing if one.can_undo], taken)
        )
        gone = [one for one in doing if one.kind == WeightKind.QUARANTINED]
        return done.and_more(await _remove(tier, gone))
    except Exception as error:
        error.add_note(f"cleaned up {done.segments} segments before; repeat the command")
        raise


async def _take(
    tier: CleanedTier,
    made: CleaningPlan,
    doing: Sequence[DeadWeight],
    before: SeenQuarantine | None,
) -> _Done:
    """Move objects into the plan's quarantine."""
    from tierledger.tiering.quarantine import VERSION, Quarantine, Taken, TakenObject

    if not doing:
        return _Done()
    quarantine = Quarantine(tier.objects, tier.names.folder, made.head.plan)
    objects = [TakenObject(each.name, each.size) for one in doing for each in one.objects]
    if before is None:
        now_ms = WallClock().now_ms()
        plan, cluster = made.head.plan, made.head.cluster
        await quarantine.note(Taken(VERSION, plan, cluster, now_ms, tuple(objects)))
        await _require_time(tier, quarantine, now_ms)
    await quarantine.take(objects)
    return _Done(len(doing), sum(one.size for one in objects))


async def _require_time(tier: CleanedTier, quarantine: Quarantine, now_ms: int) -> None:
    """Check this machine's clock by that of the tier, which has just written an object.

    Raises:
        RejectedError: They differ.
    """
    from tierledger.pipeline.cleaning.rules import refuse
    from tierledger.pipeline.cleaning.weights import CleaningRefusal
    from tierledger.pipeline.inventory import milliseconds
    from tierledger.storage.partition.log_times import AHEAD_MS

    async for page in tier.objects.pages(quarantine.place, lambda _: None):
        for one in page:
            written_ms = milliseconds(one.last_modified)
            if one.path == quarantine.list_name and abs(written_ms - now_ms) > AHEAD_MS:
                await quarantine.close_if_empty()
                refuse(
                    CleaningRefusal.CLOCK_JUMPED,
                    f"the tier's clock says {time_text(written_ms)}, this machine's "
                    f"{time_text(now_ms)}; expected at most 5 minutes between",
                )


async def _remove(tier: CleanedTier, doing: Sequence[DeadWeight]) -> _Done:
    """Delete objects in quarantine for good."""
    from tierledger.tiering.quarantine import Quarantine, TakenObject

    done = _Done()
    of_plan = sorted(doing, key=lambda one: one.quarantine)
    for plan, some in groupby(of_plan, lambda one: one.quarantine):
        quarantine = Quarantine(tier.objects, tier.names.folder, plan)
        below = quarantine.place_of("")
        weights = list(some)
        objects = [
            TakenObject(each.name.removeprefix(below), each.size)
            for one in weights
            for each in one.objects
        ]
        await quarantine.remove(objects)
        await quarantine.close_if_empty()
        size = sum(one.size for one in objects)
        done = done.and_more(_Done(len(weights), size))
    return done


async def _end(tier: CleanedTier, doing: Sequence[DeadWeight], weighed: Weighed) -> _Done:
    """End copies and deletions by events, and delete their data."""
    from tierledger.actors.coordinator.purge_requests import CLEANED_MAX
    from tierledger.events.errors import InvalidStateTransition
    from tierledger.events.identifiers import TopicIdPartition, Uuid
    from tierledger.tiering.layouts.tier_url import open_tier

    done, left = _Done(), list(doing)
    async with (
        _writer(tier.options, doing, weighed) as (write, unserved),
        open_tier(tier.given) as storage,
    ):
        if unserved:
            left = [one for one in doing if not weighed.is_led(one)]
            print_note(f"left: {unserved}")
            done = _Done(failed=len(doing) - len(left))
        for (topic_id, partition, topic), some in groupby(
            left, lambda one: (one.topic_id, one.partition, one.topic)
        ):
            tip = TopicIdPartition(Uuid.parse(topic_id), partition, topic)
            seen = [_Ended(one, weighed.looked.world.segments[_key(one)].row) for one in some]
            steps = [seen[at : at + CLEANED_MAX] for at in range(0, len(seen), CLEANED_MAX)]
            while steps:
                step = steps.pop(0)
                try:
                    done = done.and_more(await _step(storage, partial(write, tip), tip, step))
                except InvalidStateTransition as error:
                    if len(step) > 1:  # One has changed; the others may not have.
                        steps = [[one] for one in step] + steps
                        continue
                    print_note(f"left: changed: {error}")
                    done = done.and_more(_Done(failed=1))
                except RejectedError as error:
                    print_note(f"left: {error}")
                    done = done.and_more(_Done(failed=len(step)))
    return done


@asynccontextmanager
async def _writer(
    options: StoreOptions, doing: Sequence[DeadWeight], weighed: Weighed
) -> AsyncIterator[tuple[_Writer, str]]:
    """What writes to logs, and why nothing is written to those that a service leads.

    The service writes if something of a partition that it leads is to be done: each leader, and
    the coordinator where nobody leads. Otherwise we write, and no service is needed.
    """
    from tierledger.actors.coordinator.log import folded
    from tierledger.actors.coordinator.purge_requests import CleanUp
    from tierledger.actors.coordinator.unled_log import UnledLog
    from tierledger.actors.due import rows_now
    from tierledger.pipeline.cleaning.weights import CleaningRefusal

    led = [one for one in doing if weighed.is_led(one)]
    unserved, by = "", getpass.getuser()
    async with AsyncExitStack() as opened:
        if led:
            try:
                _, connection = await opened.enter_async_context(connected(options))
            except RemoteStorageError as error:
                why = next(iter(weighed.led.values()))
                unserved = (
                    f"{CleaningRefusal.LED}: {len(led)} segments, such as {led[0].segment_id}: "
                    f"{why}; expected a service that asks its leader: {error}"
                )
            else:

                async def ask(tip: TopicIdPartition, command: EndSegments) -> Sequence[bytes]:
                    rows: Sequence[bytes] = await connection.coordinator.ask(
                        CleanUp(tip, command, by)
                    )
                    return rows

                yield ask, ""
                return
        catalog = await opened.enter_async_context(opened_catalog(options, read_only=False))
        fold = await folded(catalog)
        Bars(fold, WallClock().now_ms()).refuse_all()
        logs: dict[TopicIdPartition, UnledLog] = {}

        async def write(tip: TopicIdPartition, command: EndSegments) -> Sequence[bytes]:
            if tip not in logs:
                logs.clear()
                logs[tip] = await UnledLog.read(catalog, fold, tip)
            await logs[tip].write(command, WallClock().now_ms())
            return rows_now(logs[tip].state, command)

        yield write, unserved


async def _step(
    storage: RemoteStorageManager,
    write: Callable[[EndSegments], Awaitable[Sequence[bytes]]],
    tip: TopicIdPartition,
    step: Sequence[_Ended],
) -> _Done:
    from tierledger.actors.coordinator.purge_requests import COMMAND
    from tierledger.events.commands import EndSegments, Keep
    from tierledger.events.lifecycle import DeletionCause, RemoteLogSegmentState
    from tierledger.events.log_events import Origin
    from tierledger.events.partition.answers import metadata_of
    from tierledger.events.tables.segment_rows import BROKER, STATE, id_of_row, unpack_row
    from tierledger.pipeline.cleaning.rules import row_digest
    from tierledger.pipeline.cleaning.weights import WeightKind

    origin = Origin(COMMAND, None)
    _, finished, deleting, deleted = RemoteLogSegmentState
    planned = {id_of_row(row): weight for weight, row in step}

    def is_ours(row: bytes) -> bool:
        """Whether it is as the plan has it, or as this command has left it."""
        fields = unpack_row(row)
        begun = fields[STATE] == deleting and fields[BROKER] == COMMAND
        return begun or row_digest(row) == planned[id_of_row(row)].row

    now_ms = WallClock().now_ms()
    kept = [weight for weight, row in step if unpack_row(row)[STATE] == finished]
    is_topics = any(weight.kind == WeightKind.LEFT_OF_TOPIC for weight in kept)
    cause = DeletionCause.TOPIC if is_topics else DeletionCause.UNKNOWN
    keep = Keep(now_ms + TRASH_MS, "it was cleaned up") if kept else None
    rows = tuple(row for _, row in step)
    there = await write(EndSegments(origin, deleting, rows, now_ms, keep, cause))
    gone: list[bytes] = []
    try:
        for row in filter(is_ours, there):
            await storage.delete_log_segment_data(metadata_of(tip, row))
            gone.append(row)
    finally:
        if gone:
            now_ms = WallClock().now_ms()
            await write(EndSegments(origin, deleted, tuple(gone), now_ms))
    done = [*(planned[id_of_row(row)] for row in gone), *kept]
    return _Done(len(done), sum(one.size_in_bytes for one in done), len(step) - len(done))
