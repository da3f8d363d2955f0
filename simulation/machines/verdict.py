"""The verdict on a run of state machines: its history is compared with the logs written."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from typing_extensions import override

from tierledger.actors.calls import FOLLOWER, PartitionKey
from tierledger.actors.leader.machine import CHECKPOINT_EVENTS
from tierledger.events.errors import CorruptCheckpoint, DataError
from tierledger.events.event_codec import genesis
from tierledger.events.log_events import SessionClosed
from tierledger.events.partition.evolve import evolve_all
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.all import check
from tierledger.simulation.checkers.feed import fed
from tierledger.simulation.checkers.fold import UNFOLDABLE, folded
from tierledger.simulation.checkers.model import wrong_import
from tierledger.simulation.checkers.state_digest import fields_that_differ, state_digest
from tierledger.simulation.checkers.verdict import MINIMUMS, SeedVerdict
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.simulation.history.observations import CHECKPOINT, COLD, Healed, StateSeen
from tierledger.simulation.machines.environment.medium import completed
from tierledger.simulation.machines.laws.coordination_laws import (
    Coordinated,
    against_kafka,
    beside,
    coordinated,
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
    unanswered,
    unfollowed,
    unready,
)
from tierledger.simulation.machines.laws.counts import counted
from tierledger.simulation.machines.laws.run_laws import (
    Written,
    checkpoint_regressed,
    checkpoints_written,
    early_checkpoint,
    early_forgetting,
    unsettled_dispute,
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
from tierledger.simulation.machines.world import World
from tierledger.simulation.questions.coordination import miscoordinated
from tierledger.simulation.questions.decisions import asking
from tierledger.simulation.questions.feeds import misfed
from tierledger.simulation.questions.memory import wrong_memory
from tierledger.simulation.questions.tables import wrong_table
from tierledger.storage.partition.checkpoint import CheckpointStore, PartitionValue
from tierledger.storage.partition.event_log import StoredBatch, decode_batch

SESSIONS_IN_A_ROW = 2

CLOSELY = 4
"""In one seed in so many, a new process also reads the store after the run."""

QUERIES = 40
"""Questions that the service's rules and the slow model answer at the end of each log."""

COMMANDS = 30
"""Further commands that leaders decide on, for each log."""

HAPPENINGS = 80
"""Further happenings that a coordinator decides on."""

CHANGES = 60
"""Changes of each table, with small pages and shards; also the messages of `wrong_memory`."""

FEW = (("PAGE_ENTRIES_MAX", 3), ("SHARD_ROWS", 2))

FEEDS = (("FRAME_ROWS", 1), ("RING_BYTES", 1500))

PIECES = (("ITEMS_MAX", 2),)
"""Partitions that are placed at once, in half of the seeds that ask coordinators."""

KEYS = 3
"""Partitions that the further happenings are about."""

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


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn garbage collection off: a world lives briefly, and is freed as a whole."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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
                *(_cold(world) if looks_closer and is_readable else ()),
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
        if _sessions_without_write(log) > SESSIONS_IN_A_ROW:
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
        counts=counted(world, logs),
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
            written = checkpoints[key] = checkpoints_written(world, number)
            if not world.recording.marks.get("bit rot in a checkpoint"):
                unlawful += checkpoint_regressed(written, key)
            unlawful += early_checkpoint(written, logs[key])
            world.observer.states += _checkpoint(world, number, logs[key])
        except DataError as error:
            unlawful.append(Violation(type(error).__name__, key, str(error)))
    return logs, checkpoints, unlawful


def _of_the_run(world: World, logs: _Logs, checkpoints: _Checkpoints) -> Iterator[Violation]:
    """Violations that callers do not notice, such as a replica that is behind."""
    events = coordinated(world)
    histories = {one.cluster: one.records for one in world.importers}
    yield from refusal_repeated(events)
    yield from needless_move(events, world.moved, world.refusals)
    yield from passed_over(events)
    yield from needless_loss(events, world)
    yield from beside(events, world)
    yield from crowded(events, world.scenario.partitions_per_host)
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
    yield from together(world, events)
    yield from unfollowed(world, events)
    yield from unready(world)
    every = dict(world.scenario.knobs).get("CHECKPOINT_EVENTS", CHECKPOINT_EVENTS)
    for number, key in enumerate(world.keys_of[: world.scenario.partitions]):
        log = logs.get(key)
        if log is not None and number not in world.damaged:
            last = next(reversed(checkpoints.get(key, ())), None)
            yield from stalled_checkpoint(world, number, log, last, every)
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
        with turned_to(FEW):
            yield from wrong_table(seed, CHANGES)
        yield from wrong_memory(seed, CHANGES)
        with turned_to(FEEDS):
            for log in logs.values():
                if folded(log) is not None:
                    yield from misfed(log, seed, 2 * CHANGES)
    if seed % TURNS == COORDINATION:
        bodies = [event.body for event in events]
        with turned_to(PIECES if seed % (2 * TURNS) == COORDINATION else ()):
            yield from miscoordinated(bodies, world.keys_of[:KEYS], HAPPENINGS, seed)


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


