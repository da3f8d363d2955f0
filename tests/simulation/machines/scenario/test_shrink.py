"""A failing seed is made small, and what is printed of it repeats the failure."""

import shlex
from functools import cache
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from tierledger.cli.whole_program import app
from tierledger.simulation.campaign.campaign import Workers, hunt, mutant_named
from tierledger.simulation.campaign.reduction import Reduction, reduced
from tierledger.simulation.machines.scenario.scenario import Scenario, SeedDecision
from tierledger.simulation.machines.scenario.shape import scenario_of, simpler
from tierledger.simulation.machines.scenario.shrink import shrunk
from tierledger.simulation.service.plan import drawn

QUICK = "M44"
"""Caught soon, by worlds that are judged soon."""

MUTANTS = (QUICK, *(pytest.param(one, marks=pytest.mark.long) for one in ("M02", "M08")))
"""Of different parts."""

DECISIONS_MAX = 15


@cache
def reduction_of(name: str) -> Reduction:
    mutant = mutant_named(name)
    found = hunt(mutant, mutant.seeds(), Workers(1))
    assert found.caught_at is not None, f"nobody caught {name}"
    small = reduced(found.caught_at, mutant=mutant.name)
    assert small is not None, f"seed {found.caught_at} caught {name} only once"
    return small


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_mistake_needs_few_decisions(name: str) -> None:
    small = reduction_of(name)

    assert small.of > 3 * DECISIONS_MAX
    assert len(small.keep) == len(small.decisions) <= DECISIONS_MAX
    assert small.violation.checker in mutant_named(name).caught_by


@pytest.mark.parametrize("name", MUTANTS)
def test_the_command_that_is_printed_repeats_it(name: str) -> None:
    small = reduction_of(name)

    program, *arguments = shlex.split(small.command)
    result = CliRunner().invoke(app, arguments)

    assert program == "tierledger"
    assert result.exit_code == 1
    assert f"FAILED  {small.violation.checker}: " in result.stdout


def test_a_seed_that_does_not_fail_is_not_shrunk() -> None:
    assert reduced(1) is None


@pytest.mark.parametrize("wanted", [(), (0,), (7, 31), (3, 4, 5, 40), (0, 20, 21, 50)])
def test_only_what_is_needed_is_left(wanted: tuple[int, ...]) -> None:
    whole = drawn(1)
    needed = {whole.decisions[at] for at in wanted}

    small = shrunk(whole, lambda one: needed <= set(one.decisions))

    assert set(small.scenario.decisions) == needed
    assert simpler(small.scenario) == []
    assert small.scenario == scenario_of(drawn(1), small.kept, small.settings)


def test_two_that_need_each_other_go_together() -> None:
    decisions = tuple(SeedDecision(at, f"kind {at}", ()) for at in range(40))
    whole = drawn(1)._replace(decisions=decisions)
    pair, needed = {decisions[3], decisions[30]}, {decisions[12], decisions[39]}

    def fails(scenario: Scenario) -> bool:
        made = set(scenario.decisions)
        return needed <= made and len(pair & made) != 1

    assert set(shrunk(whole, fails).scenario.decisions) == needed


def test_what_is_needed_of_the_world_stays() -> None:
    whole = drawn(1)

    small = shrunk(whole, lambda one: one.hosts == whole.hosts and len(one.decisions) > 2)

    assert len(small.kept) == 3
    assert small.scenario.hosts == whole.hosts
    assert not any(one.startswith("hosts=") for one in small.settings)


def test_every_step_still_fails_and_their_number_is_bounded() -> None:
    tried: list[int] = []

    def fails(scenario: Scenario) -> bool:
        tried.append(len(scenario.decisions))
        return len(scenario.decisions) % 2 == len(drawn(1).decisions) % 2

    small = shrunk(drawn(1), fails, runs_max=10)

    assert small.runs == len(tried) == 10
    assert fails(small.scenario)


def test_it_shrinks_the_same_way_each_time() -> None:
    small = reduction_of(QUICK)

    assert reduced(small.seed, mutant=small.mutant) == small


def test_decisions_are_in_the_order_of_their_numbers() -> None:
    keep = reduction_of(QUICK).keep

    assert all(one < other for one, other in pairwise(keep))
