"""The verdict on a run of state machines: its history is compared with the logs written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tierledger.actors.calls import FOLLOWER, PartitionKey
from tierledger.actors.leader.machine import CHECKPOINT_EVENTS
from tierledger.events.errors import DataError
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.all import check
from tierledger.simulation.checkers.feed import fed
from tierledger.simulation.checkers.model import wrong_import
from tierledger.simulation.checkers.verdict import CLOSELY, MINIMUMS, SeedVerdict
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.simulation.history.observations import Healed, StateSeen
from tierledger.simulation.machines.asked import of_coordination, of_tables
from tierledger.simulation.machines.at_rest import (
    SETTLED,
    always_well,
    coordination,
    followed,
    following,
    leader_at_end,
    loads,
    unanswered,
    wanted,
)
from tierledger.simulation.machines.environment.collector import uncollected
from tierledger.simulation.machines.laws.coordination_laws import (
    Coordinated,
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
    unfollowed,
    unready,
)
from tierledger.simulation.machines.laws.counts import (
    SESSIONS_IN_A_ROW,
    counted,
    sessions_without_write,
)
from tierledger.simulation.machines.laws.run_laws import (
    Written,
    checkpoint_regressed,
    checkpoints_written,
    early_checkpoint,
    early_forgetting,
    unsettled_dispute,
)
from tierledger.simulation.machines.laws.stored_states import (
    checkpoint_state,
    cold_state,
    stray_key,
)
from tierledger.simulation.machines.nodes.host import POLL
from tierledger.simulation.machines.nodes.shell import RETRY
from tierledger.simulation.machines.nodes.surroundings import CLUSTER_ID
from tierledger.simulation.machines.run import (
    CATCHING_UP,
    COORDINATION,
    DECISIONS,
    TABLES,
    TURNS,
    run,
)
from tierledger.simulation.machines.scenario.knobs import turned_to
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.machines.struck import whole
from tierledger.simulation.machines.world import World
from tierledger.simulation.questions.decisions import asking
from tierledger.storage.partition.checkpoint import CheckpointStore

QUERIES = 40
"""Questions that the service's rules and the slow model answer at the end of each log."""

COMMANDS = 30
"""Further commands that leaders decide on, for each log."""

_Logs: TypeAlias = "dict[PartitionKey, FinalLog]"
_Checkpoints: TypeAlias = "dict[PartitionKey, list[Written]]"


def judge(scenario: Scenario) -> SeedVerdict:
    """Run the world and check it."""
    with uncollected():
        return verdict_of(ran(scenario))


def ran(scenario: Scenario, *, keeps: bool = False) -> World:
    """The world of `scenario`, after it has run."""
    world = World(scenario, keeps=keeps)
    with uncollected():
        run(world)
    return world


def verdict_of(world: World) -> SeedVerdict:
    """The verdict of all checkers on a world that has run."""
    with turned_to(world.scenario.knobs):  # They determine what states forget.
        return _verdict_of(world)


def _verdict_of(world: World) -> SeedVerdict:
    history = world.recorder.history()
    logs, checkpoints, violations = _stored(world)
    is_readable = not violations
    violations += _of_the_run(world, logs, checkpoints)
    looks_closer = world.scenario.seed % CLOSELY == 0
    if len(logs) == world.scenario.partitions:
        violations += check(
            history,
            logs,
            checkpoints={key: [one[1:] for one in some] for key, some in checkpoints.items()},
            states=[
                *world.observer.states,
                *(_cold(world, logs) if looks_closer and is_readable else ()),
            ],
            applied=world.observer.applied,
            led=world.observer.led,
            healed=healed(world),
            limits=world.limits,
            drafts=world.drafts,
            asks=asking(COMMANDS) if world.scenario.seed % TURNS == DECISIONS else None,
            questions=QUERIES,
            # Where the log was damaged early nothing may be written any more.
            minimums=None if world.damaged or world.scenario.is_part else MINIMUMS,
        )
    for log in logs.values():
        if sessions_without_write(log) > SESSIONS_IN_A_ROW:
            world.recording.mark("three sessions without a write between")
    return SeedVerdict(
        seed=world.scenario.seed,
        violations=violations,
        trace_hash=world.recording.digest(),
        calls=len(history.operations),
        ok_calls=sum(op.outcome == "ok" for op in history.operations),
        changes=sum(max(0, len(log.sessions) - 1) for log in logs.values()),
        steps=world.clock.steps,
        virtual_s=world.clock.now / 1e6,
        marks=world.recording.marks,
        counts=counted(world.recording.marks, logs, _states(world)),
    )


