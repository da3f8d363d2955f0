"""Deletions are held after a broker may have run without the plugin."""

import pytest

from tests.models.actors.coordinated import Coordinated
from tierledger.actors.coordinator import unowned
from tierledger.actors.coordinator.events import ClientRegistered, OwnerChanged
from tierledger.actors.coordinator.unowned import CAME_MS, FOREIGN, SILENT_MS, Sightings

START_MS = 1_000
EXCUSED_MS = 10_000


def test_a_broker_that_comes_alive_without_a_plugin_is_found_soon() -> None:
    seen = Sightings(START_MS)
    for now_ms in range(2_000, 6_000, 1_000):
        seen.heard(1, now_ms)
        seen.seen({1, 2}, now_ms + 1)
    seen.seen({2}, 7_000)
    seen.heard(2, 7_500)
    seen.seen({1, 2}, 8_000)
    assert not seen.unowned()

    seen.heard(2, 8_000 + CAME_MS)
    seen.seen({1, 2}, 8_000 + CAME_MS)

    assert seen.unowned() == [(1, 8_000, 8_000 + CAME_MS)]
    seen.heard(1, 8_001 + CAME_MS)
    assert not seen.unowned()


def test_a_broker_that_was_killed_and_that_kafka_regards_as_alive_is_not_taken_for_one() -> (
    None
):
    seen = Sightings(START_MS)
    seen.heard(1, 20_000)
    seen.seen({1}, 20_000 + SILENT_MS - 1)
    assert not seen.unowned()

    seen.seen({1}, 20_000 + SILENT_MS)

    assert seen.unowned() == [(1, 20_000, 20_000 + SILENT_MS)]


def test_a_broker_that_was_there_for_less_than_5_s_is_not_noticed() -> None:
    seen = Sightings(START_MS)
    seen.heard(1, 2_000)
    seen.seen({1}, 2_001)
    seen.seen(set(), 20_000)
    seen.seen({1}, 30_000)
    seen.seen({1}, 30_000 + CAME_MS - 1)
    seen.seen(set(), 30_000 + CAME_MS)
    seen.seen(set(), 90_000)

    assert not seen.unowned()


def test_an_old_look_tells_nothing_about_the_time_since() -> None:
    seen = Sightings(START_MS)
    seen.heard(1, 20_000)
    for _ in range(100):
        seen.seen({1}, 20_001)

    assert not seen.unowned()


@pytest.fixture
def one() -> Coordinated:
    """A coordinator's state of a cluster that tierledger owns."""
    one = Coordinated()
    one.evolve(OwnerChanged("tierledger"))
    one.evolve(ClientRegistered(1, 1))
    return one


def held(one: Coordinated) -> list[int]:
    return sorted(one.state.held)


def hold(one: Coordinated, broker_id: int, foreign: int = 0) -> None:
    for body in unowned.hold(one.state, broker_id, 5_000, foreign, EXCUSED_MS):
        one.evolve(body)


def test_a_plugin_that_was_only_silent_ends_the_hold_and_another_one_does_not(
    one: Coordinated,
) -> None:
    hold(one, 1)
    hold(one, 2)
    assert held(one) == [1, 2]
    assert not unowned.hold(one.state, 1, 6_000, 0)

    assert unowned.was_silent(one.state, 1, 1, None)
    assert not unowned.was_silent(one.state, 1, 2, None)
    assert not unowned.was_silent(one.state, 2, 0, None)

    for body in unowned.release(one.state, 1):
        one.evolve(body)
    assert held(one) == [2]


def test_a_plugin_that_began_in_time_and_could_not_report_ends_the_hold(
    one: Coordinated,
) -> None:
    hold(one, 1)
    hold(one, FOREIGN, foreign=3)

    assert not unowned.was_silent(one.state, 1, 2, EXCUSED_MS)
    assert unowned.was_silent(one.state, 1, 2, EXCUSED_MS - 1)
    assert not unowned.was_silent(one.state, FOREIGN, 2, EXCUSED_MS - 1)


def test_what_was_confirmed_is_not_held_again_for_the_same_records(one: Coordinated) -> None:
    hold(one, FOREIGN, foreign=3)
    assert "records of others" in unowned.text_of(one.state.held.values())
    for body in unowned.release(one.state, None):
        one.evolve(body)
    hold(one, FOREIGN, foreign=3)
    assert not held(one)

    hold(one, FOREIGN, foreign=4)

    assert held(one) == [FOREIGN]


def test_nothing_is_held_while_kafkas_own_manager_decides(one: Coordinated) -> None:
    hold(one, 1)
    one.evolve(OwnerChanged("moving", "tierledger", "kafka"))
    assert held(one) == [1]

    one.evolve(OwnerChanged("kafka"))

    assert not held(one)
    assert not unowned.hold(one.state, 1, 6_000, 0)
