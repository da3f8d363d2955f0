"""A world that did not notice a mistake would prove nothing: each of these it has to notice."""

import pytest

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.campaign import hunt, mutant_named
from tierledger.simulation.mutants import MUTANTS, Mutant, planted

SEEDS = 400
CORES = 2


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_its_checker(mutant: Mutant) -> None:
    found = hunt(mutant, range(SEEDS), jobs=CORES)

    assert found.caught_at is not None, f"{found.seeds} seeds, found by {dict(found.checkers)}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_leaves_nothing_behind(mutant: Mutant) -> None:
    owners = [(owner, name, getattr(owner, name)) for owner, name, _ in mutant.patches()]

    with planted(mutant):
        assert any(getattr(owner, name) is not value for owner, name, value in owners)

    assert all(getattr(owner, name) is value for owner, name, value in owners)


def test_an_unknown_mutant_is_named_beside_those_there_are() -> None:
    with pytest.raises(InvalidArgument, match=r"no mutant 'nobody'; there are no-fence-on-"):
        mutant_named("nobody")
