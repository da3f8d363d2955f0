"""What a world of the service has come to: the facts that the laws of a run are asked about."""

from __future__ import annotations

from collections.abc import Iterator

from tierledger.actors.calls import FOLLOWER, LEADER, STORAGE, PartitionKey
from tierledger.actors.coordinator.service import CoordinatorService
from tierledger.actors.follower import Follower, FollowerPhase
from tierledger.actors.leader.machine import Leader
from tierledger.events.commands import Claim
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.observations import Healed
from tierledger.simulation.machines.laws.coordination_laws import WantedReplica
from tierledger.simulation.machines.struck import whole
from tierledger.simulation.service.cluster import HostProcess
from tierledger.simulation.service.left_over import LeftOver, left_over
from tierledger.simulation.service.process_watch import WatchedShell
from tierledger.simulation.service.trash import in_trash
from tierledger.simulation.service.world import World

SETTLED_S = 1.6
"""Time after which a placement must have taken effect."""


def healed(world: World) -> dict[PartitionKey, Healed]:
    """All partitions of a world that is well again."""
    since, until = world.healed_at, world.well_at
    leader = world.controller.leader
    return {
        world.keys_of[number]: Healed(since, until, leader[number]) for number in whole(world)
    }


def hosts(world: World) -> list[HostProcess]:
    """The host processes that run, can be reached and are not frozen."""
    found = world.cluster.hosts.values()
    return [one for one in found if one.is_reachable and not one.is_paused]


def shells(world: World) -> list[WatchedShell]:
    """The leaders and followers on them."""
    names = {one.name for one in hosts(world)}
    found = world.cluster.watch.shells.values()
    return [one for one in found if one.life.name in names]


def always_well(world: World) -> set[str]:
    """The names of processes that can be reached, and have always answered pings.

    Also of those of which that was true until a coordinator ended them.
    """
    watch = world.cluster.watch
    return watch.well | ({one.name for one in hosts(world)} - watch.suspected)


def wanted(world: World) -> Iterator[WantedReplica]:
    """Each broker's claims in the roles that Kafka gave it last."""
    running = shells(world)
    for broker in world.brokers.values():
        if broker.is_fenced or broker.life.is_dead:
            continue
        for number in whole(world):
            key = world.keys_of[number]
            role, claim = broker.role(number) or ("", None)
            leads = world.controller.leader[number] == broker.broker_id
            is_hosted = broker.broker_id in world.controller.replicas[number]
            if claim is None or not is_hosted or (role == LEADER) != leads:
                continue
            replicas = [one for one in running if (one.key, one.role) == (key, role)]
            is_ready = any(_is_ready(one.machine, claim) for one in replicas)
            was_told = broker.ready.get(number) == claim
            yield WantedReplica(key, role, claim, is_ready and was_told)


def _is_ready(machine: Leader | Follower, claim: Claim) -> bool:
    if isinstance(machine, Leader):
        return machine.holds(claim)
    return machine.is_ready_for(claim)


def following(world: World) -> dict[PartitionKey, list[Claim]]:
    """The claims of the brokers that follow each partition, as they should."""
    found: dict[PartitionKey, list[Claim]] = {}
    for one in wanted(world):
        if one.role == FOLLOWER:
            found.setdefault(one.key, []).append(one.claim)
    return found


def followed(world: World) -> set[PartitionKey]:
    """The partitions whose log a host follows that can be reached."""
    return {
        one.key
        for one in shells(world)
        if one.role == FOLLOWER and one.machine.phase is FollowerPhase.FOLLOWING
    }


def loads(world: World) -> dict[str, int]:
    """How many leaders and followers run on each host that clients can reach."""
    return {
        one.site: len(one.host._shells)
        for one in hosts(world)
        if one.host is not None and one.site not in world.streams.closed
    }


def is_at_rest(world: World) -> bool:
    """Whether all replicas are ready, and nothing waits that did at each look before."""
    found = set(_left_over(world))
    world.left_over = found if world.left_over is None else world.left_over & found
    if world.scenario.guarded and in_trash(world):
        return False
    return not world.left_over and all(one.is_ready for one in wanted(world))


def _left_over(world: World) -> Iterator[LeftOver]:
    for process in hosts(world):
        for part in process.parts:
            yield from left_over(process.name, part)
    coordinator = world.cluster.coordinator
    if coordinator is not None and coordinator.is_reachable:
        yield from left_over(coordinator.name, coordinator.service)
        yield from _strays(world, coordinator.service)
    for broker in world.brokers.values():
        if not (broker.life.is_dead or broker.is_fenced):
            yield from left_over(broker.life.name, broker._manager)


def _strays(world: World, coordinator: CoordinatorService | None) -> Iterator[LeftOver]:
    """What runs on a host that the coordinator has placed elsewhere, or nowhere.

    Not of processes that its log does not name, which a former coordinator may have started.
    """
    if coordinator is None:
        return
    state = coordinator._machine.state
    for process in hosts(world):
        if process.host is None or state.hosts.get(process.site) != process.name:
            continue
        seats = state.seats.get(process.site, {})
        for life in process.host._machine.lives.values():
            if life.role != STORAGE and (life.key, life.role) not in seats:
                yield LeftOver(process.name, "a stray", (life.key, life.role))


def leader_at_end(world: World, log: FinalLog) -> str | None:
    """The name of the leader whose session the log ends with."""
    for one in shells(world):
        if one.key == log.key and one.believes_to_lead and one.machine.position == log.end:
            return one.name
    return None
