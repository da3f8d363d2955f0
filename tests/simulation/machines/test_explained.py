"""A failure can be understood from its page: the documents' table of them holds."""

import pytest

from tests.house.test_documents import document, table
from tierledger.actors.coordinator import machine as coordinator
from tierledger.actors.host import machine as host
from tierledger.actors.host import machine_guard as partition
from tierledger.simulation.campaign.campaign import drawn, judged, watched
from tierledger.simulation.checkers.violation import ASKED, Violation, ms_text
from tierledger.simulation.machines.timeline_of import timeline_of
from tierledger.simulation.timeline import RunMoment

SHOWN = [
    (checker, mutant, int(seed))
    for checker, mutant, seed, _ in table(document("docs/simulation-reference.md"), "shown by")
]
IN_THE_LOG = ("position ", "behind position ")
"""Prefixes of messages about the content of a log at a position."""
AT_THE_END = {"endless", "unlike_model", "unforeseen_failure"}
"""Checkers that judge the state in which a run ended."""


def shown(mutant: str, seed: int, checker: str) -> tuple[Violation, RunMoment, int]:
    """The first of what that checker finds, its mark on the page, and the run's end."""
    scenario = drawn(seed)
    (violation, *_) = [
        one for one in judged(scenario, mutant).violations if one.checker == checker
    ]
    with watched(scenario, mutant) as world:
        run = timeline_of(world, title="a run", command="again", violations=[violation])
        mark = [one for one in run.moments if one.what == "violation"][-1]
        return violation, mark, world.clock.now


@pytest.mark.parametrize(
    ("checker", "mutant", "seed"),
    [
        pytest.param(*one, marks=[pytest.mark.long] if at % 8 else [])
        for at, one in enumerate(SHOWN)  # Each is two whole runs: seconds of CPU.
    ],
)
def test_a_failure_has_its_place_in_the_run_or_says_that_it_was_asked(
    checker: str, mutant: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for machines in (coordinator, host, partition):
        monkeypatch.setattr(machines, "CHECKS", [])  # The tests' own would find it first.

    violation, mark, end = shown(mutant, seed, checker)

    is_asked = violation.message.startswith(ASKED)
    assert (mark.time_us == end) == (is_asked or checker in AT_THE_END)
    if mark.time_us < end and not violation.message.startswith(IN_THE_LOG):
        assert violation.operations or ms_text(mark.time_us * 1000) in violation.message
    assert mark.key == ("" if violation.key is None else f"orders-{violation.key.partition}")
