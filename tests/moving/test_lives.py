"""Whatever a cluster goes through, the way is open in both directions, and nothing is lost."""

import pytest

from tests.models.kafka import living_cluster
from tests.models.kafka.lives import Step, What, life
from tests.models.kafka.living_cluster import LivingCluster

FEW = (1, 7, 8, 10, 11, 16)
MANY = [one for one in range(206) if one not in FEW]


@pytest.mark.parametrize(
    "seed", [*FEW, *(pytest.param(one, marks=pytest.mark.long) for one in MANY)]
)
def test_the_way_is_open_both_ways_whatever_a_cluster_went_through(seed: int) -> None:
    LivingCluster(seed).live(life(seed))


def test_lives_have_steps_of_each_kind() -> None:
    assert {step.what for seed in FEW for step in life(seed)} == {*What}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_a_topic_left_that_was_deleted_while_the_metadata_moved_can_be_removed(
    seed: int,
) -> None:
    cluster = LivingCluster(seed)
    topic = [Step(what, "orders") for what in (What.MAKE, What.TIER, What.DELETE_WHILE_MOVING)]
    ends = [Step(What.FORGET), Step(What.REST), Step(What.MOVE), Step(What.FORGET)]
    cluster.live([*topic, *ends, Step(What.REST)])

    assert [one.segments for one in cluster.ever] == [{}]


@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_broker_without_the_plugin_did_to_log_starts_deletes_nothing(seed: int) -> None:
    """The step itself fails if a segment that consumers could read is deleted."""
    topic = [Step(what, "orders") for what in (What.MAKE, What.TIER, What.TIER)]
    unowned = [Step(What.UNOWNED), Step(What.MOVE), Step(What.UNOWNED)]

    LivingCluster(seed).live([*topic, *unowned, Step(What.REST)])


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_broker_that_kafka_regards_as_alive_for_long_holds_deletions(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a `broker.session.timeout.ms` of 20 s; somebody has to confirm them."""
    monkeypatch.setattr(living_cluster, "DEAD_S", 0)
    monkeypatch.setattr(living_cluster, "UNOWNED_S", 20)
    topic = [Step(what, "orders") for what in (What.MAKE, What.TIER, What.TIER)]
    killed = [Step(What.UNOWNED), Step(What.MOVE), Step(What.UNOWNED)]

    LivingCluster(seed).live([*topic, *killed, Step(What.REST)])
