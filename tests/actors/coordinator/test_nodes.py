"""What the coordinator tells of the Ray cluster's nodes."""

from tierledger.actors.conditions import Condition
from tierledger.actors.coordinator.nodes import (
    CROWDED_LOOKS,
    HEAD_AWAY,
    HOSTS_CROWDED,
    NODES_MISSING,
    UNANSWERED_LOOKS,
    ClusterNodes,
)

SPREAD = ["a", "b", "c"]


def codes(nodes: ClusterNodes) -> list[str]:
    return [one.code for one in nodes.conditions()]


def test_a_cluster_that_was_not_looked_at_has_no_trouble() -> None:
    assert codes(ClusterNodes(3)) == []
    assert ClusterNodes(3).report() is None


def test_nodes_are_missing_while_fewer_live_than_the_service_was_started_with() -> None:
    nodes = ClusterNodes(3)
    nodes.seen(SPREAD, SPREAD, 10)
    assert codes(nodes) == []

    for now_ms in (20, 30):
        nodes.seen(["b", "a"], ["a", "b", "a"], now_ms)

    text = "2 Ray nodes are alive, expected 3"
    assert [*nodes.conditions()] == [Condition(NODES_MISSING, "", 20, text)]
    assert nodes.report() == {"expected": 3, "alive": ["a", "b"]}
    nodes.seen(SPREAD, SPREAD, 40)
    assert codes(nodes) == []


def test_hosts_are_crowded_once_nodes_have_had_none_for_a_while() -> None:
    nodes = ClusterNodes()
    for now_ms in range(CROWDED_LOOKS - 1):
        nodes.seen(SPREAD, ["a", "b", "a"], now_ms)
    assert codes(nodes) == []

    nodes.seen(SPREAD, ["a", "b", "a"], CROWDED_LOOKS)

    text = "the 3 hosts are on 2 of 3 Ray nodes"
    assert [*nodes.conditions()] == [Condition(HOSTS_CROWDED, "", 0, text)]
    nodes.seen(SPREAD, SPREAD, CROWDED_LOOKS)
    assert codes(nodes) == []


def test_hosts_are_not_crowded_if_no_more_nodes_could_have_one() -> None:
    nodes = ClusterNodes()
    for hosts in (["a"], ["a", "b"], ["a", "b", "c", "a"], ["a", "b", "gone"], []):
        for _ in range(CROWDED_LOOKS):
            nodes.seen(SPREAD if len(hosts) != 3 else ["a", "b"], hosts, 0)
        assert codes(nodes) == []


def test_the_head_is_away_once_it_has_not_answered_twice_and_nothing_else_is_told() -> None:
    nodes = ClusterNodes(3)
    nodes.seen(["a"], ["a"], 10)
    nodes.seen(None, ["a"], 20)
    assert codes(nodes) == [NODES_MISSING]

    for _ in range(UNANSWERED_LOOKS - 1):
        nodes.seen(None, ["a"], 30)

    text = "Ray's control store does not answer"
    assert [*nodes.conditions()] == [Condition(HEAD_AWAY, "", 20, text)]
    assert nodes.report() is None
    nodes.seen(SPREAD, SPREAD, 40)
    assert codes(nodes) == []
