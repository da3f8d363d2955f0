"""A campaign: each seed is judged once, whoever does it, and an exception is a finding."""

from tierledger.simulation.campaign.campaign import (
    UNFORESEEN,
    Workers,
    drawn,
    judged,
    outcome,
)
from tierledger.simulation.machines.scenario.scenario import SeedDecision
from tierledger.simulation.worlds import LIVES, SERVICE


def test_every_seed_is_judged_once_in_its_order_whoever_does_it() -> None:
    seeds = [*range(11, 45, 3), 4]  # More than one worker takes at once.

    found = []
    for jobs in (1, 2):
        with Workers(jobs) as workers:
            found.append(list(workers.outcomes(seeds)))
    alone, together = found

    assert [one.seed for one in alone] == seeds
    assert [one._replace(cpu_s=0) for one in alone] == [
        one._replace(cpu_s=0) for one in together
    ]


def test_an_exception_in_a_world_is_found_and_says_where_it_came_from() -> None:
    broken = drawn(1)._replace(decisions=(SeedDecision(500_000, "copy", ("nobody", 0)),))

    (violation,) = judged(broken).violations

    assert violation.checker == UNFORESEEN
    assert violation.message.startswith("TypeError in strikes.")


def test_an_outcome_says_which_size_the_world_had() -> None:
    sizes = [outcome(seed, world).is_small for seed, world in ((11, SERVICE), (11, LIVES))]

    assert sizes == [True, False]
