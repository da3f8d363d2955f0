"""`simulate mutants` and `simulate coverage`, run as a user runs them."""

import json
import re
from functools import cache

import pytest

from tests.models.cli.simulate_command import simulate
from tierledger.actors.coordinator import machine
from tierledger.cli.commands.simulate.mutants import BAR, bar
from tierledger.simulation.campaign import campaign
from tierledger.simulation.campaign.summary import CampaignSummary
from tierledger.simulation.machines.laws.counts import GREATEST, SUMMED
from tierledger.simulation.mutants.mistakes import FIRST

QUICK, SLOW, MOVES = "M08", "M22", "M89"
"""A mutant that nearly every seed catches, one that hardly any does, and one of clusters that
move, which its first seed catches."""


@pytest.fixture(autouse=True)
def seeds_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each test, however often it asks for them: as text, and as JSON."""
    monkeypatch.setattr(campaign, "outcome", cache(campaign.outcome))


def test_each_mutant_has_a_line_that_begins_with_its_name() -> None:
    result = simulate("mutants", "--only", f"{QUICK},M44", "--budget-seeds", "3", "--jobs", "1")

    assert result.exit_code == 0, result.stdout
    rows = [line for line in result.stdout.splitlines() if line.startswith("M")]
    assert [row.split()[0] for row in rows] == [QUICK, "M44"]
    assert all("seed " in row for row in rows)
    assert "control" in result.stdout
    assert result.stdout.endswith("2 mutants, 0 not caught; control: 0 failed\n")


def test_a_mutant_that_nobody_notices_is_a_failure() -> None:
    arguments = ["mutants", "--only", SLOW, "--budget-seeds", "1", "--jobs", "1"]

    result, as_json = simulate(*arguments), simulate(*arguments, "--json")

    assert (result.exit_code, as_json.exit_code) == (1, 1)
    assert "NOT CAUGHT" in result.stdout
    found, control = map(json.loads, as_json.stdout.splitlines())
    assert (found["mutant"].split()[0], found["caught_at"], found["seeds"]) == (SLOW, None, 1)
    assert (control["mutant"], control["failed"]) == (None, [])


def test_each_mutant_is_looked_for_in_the_world_that_shows_it() -> None:
    arguments = ["--only", f"D1,{MOVES}", "--budget-seeds", "1", "--jobs", "1"]

    result, as_json = simulate("mutants", *arguments), simulate("mutants", *arguments, "--json")

    assert result.exit_code == 0, result.stdout
    for world in ("service", "lives"):
        assert re.search(rf"^control \({world}\) +clean ", result.stdout, re.MULTILINE)
    controls = [json.loads(line) for line in as_json.stdout.splitlines()[2:]]
    assert [one["world"] for one in controls] == ["service", "lives"]


def test_the_first_that_catches_it_may_be_enough() -> None:
    arguments = ["mutants", "--only", QUICK, "--budget-seeds", "4", "--jobs", "1", "--json"]

    found = json.loads(simulate(*arguments, "--first").stdout.splitlines()[0])

    assert found["caught"] == 1
    assert found["seeds"] == found["caught_at"] - FIRST + 1 < 4


def test_an_unknown_mutant_is_one_line_and_exit_2() -> None:
    result = simulate("mutants", "--only", "M08,nobody")

    assert result.exit_code == 2
    assert result.stderr.startswith("error: no mutant 'nobody'; there are M01")


def test_coverage_counts_every_situation_and_fails_for_those_that_never_were() -> None:
    result = simulate("coverage", "--seeds", "1", "--jobs", "1")
    as_json = json.loads(simulate("coverage", "--seeds", "1", "--jobs", "1", "--json").stdout)
    known = CampaignSummary().known_marks

    assert result.exit_code == 1
    for mark in known:
        assert f" {mark} " in result.stdout
    assert "NEVER" in result.stdout
    assert as_json["marks"].keys() == known.keys()
    assert set(as_json["never"]) == {
        mark for mark, seen in as_json["marks"].items() if not seen
    }
    for name in (*SUMMED, *GREATEST):
        assert name in result.stdout
    assert as_json["counts"].keys() == {*SUMMED, *GREATEST}
    assert as_json["none"] == [name for name in SUMMED if not as_json["counts"][name]]


def test_slips_say_what_found_them_and_how_many_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "CHECKS", [])  # The tests' own would find it first.
    arguments = ["slips", "--only", "S01,S38", "--seeds", "1", "--jobs", "1"]

    result, as_json = simulate(*arguments), simulate(*arguments, "--json")

    found, missed, summary, rate = result.stdout.splitlines()[1:]
    assert found.startswith("S01 coordinatorstate.review  seed 0")
    assert "unfollowed" in found
    assert "NOT FOUND" in missed
    assert summary == "1 of 2 found within 1 seeds"
    assert rate.endswith(" per minute of one core")
    assert json.loads(as_json.stdout.splitlines()[0])["caught_at"] == 0


def test_slips_are_looked_for_in_the_world_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "CHECKS", [])
    arguments = ["slips", "--only", "S01", "--seeds", "1", "--jobs", "1", "--world"]

    assert "1 of 1 found within 1 seeds" in simulate(*arguments, "service").stdout
    refused = simulate(*arguments, "nowhere")
    assert refused.exit_code == 2
    assert "--world: expected service or lives, got 'nowhere'" in refused.stderr


@pytest.mark.parametrize(("seen", "length"), [(0, 0), (1, 2), (100, 12), (10_000, BAR)])
def test_a_bar_is_as_long_as_the_logarithm(seen: int, length: int) -> None:
    assert bar(seen, 10_000) == "█" * length