def _stored(world: World) -> tuple[_Logs, _Checkpoints, list[Violation]]:
    """The logs and checkpoints that were written, and violations: unreadable or wrong ones."""
    logs: _Logs = {}
    checkpoints: _Checkpoints = {}
    unlawful: list[Violation] = []
    for number in range(world.scenario.partitions):
        key = world.keys_of[number]
        try:
            logs[key] = _log(world, number)
            written = checkpoints[key] = checkpoints_written(
                world.medium, world.keys, world.newer_serde, world.tips[number]
            )
            if not world.recording.marks.get("bit rot in a checkpoint"):
                unlawful += checkpoint_regressed(written, key)
            unlawful += early_checkpoint(written, logs[key])
            if not world.recording.marks.get("bit rot in a checkpoint"):
                tip, serde = world.tips[number], world.newer_serde
                store = CheckpointStore(world.medium.backend, world.keys, serde, tip)
                now = world.clock.now * 1000
                world.observer.states += checkpoint_state(store, logs[key], now)
                prefix = world.keys.state(tip)
                unlawful += stray_key(
                    store, [one for one in world.medium.state if one.startswith(prefix)]
                )
        except DataError as error:
            unlawful.append(Violation(type(error).__name__, key, str(error)))
    return logs, checkpoints, unlawful


def _of_the_run(world: World, logs: _Logs, checkpoints: _Checkpoints) -> Iterator[Violation]:
    """Violations that callers do not notice, such as a replica that is behind."""
    events = coordination(world)
    room = world.scenario.partitions_per_host
    histories = {one.cluster: one.records for one in world.importers}
    yield from refusal_repeated(events)
    yield from needless_move(events, world.moved, world.refusals)
    yield from passed_over(events)
    yield from needless_loss(events, always_well(world))
    yield from beside(events, world.scenario.partitions, room)
    yield from crowded(events, room)
    yield from needless_fence(events, world.fenced)
    yield from against_kafka(events, world.informed)
    yield from _asked(world, events, logs)
    yield from early_ready(events, world.observer.ready, logs)
    yield from world.observer.failures
    yield from fed(world.feeding.seen, logs)
    for time, name, number, why in world.feeding.refused:
        message = f"{name} at {ms_text(time)}: {why}"
        yield Violation("fed_refused", world.keys_of[number], message)
    for number in range(world.scenario.partitions):
        log = logs.get(world.keys_of[number])
        if log is not None:
            named = world.oracle_named.get(number, ())
            yield from unsettled_dispute(log, named, resigned(events, log.key))
            yield from early_forgetting(log, world.limits.tombstone_retention_ms)
            yield from wrong_import(log, histories)
    if not world.is_well:
        yield Violation("liveness", None, _unwell(world))
        return
    yield from unanswered(world)
    keys, until = [world.keys_of[one] for one in whole(world)], world.clock.now - SETTLED
    yield from together(events, keys, loads(world), room, until * 1000)
    yield from unfollowed(following(world), followed(world), events)
    yield from unready(wanted(world), world.well_at * 1000)
    every = dict(world.scenario.knobs).get("CHECKPOINT_EVENTS", CHECKPOINT_EVENTS)
    for number, key in enumerate(world.keys_of[: world.scenario.partitions]):
        log = logs.get(key)
        if log is not None and number not in world.damaged:
            last = next(reversed(checkpoints.get(key, ())), None)
            leader = leader_at_end(world, number, log)
            yield from stalled_checkpoint(log, leader, world.well_at * 1000, last, every)
    for host in world.hosts.values():
        for (number, role), shell in host.shells.items():
            log = logs.get(world.keys_of[number])
            if role != FOLLOWER or not host.life.is_reachable or number in world.damaged:
                continue
            if world.clock.now - shell.began < CATCHING_UP:
                continue  # A slow coordinator has just placed it.
            due = _due(world, log) if log is not None else -1
            if shell.machine.position < due:
                durable_at = ms_text(log.durable_at[due] or 0) if log is not None else ""
                message = (
                    f"{shell.name} is at position {shell.machine.position}; {due} is durable "
                    f"since {durable_at}"
                )
                yield Violation("liveness", world.keys_of[number], message)


