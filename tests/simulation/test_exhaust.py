"""No order of a small world breaks the service, and each planted mistake breaks in one."""

import pytest

from tests.models.mutant_hunts import JOBS
from tierledger.events.errors import InvalidArgument
from tierledger.simulation.exhaust.machines import Machines
from tierledger.simulation.exhaust.run import Progress, explore, lines_of
from tierledger.simulation.exhaust.schedule import line_of, repeated, schedule_of
from tierledger.simulation.exhaust.script import VARIANTS, Bounds, Script
from tierledger.simulation.exhaust.search import Search, parts_of
from tierledger.simulation.mutants.catalogue import MUTANTS, Mutant, planted

SMALL = Bounds(delays=1, crashes=1)
"""All crash points, with one late delivery: 15,000 schedules in each of which much happens."""


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(SMALL, marks=pytest.mark.long),  # The next one reads besides.
        SMALL._replace(reads=2),
        Bounds(delays=2, crashes=0),
        Bounds(delays=0, crashes=2),
    ],
    ids=lambda bounds: ".".join(map(str, bounds)),
)
def test_no_order_breaks_anything(bounds: Bounds) -> None:
    told: list[Progress] = []

    explored = explore(bounds, told.append, jobs=JOBS)

    assert explored.found is None, "\n".join(lines_of(explored, 0.0))
    assert explored.schedules > 400
    assert explored.outcomes > 100, "most schedules came to the same"
    assert explored.pruned > explored.schedules / 3, "the digest tells equal states apart"
    assert told[-1] == Progress(1.0, explored.states)


def named(part: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if part in mutant.name)


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("ack-before-durable", 0),
        ("unknown-taken-for-failure", 0),
        ("claim-not-compared", 0),
        ("request-ids-forgotten", 0),
        ("follower-regresses-after-restart", 2),
    ],
)
def test_a_planted_mistake_is_found_and_its_schedule_shows_it_again(
    name: str, reads: int
) -> None:
    mutant, bounds = named(name), SMALL._replace(reads=reads)

    found = explore(bounds, mutant=mutant).found

    assert found is not None
    assert found.choices, "nothing had to go wrong"
    assert {one.checker for one in found.violations} & mutant.caught_by
    line = line_of(found.variant, found.choices)
    with planted(mutant):
        told, violations = repeated(bounds, *schedule_of(line))
    assert violations == found.violations
    assert len(told) > 20
    assert repeated(bounds, *schedule_of(line))[1] == []


def test_the_numbers_do_not_depend_on_how_the_work_is_shared() -> None:
    bounds = Bounds(delays=1, crashes=1, appends=1, changes=1)

    alone, together = explore(bounds), explore(bounds, jobs=JOBS)

    assert alone == together
    assert sum(explore(bounds, variants=(one,)).states for one in VARIANTS) == alone.states


def test_more_may_be_late_and_all_of_the_smaller_search_is_in_the_larger() -> None:
    states = [explore(Bounds(delays, 0)).states for delays in range(2)]

    assert 1 < states[0] < states[1]


def test_states_that_were_left_behind_did_not_change() -> None:
    search = Search(parts_of(SMALL, VARIANTS)[0])

    search.run(lambda *_: False)

    assert search.machines.turns > 1000
    assert search.machines.altered() == []


def test_what_a_broker_does_again_is_the_same_as_the_first_time() -> None:
    script = Script(SMALL, VARIANTS[0])
    machines = Machines(script.terms, script.calls)

    loaded = machines.turn(machines.leader(1, 0), ("loaded", True))

    assert loaded.effects == (("read", 0),)
    assert machines.turn(machines.leader(1, 0), ("loaded", True)) is loaded
    assert machines.leader(2, 0) != machines.leader(1, 0)


@pytest.mark.parametrize(
    "line", ["", "somehow:h1", "told:x1", "told:h", "told:c3", "told:c3.0.1", "told:hh"]
)
def test_what_is_no_schedule_is_refused(line: str) -> None:
    with pytest.raises(InvalidArgument, match="expected"):
        schedule_of(line)


@pytest.mark.parametrize("line", ["told:r3.0", "told:h900", "untold:r3.7"])
def test_a_schedule_of_another_world_is_refused(line: str) -> None:
    with pytest.raises(InvalidArgument, match=r"nobody can release at step 3|over before step"):
        repeated(SMALL, *schedule_of(line))


def test_bounds_are_not_negative() -> None:
    with pytest.raises(InvalidArgument, match="at least 0"):
        explore(Bounds(delays=-1))
