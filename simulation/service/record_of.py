"""A world of the service that has run, as a record that can be judged again."""

from __future__ import annotations

from collections.abc import Iterator

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.machines.laws.run_laws import checkpoints_written
from tierledger.simulation.machines.scenario.knobs import KEPT_DEFAULT
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.record.record import (
    Observations,
    RecordedCheckpoint,
    RecordedLog,
    RecordSettings,
    RunRecord,
)
from tierledger.simulation.service.at_rest import healed
from tierledger.simulation.service.logs import batches_of
from tierledger.simulation.service.stage import CLUSTER_ID, CUSTOM_BYTES_MAX
from tierledger.simulation.service.verdict import of_the_run
from tierledger.simulation.service.world import World


def record_of(world: World, origin: str) -> RunRecord:
    """A record of what callers saw, and of every log as it was written.

    `origin`: the run that made the record, as text for readers.

    Raises:
        InvalidArgument: A host wrote the format of a newer release.
    """
    _refuse_newer(world.scenario)
    plan, observer = world.scenario, world.cluster.watch.observer
    settings = RecordSettings(CLUSTER_ID, origin, CUSTOM_BYTES_MAX, minimums=world.minimums)
    logs = [RecordedLog(tip, batches_of(world, tip)) for tip in world.tips]
    # Records do not hold `REQUESTS_KEPT`: with another value, states cannot be judged again.
    is_usual = dict(plan.knobs).get("REQUESTS_KEPT", KEPT_DEFAULT) == KEPT_DEFAULT
    states = observer.states if is_usual else []
    checkpoints = list(_checkpoints(world)) if is_usual else []
    healed_keys = healed(world) if world.is_well else {}
    seen = Observations(states, observer.applied, observer.led, healed_keys)
    findings, history = of_the_run(world), world.recorder.history()
    return RunRecord(settings, history, logs, checkpoints, findings, seen)


def _refuse_newer(scenario: Scenario) -> None:
    """Raise an error for a world that no record can hold."""
    if scenario.writes_newer:
        raise InvalidArgument(
            f"seed {scenario.seed} writes in the format of a newer release, which no record "
            "has; expected --shape release=same"
        )


def _checkpoints(world: World) -> Iterator[RecordedCheckpoint]:
    serde, keys, medium = world.newer_serde, world.keys, world.medium
    for tip, key in zip(world.tips, world.keys_of, strict=True):
        for one in checkpoints_written(medium, keys, serde, tip):
            yield RecordedCheckpoint(key, one.position, one.digest)
