"""The logs of a world, as they were written."""

from __future__ import annotations

from tierledger.events.errors import DataError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.simulation.history.final_log import FinalLog, LoggedBatch, decode_log
from tierledger.simulation.machines.laws.coordination_laws import Coordinated, coordinated
from tierledger.simulation.service.stage import CLUSTER_ID, Stage


def coordination(world: Stage) -> list[Coordinated]:
    """The events of the coordinator's log, as they were written."""
    created_at, values = world.store.created_at, world.medium.state
    prefix = world.keys.coordinator_log()
    batches = [(created_at[key], values[key]) for key in values if key.startswith(prefix)]
    return coordinated(batches, world.settings.serde(), CLUSTER_ID)


def log_of(world: Stage, tip: TopicIdPartition) -> FinalLog:
    """A partition's log as it was written.

    Raises:
        DataError: It cannot be read.
    """
    return decode_log(world.newer_serde, CLUSTER_ID, tip, batches_of(world, tip))


def batches_of(world: Stage, tip: TopicIdPartition) -> list[LoggedBatch]:
    """The batches of a partition's log as they were written, also if damaged since.

    Raises:
        DataError: One between them is missing.
    """
    values, created_at = world.store.written(world.keys.log(tip)), world.store.created_at
    batches = []
    for number in range(len(values)):
        key = world.keys.log_batch(tip, number)
        if key not in values:
            raise DataError(f"{tip}: {len(values)} batches, and none has number {number}")
        batches.append(LoggedBatch(number, values[key], created_at[key]))
    return batches
