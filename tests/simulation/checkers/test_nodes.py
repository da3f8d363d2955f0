"""Checkers of nodes: each life's order, and who wrote what, with and without the log."""

import pytest

from tests.models.simulation.planted_anomalies import all_found, names, node_records, relogged
from tests.models.simulation.recorded_run import (
    KEY,
    RecordedRun,
    deleted_partition,
    long_run,
    small_run,
)
from tierledger.actors.calls import PartitionKey
from tierledger.simulation.checkers.all import check
from tierledger.simulation.checkers.fold import replay_determinism
from tierledger.simulation.checkers.nodes import feed_gap, two_leaders
from tierledger.simulation.history.calls import CallHistory
from tierledger.simulation.history.observations import CHECKPOINT, Applied

RUN = small_run()
LOG, NODES = RUN.log(), node_records(RUN)


@pytest.mark.parametrize("run", [RUN, deleted_partition(), long_run(3, 200)])
def test_the_nodes_of_a_right_run_pass(run: RecordedRun) -> None:
    nodes, log = node_records(run), run.log()

    for truth in (log, None):
        assert feed_gap(nodes.applied, truth, KEY) == []
        assert two_leaders(nodes.led, truth, KEY) == []
        assert replay_determinism(nodes.states, truth, KEY) == []


# What a life takes in.


def life(*ranges: tuple[int, int]) -> list[Applied]:
    """A life that took these positions in, with the log's own hashes."""
    hashes = {-1: LOG.genesis, **LOG.chain_hashes}
    return [
        Applied(1_000, "follower", KEY, first, last, hashes.get(last, b""))
        for first, last in ranges
    ]


@pytest.mark.parametrize(
    ("ranges", "what"),
    [
        ([(0, 0), (1, 1), (2, 2)], None),
        ([(0, 3), (4, 9)], None),
        ([(5, 4), (5, 5)], None),
        ([(0, -1), (0, 0)], None),
        ([(0, 0), (2, 2)], "took in 2 to 2 at 0.001 ms, where 1 comes next"),
        ([(0, 1), (1, 2)], "took in 1 to 2 at 0.001 ms, where 2 comes next"),
        ([(0, 1), (0, 1)], "took in 0 to 1 at 0.001 ms, where 2 comes next"),
        ([(0, 3), (1, 0)], "took in 1 to 0 at 0.001 ms, where 4 comes next"),
        ([(4, 1)], "took in 4 to 1"),
        ([(0, 10)], "took in position 10, and the log ends at 9"),
    ],
)
def test_a_life_takes_the_log_in_without_a_gap(
    ranges: list[tuple[int, int]], what: str | None
) -> None:
    found = feed_gap(life(*ranges), LOG)

    assert [one.checker for one in found] == ([] if what is None else ["feed_gap"])
    assert what is None or what in found[0].message


def test_two_lives_may_stand_anywhere_and_each_goes_on_from_there() -> None:
    ahead, behind = life((0, 3), (4, 5)), life((2, 2), (3, 4))
    other = [one._replace(node_life="other") for one in behind]

    assert feed_gap([ahead[0], other[0], ahead[1], other[1]], LOG) == []


def test_a_life_that_entered_at_a_wrong_hash_is_found() -> None:
    entry = life((5, 4))[0]._replace(chain_hash=b"?" * 16)

    (found,) = feed_gap([entry], LOG)

    assert "up to 4 that is not the store's" in found.message


def test_a_life_cannot_stand_within_a_batch() -> None:
    log = relogged(LOG, LOG.events)
    log.chain_hashes = {0: LOG.chain_hashes[0], 9: LOG.chain_hashes[9]}

    (found,) = feed_gap(life((0, 0), (1, 4)), log)

    assert "up to 4, where no batch ends" in found.message