def _cold(world: World) -> Iterator[StateSeen]:
    """The states that a new process loads from the store after all others have ended."""
    for number in range(world.scenario.partitions):
        if number in world.damaged or world.recording.marks.get("bit rot in a checkpoint"):
            continue
        tip, serde = world.tips[number], world.newer_serde
        store = CheckpointStore(world.medium.backend, world.keys, serde, tip)
        stored = completed(store.read_stored())
        state = PartitionState(tip, genesis(CLUSTER_ID, tip.topic_id, tip.partition))
        at = 0
        if stored is not None:
            value = store.parse_partition(stored)
            state, at = completed(store.load(stored, value)), value.next_batch
        for batch in range(at, world.medium.heads.get(number, 0)):
            read = StoredBatch(batch, world.medium.log[number, batch])
            decoded = decode_batch(serde, read, state.next_position, state.chain_hash)
            evolve_all(state, decoded.events, decoded.chain_hash)
        key, now = world.keys_of[number], world.clock.now * 1000
        yield StateSeen(now, "cold", COLD, key, state.next_position - 1, state_digest(state))


def _sessions_without_write(log: FinalLog) -> int:
    """The greatest number of sessions in a row without a write in between."""
    most = run = 0
    last = -9
    for position in log.sessions:
        between = log.events[last + 1 : position] if last >= 0 else ()
        idle = all(isinstance(event.body, SessionClosed) for event in between)
        run = run + 1 if idle else 1
        most, last = max(most, run), position
    return most


def _log(world: World, number: int) -> FinalLog:
    truth, durable_at = world.medium.truth, world.medium.durable_at
    batches = [
        LoggedBatch(at, truth[number, at], durable_at[number, at] * 1000)
        for at in range(world.medium.heads.get(number, 0))
        if (number, at) in truth
    ]
    return decode_log(world.newer_serde, CLUSTER_ID, world.tips[number], batches)


def _checkpoint(world: World, number: int, log: FinalLog) -> Iterator[StateSeen]:
    """The state in the newest checkpoint, if there is one and it was not damaged.

    Raises:
        CorruptCheckpoint: It does not verify; the message names what differs from the log.
    """
    if world.recording.marks.get("bit rot in a checkpoint"):
        return
    store = CheckpointStore(
        world.medium.backend, world.keys, world.newer_serde, world.tips[number]
    )
    stored = completed(store.read_stored())
    if stored is None:
        return
    value = store.parse_partition(stored)
    try:
        state = completed(store.load(stored, value))
    except CorruptCheckpoint as error:
        names = _fields_wrong(store, stored, value, log)
        raise CorruptCheckpoint(f"{error}; {names} are not those of the log") from error
    now = world.clock.now * 1000
    position = value.next_position - 1
    yield StateSeen(now, "checkpoint", CHECKPOINT, log.key, position, state_digest(state))


class _Whatever:
    """Equal to any other value, in place of a digest or count that is not checked."""

    @override
    def __eq__(self, other: object) -> bool:
        return True

    @override
    def __hash__(self) -> int:
        return 0


def _fields_wrong(
    store: CheckpointStore, stored: bytes, value: PartitionValue, log: FinalLog
) -> str:
    """The fields of a checkpoint that does not verify which differ from the log, as text."""
    try:
        believed = value._replace(digest=_Whatever(), row_count=_Whatever())  # type: ignore[arg-type]
        state = completed(store.load(stored, believed))
        until = log.events[: value.next_position]
        fold = PartitionState(log.topic_id_partition, log.genesis)
        evolve_all(fold, until, log.chain_hashes.get(value.next_position - 1, b""))
    except UNFOLDABLE as error:
        return f"they cannot even be read ({error}), so that all"
    return f"its {', '.join(fields_that_differ(state_digest(state), state_digest(fold)))}"
