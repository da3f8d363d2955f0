"""A world that has run, as a record that can be judged again."""

from __future__ import annotations

from collections.abc import Iterator

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.checkers.verdict import MINIMUMS
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.history.final_log import LoggedBatch
from tierledger.simulation.machines.laws.run_laws import checkpoints_written
from tierledger.simulation.machines.nodes.surroundings import CLUSTER_ID, CUSTOM_BYTES_MAX
from tierledger.simulation.machines.scenario.knobs import KEPT_DEFAULT
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.machines.verdict import healed
from tierledger.simulation.machines.world import World
from tierledger.simulation.record.record import (
    Observations,
    RecordedCheckpoint,
    RecordedLog,
    RecordSettings,
    RunRecord,
)


def refuse_newer(scenario: Scenario) -> None:
    """Raise an error for a world that no record can hold."""
    if scenario.writes_newer:
        raise InvalidArgument(
            f"seed {scenario.seed} writes in the format of a newer release, which no record "
            "has; expected --shape release=same"
        )


def record_of(world: World, origin: str) -> RunRecord:
    """A record of what callers saw, and of every log as it was written.

    `origin`: the run that made the record, as text for readers.

    Raises:
        InvalidArgument: A host wrote the format of a newer release.
    """
    refuse_newer(world.scenario)
    minimums = None if world.damaged or world.scenario.is_part else MINIMUMS
    settings = RecordSettings(CLUSTER_ID, origin, CUSTOM_BYTES_MAX, minimums=minimums)
    medium = world.medium
    logs = [
        RecordedLog(
            tip,
            [
                LoggedBatch(at, medium.truth[number, at], medium.durable_at[number, at] * 1000)
                for at in range(medium.heads.get(number, 0))
                if (number, at) in medium.truth
            ],
        )
        for number, tip in enumerate(world.tips)
    ]
    findings = []
    if not world.is_well:
        findings.append(Violation("liveness", None, "not well again after all had healed"))
    observer = world.observer
    # Records do not hold `REQUESTS_KEPT`: with another value, states cannot be judged again.
    is_usual = world.requests_kept == KEPT_DEFAULT
    states = observer.states if is_usual else []
    checkpoints = list(_checkpoints(world)) if is_usual else []
    seen = Observations(states, observer.applied, observer.led, healed(world))
    return RunRecord(settings, world.recorder.history(), logs, checkpoints, findings, seen)


def _checkpoints(world: World) -> Iterator[RecordedCheckpoint]:
    for number in range(world.scenario.partitions):
        tip, serde = world.tips[number], world.newer_serde
        for one in checkpoints_written(world.medium, world.keys, serde, tip):
            yield RecordedCheckpoint(world.keys_of[number], one.position, one.digest)
