"""`clean` takes what is dead weight out of a tier, gives it back, and touches nothing else."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.models.actors.local_world import moved
from tests.models.actors.published import published
from tests.models.cli.command_line import invoke, refused
from tests.models.storage.stored_partitions import CLUSTER, StoredPartition
from tests.models.tiering.cluttered_tier import (
    COPYING,
    DELETING,
    FIRST,
    OLD_S,
    SEGMENTS,
    ClutteredPart,
    ClutteredTier,
)
from tests.models.tiering.planted_clutter import planted
from tierledger.actors.coordinator.events import DeletionsHeld, Owner, OwnerChanged
from tierledger.actors.coordinator.holding import PlaceHold, ReleaseHold
from tierledger.actors.holds import Hold
from tierledger.actors.wall_clock import WallClock
from tierledger.cli.exit_status import ExitStatus
from tierledger.events import log_events as log
from tierledger.events.errors import RemoteResourceNotFound
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.partition.answers import metadata_of
from tierledger.pipeline.cleaning.plan_file import read_plan, write_plan
from tierledger.pipeline.cleaning.weights import CleaningRefusal
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.partition.forgetting import forget
from tierledger.tiering.layouts.ledger.layout import place_of
from tierledger.tiering.quarantine import FOLDER, TAKEN

DAY_S = 86_400

Told = dict[str, Any]


def made(folder: Path, seed: int = 1, partitions: int = 2) -> ClutteredTier:
    world = ClutteredTier(folder, seed, partitions)
    asyncio.run(world.build())
    return world


def planned_in(world: ClutteredTier, file: Path, *more: str, status: int | None = 1) -> Told:
    done = invoke(
        "clean",
        "plan",
        *world.tier,
        *world.store,
        "--out",
        file,
        "--json",
        "--overwrite",
        *more,
    )
    assert status is None or done.exit_code == status, done.output
    told: Told = json.loads(done.stdout)
    return told


def applied(world: ClutteredTier, file: Path, *, status: int = 0) -> Told:
    done = invoke("clean", "apply", file, *world.tier, *world.store, "--yes", "--json")
    assert done.exit_code == status, done.output
    told: Told = json.loads(done.stdout)
    return told


def undone(world: ClutteredTier, file: Path, *, status: int = 0) -> Told:
    done = invoke("clean", "undo", file, *world.tier, "--yes", "--json")
    assert done.exit_code == status, done.output
    told: Told = json.loads(done.stdout)
    return told


def a_day_passes(world: ClutteredTier) -> None:
    """Date back what quarantines have taken, by the clocks of the command and of the tier."""
    for path in (world.root / FOLDER).glob(f"*/{TAKEN}"):
        taken = json.loads(path.read_text())
        taken["taken_ms"] -= 2 * DAY_S * 1000
        path.write_text(json.dumps(taken))
        long_ago_s = path.stat().st_mtime - 2 * DAY_S
        os.utime(path, (long_ago_s, long_ago_s))


def orphan(
    world: ClutteredTier, part: ClutteredPart, start: int = FIRST, *, is_old: bool = True
) -> str:
    """Objects of a segment that no log has named; its id."""
    world.life(part, start, None, objects=True, is_old=is_old)
    return str(world.last.remote_log_segment_id.id)


def stuck(world: ClutteredTier, part: ClutteredPart, state: Any = COPYING, **more: Any) -> str:  # noqa: ANN401
    bodies = world.life(part, FIRST + 10 * SEGMENTS, state, is_old=True, **more)
    asyncio.run(world.append(part, bodies))
    return str(world.last.remote_log_segment_id.id)


def test_what_no_log_knows_goes_into_quarantine_comes_back_and_goes_for_good(
    tmp_path: Path,
) -> None:
    world, file = made(tmp_path), tmp_path / "plan"
    live = world.objects()
    lost = orphan(world, world.parts[0])
    before = world.objects()

    told = planned_in(world, file)
    assert world.objects() == before, "a plan changes nothing"
    assert told["kinds"] == {"orphan": {"segments": 1, "bytes": 47}}
    (one,) = told["largest"]
    assert (one["segment_id"], one["can_undo"]) == (lost, True)
    assert f"another segment holds offset {FIRST}" in one["evidence"]

    assert applied(world, file)["segments"] == 1
    assert {name: one for name, one in world.objects().items() if FOLDER not in name} == live
    assert planned_in(world, tmp_path / "next", status=0)["left"][0]["reason"] == "too_young"
    assert applied(world, file)["segments"] == 0, "a repeat finds it done"
    assert undone(world, file) == {**undone_of(file), "objects": 2, "bytes": 47}
    assert world.objects() == before
    assert undone(world, file)["objects"] == 0

    applied(world, file)
    a_day_passes(world)
    told = planned_in(world, file)
    assert told["kinds"] == {"quarantined": {"segments": 1, "bytes": 47}}
    applied(world, file)
    assert world.objects() == live
    assert planned_in(world, file, status=0)["segments"] == 0


def test_what_a_deleted_topic_has_left_goes_into_the_trash(tmp_path: Path) -> None:
    world, file = made(tmp_path), tmp_path / "plan"
    asyncio.run(world.close())
    before, part = world.objects(), world.parts[0]
    assert planned_in(world, file, status=0)["segments"] == 0, "nobody leads it, that is all"
    deletion = log.PartitionDeleteUpdated(0, 1, 5)
    asyncio.run(world.append(part, [deletion]))
    assert planned_in(world, file, status=0)["segments"] == 0, "its objects are young"
    for path in world.finished_objects(part):
        os.utime(path, (OLD_S, OLD_S))

    told = planned_in(world, file)
    assert told["kinds"]["left_of_topic"]["segments"] == SEGMENTS
    assert "DELETE_PARTITION_MARKED" in told["largest"][0]["evidence"]
    assert applied(world, file)["segments"] == SEGMENTS
    assert applied(world, file)["segments"] == 0
    assert undone(world, file, status=3)["trashed"] == SEGMENTS

    assert world.objects() == before
    (kept,) = [
        json.loads(line)
        for line in invoke("trash", "ls", "--json", *world.store).stdout.splitlines()
    ]
    assert (kept["topic"], kept["segments"], kept["due"]) == (part.tip.topic, SEGMENTS, 0)
    assert kept["kept_until_ms"] > WallClock().now_ms() + 6 * DAY_S * 1000
    assert planned_in(world, file, status=0)["segments"] == 0


def test_what_a_log_knows_again_is_not_removed_from_quarantine(tmp_path: Path) -> None:
    world, file = made(tmp_path), tmp_path / "plan"
    part = world.parts[0]
    orphan(world, part)
    lost, before = world.last, world.objects()
    planned_in(world, file)
    applied(world, file)
    a_day_passes(world)
    assert planned_in(world, tmp_path / "next")["kinds"].keys() == {"quarantined"}
    (listed,) = (world.root / FOLDER).glob(f"*/{TAKEN}")
    ours = listed.read_text()
    listed.write_text(ours.replace(CLUSTER, "another"))
    assert planned_in(world, tmp_path / "other", status=0)["segments"] == 0, (
        "not ours to remove"
    )
    listed.write_text(ours)
    a_day_passes(world)
    update = log.SegmentUpdated(
        bytes(lost.remote_log_segment_id.id), 1, 1, 7, world.custom().value
    )
    asyncio.run(world.append(part, [log.added_body(lost), update]))

    told = planned_in(world, tmp_path / "again", status=0)
    (left,) = told["left"]
    assert left["reason"] == "known_again"
    assert "clean undo gives plan" in left["detail"]
    undone(world, file)
    assert world.objects() == before


def test_an_audit_takes_the_trash_for_what_is_under_way(tmp_path: Path) -> None:
    world = made(tmp_path, partitions=1)
    (part,) = world.parts
    bodies = world.life(part, FIRST, DELETING, kept_until_ms=9)
    asyncio.run(world.append(part, bodies))
    segment_id = bytes(world.last.remote_log_segment_id.id)
    audit = ("jobs", "audit", *world.tier, *world.store, "--json", "--engine", "local")

    kept = json.loads(invoke(*audit).stdout)
    purged: list[log.Body] = [
        log.SegmentPurgeStarted(segment_id, 1),
        log.SegmentPurged(segment_id),
    ]
    asyncio.run(world.append(part, purged))
    left = json.loads(invoke(*audit).stdout)

    assert (kept["findings"], kept["unfinished"], kept["deleted_but_there"]) == (0, 1, 0)
    assert (left["findings"], left["unfinished"], left["deleted_but_there"]) == (1, 0, 1)


def test_what_a_forgotten_log_may_have_named_is_no_orphan(tmp_path: Path) -> None:
    world = made(tmp_path)
    part, other = world.parts
    deleted: list[log.Body] = [
        log.SegmentUpdated(bytes(one), state, 1, 5, None)
        for one in world.finished[part]
        for state in (2, 3)
    ]
    deleted += [log.PartitionDeleteUpdated(state, 1, 5) for state in (0, 1, 2)]
    asyncio.run(world.append(part, deleted))
    orphan(world, part)
    orphan(world, other)
    for path in world.finished_objects(part):
        os.utime(path, (OLD_S, OLD_S))
    audit = ("jobs", "audit", *world.tier, *world.store, "--json", "--engine", "local")
    before = json.loads(invoke(*audit).stdout)

    asyncio.run(forgotten(world, part))
    after = json.loads(invoke(*audit).stdout)

    assert (before["orphan"], before["deleted_but_there"]) == (2, SEGMENTS)
    assert (after["orphan"], after["unknown_partition"]) == (1, SEGMENTS + 1)
    assert (after["findings"], after["deleted_but_there"]) == (1, 0)
    told = planned_in(world, tmp_path / "plan")
    assert told["kinds"].keys() == {"orphan"}
    assert {one["reason"] for one in told["left"]} == {"unknown_partition"}


async def forgotten(world: ClutteredTier, part: ClutteredPart) -> None:
    backend = await SqliteBackend.open(world.path)
    part.stored.backend = backend
    await part.stored.close()
    await forget(part.stored.reader())
    await backend.close()


def test_undo_overwrites_nothing(tmp_path: Path) -> None:
    world, file = made(tmp_path), tmp_path / "plan"
    orphan(world, world.parts[0])
    planned_in(world, file)
    applied(world, file)
    (taken,) = (world.root / FOLDER).glob("*/objects/**/indexes")
    name = str(taken.relative_to(world.root)).partition("/objects/")[2]
    (world.root / name).parent.mkdir(parents=True)
    (world.root / name).write_bytes(b"something else")
    before = world.objects()

    undo = invoke("clean", "undo", file, *world.tier, "--yes")

    refused(undo, "expected no object, or the one of 7 bytes", "nothing was moved")
    assert world.objects() == before


def undone_of(file: Path) -> Told:
    head = json.loads(file.read_text().splitlines()[0])
    return {"plan": head["plan"], "gone": 0, "ended": 0, "trashed": 0}


def test_copies_and_deletions_that_nobody_ends_end_by_events(tmp_path: Path) -> None:
    world, file = made(tmp_path), tmp_path / "plan"
    live, rows = world.objects(), world.rows()
    copy, deletion = (stuck(world, world.parts[0], one) for one in (COPYING, DELETING))
    assert planned_in(world, file)["segments"] == 2
    stuck_there = world.objects()
    done = invoke("clean", "apply", file, *world.tier, *world.store, "--yes")
    assert done.exit_code == ExitStatus.PARTLY, done.output
    assert "left: led: 2 segments" in done.stderr, "a broker may end them, and no service runs"
    assert world.objects() == stuck_there
    asyncio.run(world.close())

    told = planned_in(world, file)
    kinds = {one["segment_id"]: one["kind"] for one in told["largest"]}
    assert kinds == {copy: "unfinished_copy", deletion: "unfinished_deletion"}
    assert applied(world, file)["segments"] == 2

    assert world.objects() == live
    assert world.rows() == rows
    assert applied(world, file)["segments"] == 0
    assert undone(world, file, status=3)["ended"] == 2
    assert invoke("verify", *world.store).exit_code == 0


def empty_ledger(world: ClutteredTier) -> None:
    """The store was lost, and brokers have registered with a new one."""
    world.path.unlink()
    for part in world.parts:
        asyncio.run(led_anew(world, part.tip))


async def led_anew(world: ClutteredTier, tip: TopicIdPartition) -> None:
    backend = await SqliteBackend.open(world.path)
    await StoredPartition.led(backend, tip)
    await backend.close()


def foreign_ledger(world: ClutteredTier) -> None:
    """The store of another cluster."""
    world.path.unlink()
    asyncio.run(led_anew(world, replace(world.parts[0].tip, topic_id=world.id())))


def wrong_prefix(world: ClutteredTier) -> None:
    """The folder beside the tier's, in which somebody keeps something else."""
    world.root = world.root.with_name("beside")
    world.root.mkdir()
    (world.root / "file").write_bytes(b"?")


