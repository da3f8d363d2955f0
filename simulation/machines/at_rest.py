"""What a world of machines has come to: the facts that the laws of a run are asked about."""

from __future__ import annotations

from collections.abc import Iterator

from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey
from tierledger.actors.follower import FollowerPhase
from tierledger.events.commands import Claim
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.machines.environment.clockwork import MS, S
from tierledger.simulation.machines.environment.medium import COORDINATOR
from tierledger.simulation.machines.laws.coordination_laws import (
    Coordinated,
    WantedReplica,
    coordinated,
)
from tierledger.simulation.machines.struck import whole
from tierledger.simulation.machines.world import World

SETTLED = 1600 * MS
"""Time (us) after which a placement must have taken effect."""

ANSWERED = 3 * S
"""Time (us) within which a host has to answer or refuse every call."""


def coordination(world: World) -> list[Coordinated]:
    """The events of the coordinator's log, as they were written."""
    medium = world.medium
    slots = [(COORDINATOR, at) for at in range(medium.heads.get(COORDINATOR, 0))]
    batches = [(medium.durable_at[slot] * 1000, medium.truth[slot]) for slot in slots]
    return coordinated(batches, world.newer_serde, world.cluster_id)


def always_well(world: World) -> set[str]:
    """The names of processes that can be reached, and have always answered pings."""
    return {one.name for one in world.lives if one.is_reachable} - world.suspected


def following(world: World) -> dict[PartitionKey, list[Claim]]:
    """The claims of the brokers that follow each partition, as they should."""
    return {
        world.keys_of[number]: [
            broker.claims[number][1]
            for broker in world.brokers.values()
            if broker.broker_id != world.controller.leader[number]
            and broker.claims.get(number, (None,))[0] == FOLLOWER
            and not (broker.is_fenced or broker.life.is_dead)
        ]
        for number in whole(world)
    }


def followed(world: World) -> set[PartitionKey]:
    """The partitions whose log a host follows that can be reached."""
    return {
        shell.key
        for host in world.hosts.values()
        if host.life.is_reachable
        for shell in host.shells.values()
        if shell.role == FOLLOWER and shell.machine.phase is FollowerPhase.FOLLOWING
    }


def loads(world: World) -> dict[str, int]:
    """How many leaders and followers run on each host that can be reached."""
    return {
        host.name: len(host.shells) for host in world.hosts.values() if host.life.is_reachable
    }


def wanted(world: World) -> Iterator[WantedReplica]:
    """Each broker's claims in the roles that Kafka gave it last."""
    for broker in world.brokers.values():
        for number in whole(world):
            role, claim = broker.claims.get(number, (None, None))
            if role is None or claim is None or broker.is_fenced or broker.life.is_dead:
                continue
            if (role == LEADER) != (world.controller.leader[number] == broker.broker_id):
                continue
            ready_for, time = broker.ready.get(number, (None, -1))
            is_ready = ready_for == claim and time >= world.well_at
            yield WantedReplica(world.keys_of[number], role, claim, is_ready)


def leader_at_end(world: World, number: int, log: FinalLog) -> str | None:
    """The name of the leader whose session the log ends with."""
    for host in world.hosts.values():
        if host.life.is_reachable and host.believes_to_lead(number):
            shell = host.shells[number, LEADER]
            if shell.machine.position == log.end:
                return shell.name
    return None


def unanswered(world: World) -> Iterator[Violation]:
    """A host has taken a call, and neither answers nor refuses it."""
    for host in world.hosts.values():
        if not host.life.is_reachable:
            continue
        for reply_to, since in host.waits_since.items():
            if world.clock.now - since > ANSWERED:
                _, op, _ = host.waiting[reply_to]
                message = (
                    f"{host.life.name} has had call {op.number} since {ms_text(since * 1000)}, "
                    "and has not answered it"
                )
                key = world.keys_of[op.partition]
                yield Violation("unanswered", key, message, (op.number,))
                break
