"""The world of the whole service notices mistakes in the door's own rules."""

import re
from pathlib import Path

import pytest

from tierledger import simulation
from tierledger.simulation.campaign import SERVICE, hunt, mutant_named
from tierledger.simulation.mutants import Mutant, planted
from tierledger.simulation.mutants_door import DOOR_MUTANTS

CORES = 2


@pytest.mark.parametrize("mutant", DOOR_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_of_the_door_is_caught_by_its_checker(mutant: Mutant) -> None:
    # In other processes: a mistake may let a coroutine ignore its end, which pytest minds.
    found = hunt(mutant, range(mutant.within), jobs=CORES, world=SERVICE)

    assert found.caught_at is not None, f"{found.seeds} seeds, found by {dict(found.checkers)}"


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

    assert len(laws) == 4
    assert laws <= alone