def folder_above(world: ClutteredTier) -> None:
    world.root = world.root.parent


def no_tier_there(world: ClutteredTier) -> None:
    """A tier that is there, and has nothing in it."""
    world.root = world.root.with_name("empty")
    world.root.mkdir()


def unreadable_name(world: ClutteredTier) -> None:
    """A name cannot be looked at: root may read all, so it is a loop of links."""
    folder = world.root / "topic-0" / "loop"
    folder.symlink_to(folder)


def clock_ahead(world: ClutteredTier) -> None:
    """To this machine's clock, all that was ever written is long ago."""
    for path in world.root.rglob("*"):
        os.utime(path, (OLD_S, OLD_S))


def clock_behind(world: ClutteredTier) -> None:
    path = next(path for path in world.root.rglob("indexes"))
    tomorrow_s = WallClock().now_ms() / 1000 + DAY_S
    os.utime(path, (tomorrow_s, tomorrow_s))


def second_writer(world: ClutteredTier) -> None:
    """A copy of the cluster writes to the same tier: same topic ids, other segments."""
    orphan(world, world.parts[1], is_old=False)


def second_cluster(world: ClutteredTier) -> None:
    other = replace(world.parts[0].tip, topic_id=world.id())
    orphan(world, ClutteredPart(world.parts[0].stored, other), is_old=False)


