"""The world of the whole service notices mistakes in the door's own rules."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.simulation.mutant_hunts import Hunts, hunts
from tierledger import simulation
from tierledger.simulation.campaign.campaign import mutant_named
from tierledger.simulation.mutants.catalogue import Mutant, planted
from tierledger.simulation.mutants.door import DOOR_MUTANTS


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Iterator[Hunts]:
    """Of those mutants whose hunt is asked for in this run."""
    caught = test_a_mutant_of_the_door_is_caught_by_its_checker.__name__
    names = [item.name.partition("[") for item in request.session.items]
    asked = {name.removesuffix("]") for test, _, name in names if test == caught}
    with hunts([one for one in DOOR_MUTANTS if one.name in asked]) as found:
        yield found


@pytest.mark.parametrize("mutant", DOOR_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_of_the_door_is_caught_by_its_checker(mutant: Mutant, found: Hunts) -> None:
    assert found[mutant.name].result() is not None, f"{mutant.within} seeds did not find it"


@pytest.mark.parametrize("mutant", DOOR_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_of_the_door_leaves_nothing_behind(mutant: Mutant) -> None:
    owners = [(owner, name, getattr(owner, name)) for owner, name, _ in mutant.patches()]

    with planted(mutant):
        assert any(getattr(owner, name) is not value for owner, name, value in owners)

    assert all(getattr(owner, name) is value for owner, name, value in owners)
    assert mutant_named(mutant.name.partition(" ")[0]) is mutant


def test_each_law_of_the_wire_has_a_mutant_that_it_alone_has_to_find() -> None:
    text = (Path(simulation.__file__).parent / "service" / "wire_watch.py").read_text()
    laws = set(re.findall(r'_found\(\s*"(\w+)"', text))

    alone = {name for one in DOOR_MUTANTS if len(one.caught_by) == 1 for name in one.caught_by}

    assert len(laws) == 5
    assert laws <= alone
