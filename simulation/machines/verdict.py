"""What a run of state machines comes to: its history held against the log that was written."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.events.errors import DataError
from tierledger.events.log_events import SessionClosed
from tierledger.simulation.checkers import Minimums, check
from tierledger.simulation.checkers_violation import Violation
from tierledger.simulation.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.simulation.machines.world import CLUSTER_ID, CUSTOM_BYTES_MAX, World
from tierledger.simulation.service.lying_store import completed
from tierledger.storage.checkpoint import CheckpointStore

if TYPE_CHECKING:
    from tierledger.simulation.machines.scenario import Scenario

SESSIONS_IN_A_ROW = 2

MINIMUMS = Minimums(ok_writes=1)
"""Of one seed; a campaign asks more of all its seeds together."""


class Verdict(NamedTuple):
    """One seed's outcome."""

    seed: int
    violations: list[Violation]
    trace_hash: str
    calls: int
    ok_calls: int
    changes: int
    """Sessions after the first, over all partitions."""
    steps: int
    virtual_s: float
    marks: dict[str, int]


def judge(scenario: Scenario) -> Verdict:
    """Run the world and check it."""
    return verdict_of(ran(scenario))


def ran(scenario: Scenario, *, keeps: bool = False) -> World:
    """The world of `scenario`, at its end."""
    world = World(scenario, keeps=keeps)
    was_on = gc.isenabled()
    gc.disable()  # A world is short, and all of it goes at once.
    try:
        world.run()
    finally:
        if was_on:
            gc.enable()
    return world


def verdict_of(world: World) -> Verdict:
    """What every checker says of a world that has run."""
    history = world.recorder.history()
    violations: list[Violation] = []
    if not world.is_well:
        violations.append(Violation("liveness", None, "not well again after all had healed"))
    logs: dict[PartitionKey, FinalLog] = {}
    checkpoints: dict[PartitionKey, list[tuple[int, bytes]]] = {}
    for number in range(world.scenario.partitions):
        key = world.keys_of[number]
        try:
            logs[key] = _log(world, number)
            checkpoints[key] = _checkpoint(world, number)
        except DataError as error:
            violations.append(Violation(type(error).__name__, key, str(error)))
    if len(logs) == world.scenario.partitions:
        violations += check(
            history,
            logs,
            checkpoints=checkpoints,
            custom_metadata_bytes_max=CUSTOM_BYTES_MAX,
            # Where the log was damaged early nothing may be written any more.
            minimums=None if world.damaged else MINIMUMS,
        )
    for log in logs.values():
        if _sessions_without_write(log) > SESSIONS_IN_A_ROW:
            world.recording.mark("three sessions without a write between")
    return Verdict(
        seed=world.scenario.seed,
        violations=violations,
        trace_hash=world.recording.digest(),
        calls=len(history.operations),
        ok_calls=sum(op.outcome == "ok" for op in history.operations),
        changes=sum(max(0, len(log.sessions) - 1) for log in logs.values()),
        steps=world.clock.steps,
        virtual_s=world.clock.now / 1e6,
        marks=world.recording.marks,
    )


def _sessions_without_write(log: FinalLog) -> int:
    """The most sessions that opened one after the other while nothing was written."""
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
    ]
    return decode_log(world.newer_serde, CLUSTER_ID, world.tips[number], batches)


def _checkpoint(world: World, number: int) -> list[tuple[int, bytes]]:
    """Position and digest of the checkpoint that stands, if one does and was not damaged."""
    if world.recording.marks.get("bit rot in a checkpoint"):
        return []
    store = CheckpointStore(
        world.medium.backend, world.keys, world.newer_serde, world.tips[number]
    )
    stored = completed(store.read_stored())
    if stored is None:
        return []
    state = completed(store.load(stored, store.parse_partition(stored)))
    return [(state.next_position - 1, state.digest())]