def owned_by_kafka(world: ClutteredTier) -> None:
    asyncio.run(world.coordinator(OwnerChanged(Owner.KAFKA)))


def unowned_time(world: ClutteredTier) -> None:
    asyncio.run(world.coordinator(DeletionsHeld(3, 7, 1, 0, 0)))


WORLDS: dict[Callable[[ClutteredTier], None], str] = {
    empty_ledger: "empty_ledger",
    foreign_ledger: "foreign_ledger",
    wrong_prefix: "wrong_prefix",
    folder_above: "wrong_prefix",
    no_tier_there: "wrong_prefix",
    unreadable_name: "partial_listing",
    clock_ahead: "clock_jumped",
    clock_behind: "clock_jumped",
    second_writer: "two_clusters",
    second_cluster: "two_clusters",
    owned_by_kafka: "not_the_owner",
    unowned_time: "deletions_held",
}
"""What makes the whole a guess, and the name by which it is refused."""


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[ClutteredTier, Path]:
    """A world with an orphan, and its plan; beside it a copy of the world."""
    folder = tmp_path_factory.mktemp("clean")
    world, file = made(folder / "world"), folder / "plan"
    orphan(world, world.parts[0])
    planned_in(world, file)
    shutil.copytree(folder / "world", folder / "copy")
    return world, file


