"""Judges the run of a world: compares its history with the store's content at the end."""

from __future__ import annotations

import errno
import gc
import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, TypeAlias

import structlog

from tierledger.actors.calls import PartitionKey
from tierledger.actors.leader.machine import CHECKPOINT_EVENTS
from tierledger.actors.process_clock import OFF_MS
from tierledger.events.errors import DataError, RemoteStorageError
from tierledger.events.log_events import TombstonesDropped
from tierledger.simulation.checkers.all import check
from tierledger.simulation.checkers.feed import fed
from tierledger.simulation.checkers.model import wrong_import
from tierledger.simulation.checkers.verdict import CLOSELY, SeedVerdict
from tierledger.simulation.checkers.violation import Violation, bounded
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.observations import StateSeen
from tierledger.simulation.machines.asked import of_coordination, of_tables
from tierledger.simulation.machines.environment.collector import uncollected
from tierledger.simulation.machines.laws.coordination_laws import (
    EQUAL_ENOUGH,
    against_kafka,
    beside,
    crowded,
    early_ready,
    needless_fence,
    needless_loss,
    needless_move,
    passed_over,
    refusal_repeated,
    resigned,
    stalled_checkpoint,
    together,
    unannounced,
    unfollowed,
    unready,
)
from tierledger.simulation.machines.laws.counts import (
    SESSIONS_IN_A_ROW,
    counted,
    sessions_without_write,
)
from tierledger.simulation.machines.laws.run_laws import (
    Hindrance,
    Written,
    checkpoint_regressed,
    checkpoints_written,
    early_checkpoint,
    early_forgetting,
    late_follower,
    unsettled_dispute,
    unstored_checkpoint,
)
from tierledger.simulation.machines.laws.stored_states import (
    checkpoint_state,
    cold_state,
    stray_key,
)
from tierledger.simulation.machines.scenario.knobs import turned_to
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.machines.scenario.streams import stream
from tierledger.simulation.machines.struck import whole
from tierledger.simulation.questions.deletions import asking
from tierledger.simulation.service.at_rest import (
    SETTLED_S,
    always_well,
    followed,
    following,
    healed,
    is_at_rest,
    leader_at_end,
    loads,
    shells,
    wanted,
)
from tierledger.simulation.service.cluster import DAY_MS, WALL_MS
from tierledger.simulation.service.logs import coordination, log_of
from tierledger.simulation.service.plan import GAVE_UP, LOG_LINE_FAILED
from tierledger.simulation.service.stage import Stage
from tierledger.simulation.service.trash import of_deletions
from tierledger.simulation.service.world import LED_S, READ_S, World
from tierledger.storage.partition.checkpoint import CheckpointStore

WHY = "nobody reaches its door, while another host runs"

COMMANDS = 30
"""How many invented commands the rules decide on at the end of each log."""

_Logs: TypeAlias = "dict[PartitionKey, FinalLog]"
_Checkpoints: TypeAlias = "dict[PartitionKey, list[Written]]"


def judge(scenario: Scenario) -> SeedVerdict:
    """Run the world and check it."""
    world = World(scenario)
    try:
        run(world)
        verdict = verdict_of(world)
    finally:
        discard(world)
    gc.collect()  # The collector was off during the run.
    return verdict


def ran(scenario: Scenario, *, keeps: bool = False) -> World:
    """The world of `scenario`, run to its end."""
    world = World(scenario, keeps=keeps)
    run(world)
    return world


def run(world: World) -> None:
    """Run the world to its end."""
    with logging_in(world), uncollected():
        world.run(partial(is_at_rest, world))


def discard(stage: Stage) -> None:
    """Close what the run left suspended; judge it first."""
    stage.loop.close()
    stage.is_healing = True  # What clean-ups log must not fail them.
    with logging_in(stage):
        stage.loop.discard()


@contextmanager
def logging_in(world: Stage) -> Iterator[None]:
    """Suppress the service's log lines, and let some fail: its file system may be full.

    A line that fails must make no difference to the run. One that tells of an unforeseen error
    is a failure of the run, whatever the process made of that error.
    """
    chances = stream(world.scenario.seed, "log lines")
    chance = chances.choice((0.0, 0.1, 1.0))

    def written(_: object, __: str, line: MutableMapping[str, Any]) -> NoReturn:
        error = line.get("exc_info")
        if isinstance(error, Exception) and not isinstance(error, RemoteStorageError):
            world.loop.failures.append(error)
        if not world.is_healing and chances.random() < chance:
            world.recording.mark(LOG_LINE_FAILED)
            raise OSError(errno.ENOSPC, "No space left on device")
        raise structlog.DropEvent

    former = structlog.get_config() if structlog.is_configured() else None
    # The level of this process's own log must not decide which lines may fail.
    all_lines = structlog.make_filtering_bound_logger(logging.NOTSET)
    structlog.configure(processors=[written], wrapper_class=all_lines)
    try:
        yield
    finally:
        structlog.reset_defaults()
        if former is not None:
            structlog.configure(**former)