def _unwell(world: World) -> str:
    """The brokers that could not write after all had healed, as text."""
    waiting = ", ".join(
        f"broker {world.controller.leader[number]} partition {number}"
        for number in range(world.scenario.partitions)
        if not world.controller.is_well(number)
    )
    return (
        f"nothing failed since {ms_text(world.healed_at * 1000)}, and true leaders could not "
        f"write: {waiting or 'brokers still wait for answers'}"
    )


def _asked(world: World, events: Sequence[Coordinated], logs: _Logs) -> Iterator[Violation]:
    """Violations by rules and tables that are given input which no process has sent."""
    seed = world.scenario.seed
    if seed % TURNS == TABLES:
        yield from of_tables(logs.values(), seed)
    if seed % TURNS == COORDINATION:
        bodies, in_pieces = [event.body for event in events], seed % (2 * TURNS) == COORDINATION
        yield from of_coordination(bodies, world.keys_of, seed, in_pieces=in_pieces)


def _states(world: World) -> Iterator[tuple[PartitionKey, PartitionState | None]]:
    for host in world.hosts.values():
        for shell in host.shells.values():
            yield shell.key, shell.machine.state


def _due(world: World, log: FinalLog) -> int:
    """The last position that a follower must have read by now.

    It polls, and then reads a slot and the log: four messages, and each may be slow.
    """
    slow = 4 * max(world.scenario.delays)
    since = (world.clock.now - POLL - RETRY - slow) * 1000
    return sum(at is not None and at <= since for at in log.durable_at) - 1


def healed(world: World) -> dict[PartitionKey, Healed]:
    """Partitions that have to be well again: not those that were damaged or deleted."""
    since, until = world.healed_at * 1000, world.well_at * 1000
    controller = world.controller
    return {
        world.keys_of[number]: Healed(since, until, controller.leader[number])
        for number in range(world.scenario.partitions)
        if number not in world.damaged and not world.deletions.get(number)
    }


def _cold(world: World, logs: _Logs) -> Iterator[StateSeen]:
    """The states that a new process loads from the store after all others have ended."""
    for number in range(world.scenario.partitions):
        if number in world.damaged or world.recording.marks.get("bit rot in a checkpoint"):
            continue
        tip, serde, medium = world.tips[number], world.newer_serde, world.medium
        store = CheckpointStore(medium.backend, world.keys, serde, tip)
        batches = ((at, medium.log[number, at]) for at in range(medium.heads.get(number, 0)))
        log = logs[world.keys_of[number]]
        yield cold_state(store, log, serde, batches, world.clock.now * 1000)


def _log(world: World, number: int) -> FinalLog:
    truth, durable_at = world.medium.truth, world.medium.durable_at
    batches = [
        LoggedBatch(at, truth[number, at], durable_at[number, at] * 1000)
        for at in range(world.medium.heads.get(number, 0))
        if (number, at) in truth
    ]
    return decode_log(world.newer_serde, CLUSTER_ID, world.tips[number], batches)
