"""Runs a world: its scenario's decisions strike, and then all heals.

While decisions strike, any call may fail, but no answer may be wrong. After all has healed, the
true leader of every partition has to complete a write. `verdict` judges the stored logs later:
every acknowledged write has to be there.
"""

from __future__ import annotations

from contextlib import nullcontext

from tierledger.simulation.checkers.decisions import drafts_noted
from tierledger.simulation.machines.at_rest import wanted
from tierledger.simulation.machines.environment.clockwork import MS, ProcessLife, S
from tierledger.simulation.machines.laws.coordination_laws import unready
from tierledger.simulation.machines.scenario.knobs import turned_to
from tierledger.simulation.machines.strikes import plan
from tierledger.simulation.machines.world import World

HEALING = 30 * S
"""Time (us) within which a healed world has to be well again."""

CATCHING_UP = 1600 * MS
"""Time (us) within which the followers of a world that is well have read everything."""

READY_LOOKS = 5
"""How often `CATCHING_UP` may pass before a replica that is not ready is a violation."""

TURNS = 12
DRAFTS, DECISIONS, COORDINATION, TABLES = range(4)
"""Costly checks, each of which runs in one of `TURNS` seeds: of leaders' drafts, of further
decisions of leaders, of decisions of coordinators, and of tables."""


def run(world: World) -> None:
    """Carry out the scenario's decisions, then heal; `world.is_well`: the service recovered."""
    scenario, clock = world.scenario, world.clock
    knobs = turned_to((*scenario.knobs, *world.feeding.knobs))
    is_noted = scenario.seed % TURNS == DRAFTS

    def durable(life: ProcessLife) -> None:
        world.passes("durable", life)

    with knobs, drafts_noted(world.drafts) if is_noted else nullcontext():
        world.medium.on_created = durable
        world.coordinator_node()
        for broker_id in range(1, scenario.brokers + 1):
            world.start_broker(broker_id)
        world.controller.start()
        if world.moving is not None:
            world.moving.start()
        world.feeding.start()
        plan(world)
        clock.run(scenario.duration)
        _heal(world)
        clock.run(clock.now + HEALING)
        world.well_at = clock.now
        if world.is_well:
            for broker in world.brokers.values():
                broker.ready.clear()
            _wait_until_ready(world)
            world.feeding.finish()
        for host in world.hosts.values():
            if not host.life.is_dead:
                for shell in host.shells.values():
                    world.observer.saw(shell)


def _wait_until_ready(world: World) -> None:
    """Let brokers ask if their replicas are ready, again while a slow answer is under way."""
    for _ in range(READY_LOOKS):
        for broker in world.brokers.values():
            for number in broker.claims:
                broker.ask_ready(number)
        world.clock.run(world.clock.now + CATCHING_UP)
        if not any(unready(wanted(world), world.well_at * 1000)):
            return


def _heal(world: World) -> None:
    world.is_healing = True
    world.recording.moment("", "heal", "nothing fails any more")
    world.wires.heal()
    world.medium.heal()
    world.fuses.clear()
    world.dozes.clear()
    world.outages.clear()
    world.lies.clear()
    for life in list(world.lives):
        world.resume(life)
    for broker_id, broker in list(world.brokers.items()):
        if broker.life.is_dead or broker.is_fenced:
            world.restart_broker(broker_id)
    if world.scenario.writes_newer:  # The roll-out ends: hosts of other releases go.
        for host in list(world.hosts.values()):
            if host.serde is not world.newer_serde:
                world.kill(host.life)
    for importer in world.importers:
        importer.stop()
    world.coordinator_node()
    if world.moving is not None:
        world.moving.heal()
    world.controller.heal()