def test_nothing_is_taken_in_before_it_is_durable() -> None:
    early = [one._replace(time=11) for one in life((0, 3), (4, 5))]

    (found,) = feed_gap(early, LOG)

    assert "took in 5 at 0.000 ms, which was durable at 0.000 ms" in found.message


def test_without_a_log_two_lives_are_held_against_each_other() -> None:
    first = life((0, 3))
    other = first[0]._replace(node_life="other", chain_hash=b"?" * 16)

    (found,) = feed_gap([*first, other], None, KEY)

    assert (found.key, "another log up to 3" in found.message) == (KEY, True)


# Who wrote.


def test_a_life_may_lead_under_many_sessions_but_no_session_has_two_lives() -> None:
    together = [one._replace(node_life="one") for one in NODES.led]
    assert two_leaders(together, LOG) == []

    stranger = together[3]._replace(node_life="stranger", position=4)
    found = two_leaders([*together[:4], stranger, *together[5:]], LOG)

    assert [one.message for one in found] == [
        "stranger wrote position 4 at 0.000 ms under session 1, which is one's"
    ]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (
            {"session": 7, "node_life": "new"},
            "under session 7, and the log has session 2 there",
        ),
        ({"position": 10}, "wrote position 10 at 0.000 ms, and the log ends at 9"),
        ({"position": -1}, "wrote position -1"),
    ],
)
def test_what_a_leader_answers_for_stands_in_its_session(
    fields: dict[str, object], what: str
) -> None:
    found = two_leaders([NODES.led[6]._replace(**fields)], LOG)  # type: ignore[arg-type]

    assert any(what in one.message for one in found)


def test_a_batch_has_one_writer_whatever_the_log() -> None:
    again = NODES.led[-1]._replace(node_life="zombie", session=9)

    (found,) = two_leaders([*NODES.led, again], None, KEY)

    assert "zombie wrote position 9 at 0.000 ms, which leader of 3 wrote, too" in found.message


# States.


def test_a_state_that_is_not_the_log_s_is_found_once_for_each_who_had_it() -> None:
    at_9 = [one._replace(digest=b"x") for one in NODES.states if one.position == 9]
    assert len(at_9) == 3

    found = replay_determinism([*NODES.states, *at_9], LOG)

    assert [one.checker for one in found] == ["replay_determinism"] * 3


def test_no_state_stands_within_a_batch() -> None:
    log = relogged(LOG, LOG.events)
    log.chain_hashes = {9: LOG.chain_hashes[9]}

    found = replay_determinism([NODES.states[2]], log)

    assert ["no batch ends there" in one.message for one in found] == [True]


def test_a_state_from_behind_the_log_s_end_is_found() -> None:
    (found,) = replay_determinism([NODES.states[0]._replace(position=10)], LOG)

    assert "at position 10, and the log ends at 9" in found.message


def test_states_are_compared_where_the_log_does_not_fold_or_is_unknown() -> None:
    seen = NODES.states[4]
    restored = seen._replace(role=CHECKPOINT, node="store", digest=b"x")
    unfoldable = relogged(LOG, [LOG.events[2]._replace(position=0), *LOG.events[1:]])

    for log in (None, unfoldable):
        found = replay_determinism([seen, restored], log, KEY)
        assert "replay_determinism" in names(found)
        assert "the checkpoint" in found[-1].message


def test_a_partition_whose_log_is_not_given_is_judged_by_its_nodes() -> None:
    other = PartitionKey(b"other" * 3 + b"!", 0)
    feeds = [one._replace(key=other) for one in life((0, 1), (3, 4))]
    led = [NODES.led[0]._replace(key=other), NODES.led[1]._replace(key=other, node_life="two")]
    states = [one._replace(key=other, position=0) for one in NODES.states[:2]]

    found = check(CallHistory([], []), {}, states=states, applied=feeds, led=led)

    assert names(found) == {"feed_gap", "two_leaders", "replay_determinism"}
    assert {one.key for one in found} == {other}
    assert all_found(RUN) == []
