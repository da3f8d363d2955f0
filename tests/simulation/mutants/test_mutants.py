"""A world that did not notice a mistake would prove nothing: each of these it has to notice."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.simulation.mutant_hunts import Hunts, hunts
from tierledger import simulation
from tierledger.events.errors import InvalidArgument
from tierledger.simulation.campaign.campaign import (
    SAYS_NOTHING,
    UNFORESEEN,
    Workers,
    hunt,
    mutant_named,
    outcome,
)
from tierledger.simulation.mutants.catalogue import MUTANTS, Mutant, planted
from tierledger.simulation.mutants.door import DOOR_MUTANTS
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.simulation.mutants.slips import SLIPS
from tierledger.simulation.worlds import SERVICE

SEED = 251
"""A small world."""

OF_RECORDS = {"lockout"}
"""What a world shows as `liveness`; tests/simulation/checkers/test_healing.py plants it."""


DEAR = "M04 conflict-not-noticed"
"""A mutant whose seeds take a quarter of a minute of CPU each: much is judged in them."""

CORE = {
    one.caught_by: one.name
    for one in (*MUTANTS, *DOOR_MUTANTS)
    if len(one.caught_by) == 1 and one.name != DEAR
}
"""For each checker a mutant that it alone has to find; `make test-long` plants all of them."""


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Iterator[Hunts]:
    """Of those mutants whose hunt is asked for in this run."""
    caught = test_a_mutant_is_caught_by_its_checker.__name__
    names = [item.name.partition("[") for item in request.session.items]
    asked = {name.removesuffix("]") for test, _, name in names if test == caught}
    with hunts([one for one in MUTANTS if one.name in asked]) as found:
        yield found


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            one, id=one.name, marks=[] if one.name in CORE.values() else [pytest.mark.long]
        )
        for one in MUTANTS
    ],
)
def test_a_mutant_is_caught_by_its_checker(mutant: Mutant, found: Hunts) -> None:
    assert found[mutant.name].result() is not None, f"{mutant.within} seeds did not find it"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_leaves_nothing_behind(mutant: Mutant) -> None:
    owners = [(owner, name, getattr(owner, name)) for owner, name, _ in mutant.patches()]

    with planted(mutant):
        assert any(getattr(owner, name) is not value for owner, name, value in owners)

    assert all(getattr(owner, name) is value for owner, name, value in owners)


def test_a_seed_is_what_it_was_after_a_mutant_has_gone() -> None:
    before = outcome(SEED, SERVICE)
    with planted(MUTANTS[0]):
        during = outcome(SEED, SERVICE)

    after = outcome(SEED, SERVICE)

    assert during.violations
    assert not before.violations
    assert after.trace_hash == before.trace_hash


def test_mutants_are_numbered_in_their_order() -> None:
    numbers = [int(mutant.name.partition(" ")[0].removeprefix("M")) for mutant in MUTANTS]

    assert numbers == sorted(set(numbers))


def test_each_checker_has_a_mutant_that_it_alone_has_to_find() -> None:
    """But for those of the run: no mistake of the service is theirs to find."""
    folder = Path(simulation.__file__).parent
    rooms = ("checkers", "machines", "lives", "questions", "campaign")
    texts = [one.read_text() for room in rooms for one in (folder / room).rglob("*.py")]
    checkers = {name for text in texts for name in re.findall(r'Violation\(\s*"(\w+)"', text)}

    planted_anywhere = (*MUTANTS, *DOOR_MUTANTS)
    alone = {
        name for one in planted_anywhere if len(one.caught_by) == 1 for name in one.caught_by
    }

    assert len(checkers) > 30
    assert {*checkers, UNFORESEEN} - alone == SAYS_NOTHING | OF_RECORDS


@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: slip.name)
def test_a_slip_is_a_change_of_text_that_stands_there(slip: Mutant) -> None:
    ((function, attribute, code),) = slip.patches()

    assert attribute == "__code__"
    assert code.co_code != function.__code__.co_code or code.co_consts != (
        function.__code__.co_consts
    )
    assert mutant_named(slip.name.partition(" ")[0]) is slip


@pytest.mark.parametrize("number", [pytest.param("S01", marks=pytest.mark.long), "S03"])
def test_a_slip_is_found_by_whichever_checker(number: str) -> None:
    found = hunt(mutant_named(number), range(20), Workers(1))

    assert found.caught_at is not None
    assert found.cpu_s > 0


def test_a_text_that_does_not_stand_there_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"planted: expected 'nothing' once, found it 0"):
        rewritten(planted, "nothing", "anything")


def test_an_unknown_mutant_is_named_beside_those_there_are() -> None:
    with pytest.raises(InvalidArgument, match=r"no mutant 'nobody'; there are M01 to M"):
        mutant_named("nobody")
