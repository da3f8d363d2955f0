"""Whatever a cluster goes through, the way is open in both directions, and nothing is lost."""

from collections.abc import Iterable

import pytest

from tierledger.simulation.lives import cluster as living
from tierledger.simulation.lives.cluster import LivingCluster
from tierledger.simulation.lives.steps import LifeStep, What, life, scenario_of
from tierledger.simulation.lives.verdict import run, verdict_of
from tierledger.simulation.service.verdict import discard

FEW = (1, 7, 8, 10, 11, 16)
ANY = [1, *(pytest.param(one, marks=pytest.mark.long) for one in (2, 3))]
"""Seeds of a life whose steps are given."""
MANY = [one for one in range(206) if one not in FEW]


def lived(seed: int, steps: Iterable[LifeStep]) -> LivingCluster:
    """A cluster that has lived a life in which nothing was found."""
    cluster = LivingCluster(scenario_of(seed, steps))
    run(cluster)
    assert verdict_of(cluster).violations == []
    discard(cluster)
    return cluster


@pytest.mark.parametrize(
    "seed", [*FEW, *(pytest.param(one, marks=pytest.mark.long) for one in MANY)]
)
def test_the_way_is_open_both_ways_whatever_a_cluster_went_through(seed: int) -> None:
    assert lived(seed, life(seed)).moves >= 4


def test_lives_have_steps_of_each_kind() -> None:
    assert {step.what for seed in FEW for step in life(seed)} == {*What}


@pytest.mark.parametrize("seed", ANY)
def test_what_a_topic_left_that_was_deleted_while_the_metadata_moved_can_be_removed(
    seed: int,
) -> None:
    topic = [
        LifeStep(what, "orders") for what in (What.MAKE, What.TIER, What.DELETE_WHILE_MOVING)
    ]
    ends = [
        LifeStep(What.FORGET),
        LifeStep(What.REST),
        LifeStep(What.MOVE),
        LifeStep(What.FORGET),
    ]

    cluster = lived(seed, [*topic, *ends, LifeStep(What.REST)])

    assert [one.segments for one in cluster.ever] == [{}]


@pytest.mark.parametrize("seed", ANY)
def test_what_is_in_the_trash_goes_through_moves_and_is_in_no_answer(seed: int) -> None:
    """The step of each move fails if either manager knows it, or if it is kept no more."""
    topic = [LifeStep(what, "orders") for what in (What.MAKE, *[What.TIER] * 4)]
    away = [LifeStep(What.MOVE), LifeStep(What.TRASH, "orders"), LifeStep(What.MOVE)]
    deleted = [LifeStep(What.TIER, "orders"), LifeStep(What.DELETE, "orders"), *away]

    cluster = lived(seed, [*topic, *away, *away, *deleted, LifeStep(What.REST)])

    assert sum(len(one.trash) for one in cluster.ever) > 0
    assert cluster.moves > 8


@pytest.mark.parametrize("seed", ANY)
def test_what_a_broker_without_the_plugin_did_to_log_starts_deletes_nothing(seed: int) -> None:
    """The step itself fails if a segment that consumers could read is deleted."""
    topic = [LifeStep(what, "orders") for what in (What.MAKE, What.TIER, What.TIER)]
    unowned = [LifeStep(What.UNOWNED), LifeStep(What.MOVE), LifeStep(What.UNOWNED)]

    lived(seed, [*topic, *unowned, LifeStep(What.REST)])


@pytest.mark.parametrize("seed", ANY)
def test_a_killed_broker_that_kafka_regards_as_alive_for_long_holds_deletions(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a `broker.session.timeout.ms` of 20 s; somebody has to confirm them."""
    monkeypatch.setattr(living, "DEAD_S", 0)
    monkeypatch.setattr(living, "UNOWNED_S", 20)
    topic = [LifeStep(what, "orders") for what in (What.MAKE, What.TIER, What.TIER)]
    killed = [LifeStep(What.UNOWNED), LifeStep(What.MOVE), LifeStep(What.UNOWNED)]

    lived(seed, [*topic, *killed, LifeStep(What.REST)])
