"""Clusters that move in the world of the machines: they do, and a picture tells how."""

from collections import Counter
from functools import cache

from tierledger.actors.coordinator.events import Owner
from tierledger.simulation.campaign.campaign import watched
from tierledger.simulation.explain.text import text
from tierledger.simulation.machines.environment.marks import MARKS
from tierledger.simulation.machines.scenario.drawing import MOVES_EVERY, MOVES_FIRST, drawn
from tierledger.simulation.machines.timeline_of import timeline_of
from tierledger.simulation.machines.verdict import ran, verdict_of
from tierledger.simulation.machines.world import World

SEEDS = range(MOVES_FIRST, MOVES_FIRST + 12 * MOVES_EVERY, MOVES_EVERY)


@cache
def world_of(seed: int) -> World:
    return ran(drawn(seed), keeps=True)


def test_clusters_move_both_ways_and_nothing_is_lost() -> None:
    marks: Counter[str] = Counter()
    for seed in SEEDS:
        verdict = verdict_of(world_of(seed))
        assert verdict.violations == []
        marks.update(verdict.marks)

    assert marks["cluster moved"] > len(SEEDS)
    assert marks["move refused"] > len(SEEDS)
    assert marks["follower's round: import"]
    assert marks["follower's round: mirror"]


def test_what_is_rare_about_moves_is_declared() -> None:
    assert sum(group == "moving" for group in MARKS.values()) == 10


def test_a_cluster_that_has_healed_belongs_to_tierledger() -> None:
    for seed in SEEDS:
        coordinator = world_of(seed).coordinator
        assert coordinator is not None
        assert coordinator.state.ownership.owner == Owner.TIERLEDGER


def test_other_seeds_have_no_moves() -> None:
    world = World(drawn(MOVES_FIRST + 1))

    assert world.moving is None
    assert not any(one.kind == "move the cluster" for one in world.scenario.decisions)


def test_a_seeds_picture_tells_the_story_of_its_moves() -> None:
    with watched(drawn(MOVES_FIRST)) as world:
        told = text(timeline_of(world, title="", command="", violations=()))

    assert "all brokers hold their writes" in told
    assert "owner epoch 1: kafka, decided by kafka" in told
    assert "it ends: done" in told