def verdict_of(world: World) -> SeedVerdict:
    """The results of all checkers for a world that has run."""
    with turned_to(world.scenario.knobs):
        return _verdict_of(world)


def _verdict_of(world: World) -> SeedVerdict:
    history, watch = world.recorder.history(), world.cluster.watch
    violations = list(of_the_run(world))
    logs, checkpoints, unlawful = _stored(world)
    is_readable = not unlawful
    violations += unlawful
    violations += _of_processes(world, logs, checkpoints)
    if len(logs) == len(world.tips):
        for shell in shells(world):
            watch.observer.saw(shell)
        looks_closer = is_readable and world.scenario.seed % CLOSELY == 0
        violations += check(
            history,
            logs,
            checkpoints={key: [one[1:] for one in some] for key, some in checkpoints.items()},
            states=[*watch.observer.states, *(_cold(world, logs) if looks_closer else ())],
            applied=watch.observer.applied,
            led=watch.observer.led,
            healed=healed(world) if world.is_well else None,
            limits=world.settings.limits,
            drafts=world.drafts,
            asks=asking(COMMANDS),
            minimums=world.minimums,
        )
    for log in logs.values():
        violations += bounded(_untimely(world, log))
        if sessions_without_write(log) > SESSIONS_IN_A_ROW:
            world.recording.mark("three sessions without a write between")
    ok_calls = sum(op.outcome == "ok" for op in history.operations)
    return SeedVerdict(
        seed=world.scenario.seed,
        violations=violations,
        trace_hash=world.recording.digest(),
        calls=len(history.operations),
        ok_calls=ok_calls,
        changes=world.controller.changes,
        steps=world.loop.clock.steps,
        virtual_s=world.loop.time(),
        marks=world.recording.marks,
        counts=counted(
            world.recording.marks, logs, [(one.key, one.machine.state) for one in shells(world)]
        ),
    )


def _stored(world: World) -> tuple[_Logs, _Checkpoints, list[Violation]]:
    """The logs and checkpoints that were written, and violations: unreadable or wrong ones."""
    logs: _Logs = {}
    checkpoints: _Checkpoints = {}
    found: list[Violation] = []
    serde, keys, medium = world.newer_serde, world.keys, world.medium
    for tip in world.tips:
        key = PartitionKey.of(tip)
        try:
            log = logs[key] = log_of(world, tip)
            written = checkpoints[key] = checkpoints_written(medium, keys, serde, tip)
            found += early_checkpoint(written, log)
            if world.recording.marks.get("bit rot in a checkpoint"):
                continue
            found += checkpoint_regressed(written, key)
            store = CheckpointStore(medium.backend, keys, serde, tip)
            world.cluster.watch.observer.states += checkpoint_state(store, log, world.now_ns())
            prefix = keys.state(tip)
            found += stray_key(store, [one for one in medium.state if one.startswith(prefix)])
        except DataError as error:
            found.append(Violation(type(error).__name__, key, str(error)))
    return logs, checkpoints, found


def _cold(world: World, logs: _Logs) -> Iterator[StateSeen]:
    """The states that a new process loads from the store after all others have ended."""
    serde, values = world.newer_serde, world.medium.state
    for number, tip in enumerate(world.tips):
        if number in world.damaged or world.recording.marks.get("bit rot in a checkpoint"):
            continue
        store = CheckpointStore(world.medium.backend, world.keys, serde, tip)
        prefix = world.keys.log(tip)
        batches = enumerate(value for key, value in values.items() if key.startswith(prefix))
        yield cold_state(store, logs[PartitionKey.of(tip)], serde, batches, world.now_ns())