@pytest.fixture
def anew(once: tuple[ClutteredTier, Path]) -> tuple[ClutteredTier, Path]:
    """The same as it was at first."""
    world, file = once
    shutil.rmtree(file.with_name("world"))
    shutil.copytree(file.with_name("copy"), file.with_name("world"))
    world.root = file.with_name("world") / "tier"
    return world, file


@pytest.mark.parametrize("becomes", WORLDS, ids=lambda one: one.__name__)
def test_an_absence_that_may_be_our_own_doing_is_refused_by_name(
    becomes: Callable[[ClutteredTier], None], anew: tuple[ClutteredTier, Path]
) -> None:
    world, file = anew
    tier = world.tier

    becomes(world)
    before = world.objects()
    plan = invoke("clean", "plan", *world.tier, *world.store)
    apply = invoke("clean", "apply", file, *world.tier, *world.store, "--yes")

    refused(plan, f"error: {WORLDS[becomes]}: ")
    refused(apply, f"error: {WORLDS[becomes] if world.tier == tier else 'other_place'}: ")
    assert world.objects() == before


def test_of_a_thousand_planted_damages_none_costs_anything_that_lives(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    damages = round(250 * request.config.getoption("--fuzz-seconds"))
    seed = request.config.getoption("--fuzz-seed")
    world, file = made(tmp_path, seed, partitions=30), tmp_path / "plan"
    clutter = planted(world, damages)
    rows = world.rows()
    living = {key: row for key, row in rows.items() if key[1] not in clutter.dead}
    assert len(clutter.dead) > damages / 10

    told = told_of(world, file)
    reasons = {one["reason"] for one in told["left"]}
    assert reasons == LEFT
    assert told["kinds"]["lost_segment"]["segments"] > len(clutter.trashed) > 0
    done = applied(world, file, status=3)
    assert done["segments"] == len(clutter.dead) + len(clutter.trashed)
    assert done["left"] == told["segments"] - done["segments"] == len(clutter.led) > 0
    a_day_passes(world)
    told_of(world, file)
    applied(world, file, status=3)

    now = world.objects()
    assert {name: now.get(name) for name in clutter.live} == clutter.live
    assert now.keys() == clutter.live.keys()
    assert {key: row for key, row in world.rows().items() if key[1] not in clutter.trashed} == {
        key: row for key, row in living.items() if key[1] not in clutter.trashed
    }
    assert told_of(world, file)["segments"] == len(clutter.led), "no service runs"


LEFT = {
    "damaged_log",
    "missing_objects",
    "unexplained",
    "unknown_partition",
    "too_young",
    "held",
    "clock_jumped",
    "not_the_owner",
}
"""The reasons for which a part of that world is left."""


def told_of(world: ClutteredTier, file: Path) -> Told:
    """A plan beside damaged logs, which are named."""
    return planned_in(world, file, status=ExitStatus.PARTLY)


def test_each_name_of_a_refusal_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "deletion.md").read_text()
    told = text.partition("### When it is refused")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE)) == set(CleaningRefusal)


