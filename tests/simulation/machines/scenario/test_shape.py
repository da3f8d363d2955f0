"""Settings that make a world simpler, and the choice of its decisions that are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.machines.scenario.shape import (
    numbers_of,
    numbers_text,
    scenario_of,
    shaped,
    simpler,
)
from tierledger.simulation.service.plan import drawn


@given(st.sets(st.integers(0, 60)))
def test_numbers_that_were_written_are_read(numbers: set[int]) -> None:
    ascending = sorted(numbers)

    assert numbers_of(numbers_text(ascending)) == ascending


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], "none"), ([4], "4"), ([3, 8, 19, 20, 21, 22], "3,8,19-22"), ([0, 1], "0-1")],
)
def test_runs_of_numbers_are_written_in_short(numbers: list[int], text: str) -> None:
    assert numbers_text(numbers) == text


@pytest.mark.parametrize("text", ["", "1,", "1-", "-3", "1-2-3", "²", "all"])
def test_what_is_no_list_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="expected numbers like 3,8,19-22 or none"):
        numbers_of(text)


@pytest.mark.parametrize("seed", range(30))
def test_every_simpler_shape_is_another_and_none_is_left_at_the_end(seed: int) -> None:
    scenario = drawn(seed)
    for setting in simpler(scenario):
        assert shaped(scenario, [setting]) != scenario

    simplest = shaped(scenario, reversed(simpler(scenario)))

    assert simpler(simplest) == []
    assert (simplest.hosts, simplest.brokers, simplest.partitions) == (1, 1, 1)


def test_settings_and_numbers_make_a_seed_what_they_say() -> None:
    scenario = scenario_of(drawn(10), [0, 2], ["hosts=2", "duration=1500", "delays=even"])

    whole = drawn(10)
    assert scenario.decisions == (whole.decisions[0], whole.decisions[2])
    assert (scenario.hosts, scenario.duration) == (2, 1_500_000)
    assert len(set(scenario.delays)) == 1


@pytest.mark.parametrize(
    "setting", ["hosts", "hosts=0", "hosts=-1", "hosts=x", "roof=flat", ""]
)
def test_an_unknown_setting_is_refused_beside_those_there_are(setting: str) -> None:
    with pytest.raises(InvalidArgument, match=r"there are brokers=NUMBER, .*delays=even"):
        shaped(drawn(1), [setting])