def _of_processes(world: World, logs: _Logs, checkpoints: _Checkpoints) -> Iterator[Violation]:
    """Violations that callers do not notice, such as a leader that moves without cause."""
    events, watch, plan = coordination(world), world.cluster.watch, world.scenario
    knobs, room = dict(plan.knobs), plan.partitions_per_host
    keys = [PartitionKey.of(tip) for tip in world.tips]
    yield from refusal_repeated(events)
    equal_enough = knobs.get("SPREAD", EQUAL_ENOUGH)
    doors, operator = watch.doors, world.operator

    def may_be_emptied(host: str, time: int) -> bool:
        return doors.may_be_shut(host, time) or operator.may_be_relieved(host, time)

    yield from needless_move(events, world.moved, watch.refusals, equal_enough, may_be_emptied)
    yield from passed_over(events)
    yield from needless_loss(events, always_well(world))
    yield from beside(events, len(keys), room, doors.is_open)
    yield from crowded(events, room)
    yield from needless_fence(events, watch.fenced, watch.accepted)
    yield from unannounced(events, watch.accepted)
    yield from against_kafka(events, watch.informed)
    yield from early_ready(events, watch.observer.ready, logs)
    yield from watch.observer.failures
    yield from bounded(watch.forgotten)
    yield from fed(world.fed.seen, logs)
    yield from bounded(world.fed.refused)
    yield from _behind(world, logs)
    yield from unstored_checkpoint(watch.checkpoints, checkpoints)
    for key, log in logs.items():
        yield from unsettled_dispute(log, watch.named.get(key, ()), resigned(events, key))
        yield from early_forgetting(log, world.settings.limits.tombstone_retention_ms)
        yield from wrong_import(log, {one.cluster: one.records for one in world.importers})
    yield from of_deletions(world, logs)
    yield from of_tables(logs.values(), plan.seed)
    bodies, in_pieces = [event.body for event in events], plan.seed % 2 == 0
    yield from of_coordination(bodies, world.keys_of, plan.seed, in_pieces=in_pieces)
    if not world.is_well:
        return
    for one in sorted(world.left_over or (), key=lambda one: one[:2]):
        message = f"{one.holder} still waits: {one.what}"
        yield Violation("left_over", None, message)
    until = world.now_ns() - int(SETTLED_S * 1e9)
    keys = [world.keys_of[number] for number in whole(world)]
    yield from together(events, keys, loads(world), room, until)
    yield from unfollowed(following(world), followed(world), events)
    yield from unready(wanted(world), world.well_at)
    every = knobs.get("CHECKPOINT_EVENTS", CHECKPOINT_EVENTS)
    for key, log in logs.items():
        if key.partition in world.damaged:
            continue
        written, leader = checkpoints.get(key, ()), leader_at_end(world, log)
        last = next(reversed(written), None)
        if "bit rot in a checkpoint" in world.recording.marks:
            # A former leader may have replaced the damaged one, which the leader counts from.
            last = max(written, key=lambda one: one.position, default=None)
        yield from stalled_checkpoint(log, leader, world.well_at, last, every)


def _behind(world: World, logs: _Logs) -> Iterator[Violation]:
    """Followers that are behind at any time, and not only when all has healed."""
    if world.scenario.one_writer and world.scenario.is_bucket:
        return  # All read through the writer, and what hinders that hinders them.
    hindrances = [
        *world.paused,
        *(
            Hindrance(site, since * 1000, until * 1000)
            for site, since, until in world.medium.mistreated
        ),
    ]
    whole = {key: log for key, log in logs.items() if key.partition not in world.damaged}
    yield from late_follower(world.seen, whole, hindrances, int(READ_S * 1e9))


def of_the_run(world: World) -> list[Violation]:
    """Violations that need no log: unexpected exceptions, wrong frames, no recovery."""
    found = [
        Violation("unforeseen_failure", None, f"{type(error).__name__}: {error}")
        for error in world.loop.failures
    ]
    found += bounded(world.watch.violations)
    gave_up = world.recording.marks.get(GAVE_UP)
    if gave_up:
        found.append(Violation("unforeseen_failure", None, f"{gave_up} processes gave up"))
    found += [
        Violation(
            "unreached", key, f"{host} leads it {LED_S:g} s after all other faults, and {WHY}"
        )
        for key, host in world.unreached
    ]
    if not world.is_well:
        found.append(Violation("liveness", None, "not well again after all had healed"))
    return found


def _untimely(world: World, log: FinalLog) -> list[Violation]:
    """Events in a log whose time is ahead of the world's, or that forget deletions early."""
    found, spread_ms = [], max(map(abs, world.scenario.skews_ms)) + world.stepped_ms
    # While most clocks do not agree, a process may write the time of one that is behind.
    behind_ms = max(0, -(world.scenario.clock_off or ("", 0))[1]) * DAY_MS
    kept_ms = world.settings.limits.tombstone_retention_ms - 2 * (spread_ms + OFF_MS)
    kept_ms -= behind_ms
    for event, at in zip(log.events, log.durable_at, strict=True):
        if at is None:
            continue
        ahead_ms = event.log_time_ms - WALL_MS - at // 1_000_000
        if ahead_ms > spread_ms + OFF_MS:
            text = f"the time of event {event.position} is {ahead_ms} ms ahead of the world's"
            found.append(Violation("runaway_time", log.key, text))
        if isinstance(event.body, TombstonesDropped) and at // 1_000_000 < kept_ms:
            text = f"event {event.position} forgets deletions that are younger than the world"
            found.append(Violation("early_forgetting", log.key, text))
    return found