def test_a_plan_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    world, file = made(tmp_path / "world"), tmp_path / "plan"
    orphan(world, world.parts[0])
    planned_in(world, file)
    before = world.objects()
    whole = file.read_text()
    lines = whole.splitlines(keepends=True)
    apply = ("clean", "apply", file, *world.tier, *world.store, "--yes")
    old = json.loads(lines[0])

    for text, why in (
        ("".join(lines[:-1]), "it has no end"),
        (whole.replace(str(FIRST), str(FIRST + 1)), "it has been changed"),
        (whole + lines[1], "comes after the plan's end"),
        ("nonsense\n", "line 1: expected a line of a plan"),
        (whole.replace('"version":1', '"version":2'), "a newer program wrote this plan"),
    ):
        file.write_text(text)
        refused(invoke(*apply), why)
    for field, by, why in (
        ("made_ms", -8 * DAY_S * 1000, "stale_plan"),
        ("made_ms", DAY_S * 1000, "clock_jumped"),
        ("listed_ms", -8 * DAY_S * 1000, "stale_plan"),
    ):
        write_plan_with(file, lines, {field: old[field] + by})
        refused(invoke(*apply), f"error: {why}: ")
    write_plan_with(file, lines, {"cluster": "another"})
    refused(invoke(*apply), "error: other_place: ")
    assert world.objects() == before


def write_plan_with(file: Path, lines: list[str], head: Told) -> None:
    """Write a plan with another head, and the digest that belongs to it."""
    file.write_text("".join(lines))
    plan = read_plan(file)
    with file.open("wb") as out:
        write_plan(plan._replace(head=replace(plan.head, **head)), out)


def test_a_world_that_has_changed_in_one_place_is_left_in_all(tmp_path: Path) -> None:
    world, file = made(tmp_path / "world"), tmp_path / "plan"
    part = world.parts[0]
    orphan(world, part)
    asyncio.run(world.close())
    stuck(world, part)
    copied = world.last
    planned_in(world, file)
    apply = ("clean", "apply", file, *world.tier, *world.store, "--yes")

    done = log.SegmentUpdated(bytes(copied.remote_log_segment_id.id), 1, 1, 7, None)
    asyncio.run(world.append(part, [done]))
    before = world.objects()
    refused(invoke(*apply), "error: changed: 1 of 2 segments", "nothing was done")
    world.path.unlink()
    asyncio.run(rebuilt(world))
    refused(invoke(*apply), "error: changed: ", "the log is not the one that the plan has read")
    assert world.objects() == before


async def rebuilt(world: ClutteredTier) -> None:
    """Another log of the same partitions, which knows the same segments."""
    backend = await SqliteBackend.open(world.path)
    for part in world.parts:
        stored = await StoredPartition.led(backend, part.tip)
        for row in part.stored.state.rows:
            metadata = metadata_of(part.tip, row)
            started = replace(metadata, state=COPYING, custom_metadata=None)
            custom = world.custom().value
            update = log.SegmentUpdated(row[3:19], 1, 2, 8, custom)
            await stored.append([log.added_body(started), update])
        await stored.close()
    await backend.close()


