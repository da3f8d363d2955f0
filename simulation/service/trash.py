"""Deletions in a world: what the laws of deletion are asked about, and what is in the trash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.purges import LEASE_MS
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.log_events import UNTIL_RELEASED_MS
from tierledger.simulation.checkers.violation import Violation, bounded
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.machines.laws.coordination_laws import Coordinated
from tierledger.simulation.machines.laws.deletion_laws import (
    COMMAND,
    Fate,
    HoldSeen,
    early_purge,
    fates_of,
    held_deleted,
    holds_at_end,
    leased_twice,
    lost_data,
    unpurged,
)
from tierledger.simulation.machines.struck import Struck
from tierledger.simulation.service.cluster import WALL_MS
from tierledger.simulation.service.logs import coordination, log_of
from tierledger.simulation.service.world import World


def of_deletions(world: World, logs: Mapping[PartitionKey, FinalLog]) -> Iterator[Violation]:
    """What the laws of deletion find in a world that has run."""
    if not world.scenario.guarded:
        return
    events = coordination(world)
    holds = list(_holds_seen(world, events))
    spread_ms = max(map(abs, world.scenario.skews_ms)) + world.stepped_ms
    lease_ms = dict(world.scenario.knobs).get("LEASE_MS", LEASE_MS)
    for key, log in logs.items():
        if key.partition in world.damaged:
            continue
        fates = fates_of(log, _unled_at(world, log.topic_id_partition))
        _mark(world, fates)
        yield from bounded(list(held_deleted(log, fates, holds)))
        yield from bounded(
            list(early_purge(log, fates, WALL_MS, spread_ms, world.operator.asked))
        )
        yield from bounded(list(leased_twice(log, fates, lease_ms)))
        erased = [one for one in world.tier.erased if one.key == key]
        yield from bounded(list(lost_data(key, fates, erased)))
    if world.is_well:
        yield from bounded(in_trash(world))


def in_trash(world: World) -> list[Violation]:
    """What is in the trash, or in the tier, and should not be any more."""
    if not any(_has_guard(world, broker_id) for broker_id in world.brokers):
        return []
    holds = holds_at_end(coordination(world), world.wall_ms())
    found: list[Violation] = []
    for tip in world.tips:
        if tip.partition in world.damaged:
            continue
        log = log_of(world, tip)
        there = world.tier.there
        found += unpurged(log, fates_of(log), holds, there, world.wall_ms())
    return found


def _has_guard(world: Struck, broker_id: int) -> bool:
    guarded = world.scenario.guarded
    return guarded[broker_id % len(guarded)]


def _holds_seen(world: World, events: list[Coordinated]) -> Iterator[HoldSeen]:
    placed = {
        one.body.name: one.durable_at for one in events if isinstance(one.body, ev.HoldPlaced)
    }
    for name, note in world.operator.holds.items():
        yield HoldSeen(note.hold, note.told, note.released, placed.get(name))


def _unled_at(world: World, tip: TopicIdPartition) -> set[int]:
    """When (ns) batches were written to the log that nobody led."""
    prefix, created_at = world.keys.log(tip), world.store.created_at
    return {created_at[key] for key in world.store.unled if key.startswith(prefix)}


def _mark(world: World, fates: Mapping[bytes, Fate]) -> None:
    mark = world.recording.mark
    for fate in fates.values():
        if fate.kept is not None:
            is_unexplained = fate.kept[2].until_ms == UNTIL_RELEASED_MS
            mark(
                "deletion kept until somebody releases it"
                if is_unexplained
                else "deletion kept"
            )
            if is_unexplained and fate.purges:
                mark("kept until released, and released")
        purgers = {one.event.broker_id for one in fate.purges} - {COMMAND}
        if len(purgers) > 1:
            mark("purge given to another guard")