@pytest.mark.parametrize("ended", ["begun", "deleted", "half moved"])
def test_a_run_that_was_killed_is_repeated(ended: str, tmp_path: Path) -> None:
    world, file = made(tmp_path), tmp_path / "plan"
    live, rows = world.objects(), world.rows()
    asyncio.run(world.close())
    part = world.parts[0]
    orphan(world, part)
    lost = world.objects()
    stuck(world, part)
    segment = world.last
    planned_in(world, file)
    head = json.loads(file.read_text().splitlines()[0])
    begun = log.SegmentUpdated(bytes(segment.remote_log_segment_id.id), 2, -1, 9, None)
    if ended != "half moved":
        asyncio.run(world.append(part, [begun]))
    if ended == "deleted":
        shutil.rmtree(world.root / place_of(segment, ""))
    if ended == "half moved":
        folder = world.root / FOLDER / head["plan"]
        first = min(lost.keys() - live.keys())
        target = folder / "objects" / first
        target.parent.mkdir(parents=True)
        (world.root / first).rename(target)
        taken = {
            "version": 1,
            "plan": head["plan"],
            "cluster": CLUSTER,
            "taken_ms": head["made_ms"],
            "objects": [
                {"name": name, "size": len(lost[name])} for name in lost.keys() - live.keys()
            ],
        }
        (folder / TAKEN).write_text(json.dumps(taken))

    assert applied(world, file)["segments"] == 2
    assert {name: one for name, one in world.objects().items() if FOLDER not in name} == live
    assert world.rows() == rows
    undone(world, file, status=3)
    assert world.objects() == lost


async def test_the_leader_ends_what_a_service_leads(tmp_path: Path) -> None:
    world, file = ClutteredTier(tmp_path, 1, 1), tmp_path / "plan"
    await world.build()
    await world.close()
    unled = world.parts[0]
    live = world.objects()
    await world.append(unled, world.life(unled, FIRST + 10 * SEGMENTS, COPYING, is_old=True))
    led = ClutteredPart(unled.stored, TopicIdPartition(world.id(), 0, "led"))
    run_here = partial(asyncio.to_thread, invoke)
    async with published(tmp_path, cluster=CLUSTER) as service:  # Its clock is old enough.
        coordinator = service.service.coordinator
        broker = await service.leader(led.tip)
        finished, *unfinished = [world.segment(led, 10 * at) for at in range(4)]
        live |= {
            str(one.relative_to(world.root)): one.read_bytes() for one in world.put(finished)
        }
        await broker.add_remote_log_segment_metadata(finished)
        custom = world.custom().value
        await broker.update_remote_log_segment_metadata(moved(finished, custom=custom))
        for one in unfinished:
            world.put(one, is_old=True)
            await broker.add_remote_log_segment_metadata(one)
        await broker.update_remote_log_segment_metadata(moved(unfinished[0], DELETING))

        planned = await run_here(
            *("clean", "plan", *world.tier, *world.store, "--out", file, "--json")
        )
        assert planned.exit_code == ExitStatus.FOUND, planned.output
        assert "3 segments are of partitions that brokers host" in planned.stderr
        assert json.loads(planned.stdout)["segments"] == 4
        apply = ("clean", "apply", file, *world.tier, *world.store, "--yes", "--json")
        await coordinator.hold(PlaceHold(Hold("case", "led", reason="a case", by="somebody")))
        refused(await run_here(*apply), "error: changed: 3 of 4 segments")
        await coordinator.hold(ReleaseHold("case", "somebody", "it is over"))
        done = await run_here(*apply)
        assert (done.exit_code, json.loads(done.stdout)["segments"]) == (0, 4), done.output
        assert json.loads((await run_here(*apply)).stdout)["segments"] == 0

        assert world.objects() == live
        assert [one.start_offset async for one in broker.list_remote_log_segments(led.tip)] == [
            0
        ]
        with pytest.raises(RemoteResourceNotFound):
            await broker.update_remote_log_segment_metadata(moved(unfinished[1]))
        undo = await run_here("clean", "undo", file, *world.tier, "--yes", "--json")
        assert json.loads(undo.stdout)["ended"] == 4
    assert (await run_here("verify", *world.store)).exit_code == 0
