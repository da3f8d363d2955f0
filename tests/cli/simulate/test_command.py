"""`simulate run`, run as a user runs it."""

import shlex

import pytest

from tests.models.cli.command_line import in_process, invoke, refused
from tests.models.cli.simulate_command import MISTAKE, document, simulate
from tierledger.cli.commands.simulate.options import seeds_of
from tierledger.events.errors import InvalidArgument
from tierledger.simulation.campaign.campaign import Workers, mutant_named
from tierledger.simulation.checkers.verdict import SeedVerdict
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.mutants.catalogue import planted


def test_seeds_that_are_well_are_counted_and_measured() -> None:
    result = simulate("run", "--seeds", "20:32", "--jobs", "2")

    assert result.exit_code == 0, result.stdout
    assert result.stdout.endswith("12 seeds, 0 failed\n")
    assert "small               10 seeds, " in result.stdout
    assert "big                 2 seeds, " in result.stdout


def test_the_report_has_all_figures() -> None:
    found = document(simulate("run", "--seeds", "3", "--jobs", "1", "--json"))

    assert (found["seeds"], found["small"]["seeds"], found["big"]["seeds"]) == (3, 2, 1)
    assert found["failed"] == found["vacuous"] == []
    assert found["calls"] >= found["ok_calls"] > 0
    assert found["seeds_with"]


def test_each_seed_has_a_line_with_its_hash_whatever_the_number_of_processes() -> None:
    alone = simulate("run", "--seeds", "1:4", "--jobs", "1", "--hash-only").stdout
    together = simulate("run", "--seeds", "1:4", "--jobs", "3", "--hash-only").stdout

    assert alone == together
    lines = [line.split() for line in alone.splitlines()]
    assert [seed for seed, _ in lines] == ["1", "2", "3"]
    assert len({trace_hash for _, trace_hash in lines}) == 3


def test_a_failing_seed_is_shrunk_and_its_command_repeats_it() -> None:
    with planted(mutant_named(MISTAKE)):
        failed = simulate("run", "--seed", "1", "--jobs", "1")
        (again,) = [line for line in failed.stdout.splitlines() if "again: " in line]
        arguments = shlex.split(again.partition("again: ")[2])
        repeated = invoke(*arguments[1:])

    assert failed.exit_code == 1
    assert "1 seeds, 1 failed" in failed.stdout
    assert "decisions are enough" in failed.stdout
    assert arguments[:5] == ["tierledger", "simulate", "replay", "--seed", "1"]
    assert "--keep" in arguments
    assert repeated.exit_code == 1
    assert "FAILED  " in repeated.stdout


def test_a_failing_seed_may_be_left_whole() -> None:
    with planted(mutant_named(MISTAKE)):
        failed = document(
            simulate("run", "--seed", "1", "--jobs", "1", "--no-shrink", "--json")
        )

    (one,) = failed["failed"]
    assert one["again"] == "tierledger simulate replay --seed 1"
    assert one["decisions"] is None
    assert one["violations"]


def test_a_campaign_that_misses_a_rare_situation_fails_and_names_it() -> None:
    result = simulate("run", "--seeds", "2", "--jobs", "1", "--require-marks")

    assert result.exit_code == 1
    assert "FAILED  vacuous: never seen: claim lost a race" in result.stdout


def test_time_ends_a_run() -> None:
    asked = ["--seeds", "0:100000", "--minutes", "0.01", "--jobs", "1", "--json"]

    found = document(simulate("run", *asked))

    assert 0 < found["seeds"] < 100_000


def test_lives_are_another_world() -> None:
    found = document(
        simulate("run", "--seeds", "2:4", "--jobs", "2", "--world", "lives", "--json")
    )

    assert (found["world"], found["seeds"], found["failed"]) == ("lives", 2, [])
    assert found["leadership_changes"] >= 8


def test_a_life_that_fails_is_repeated_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = SeedVerdict(
        2, [Violation("lockout", None, "none leads")], "", 1, 1, 1, 1, 1.0, {}, {}
    )
    monkeypatch.setattr(Workers, "outcomes", lambda *_, **__: [failed])
    arguments = ("run", "--seed", "2", "--jobs", "1", "--world", "lives")

    shown = simulate(*arguments).stdout
    (found,) = document(simulate(*arguments, "--json"))["failed"]

    again = "tierledger simulate replay --seed 2 --world lives"
    assert f"  again: {again}\n" in shown
    assert found["again"] == again


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--world", "flat"],
        ["run", "--seeds", "1:1"],
        ["run", "--seeds", "-3"],
        ["run", "--seeds", "10", "--seed", "1"],
    ],
    ids=" ".join,
)
def test_a_wrong_question_is_one_line_and_exit_2(arguments: list[str]) -> None:
    refused(simulate(*arguments))


def test_seeds_are_a_count_or_a_range() -> None:
    assert seeds_of("200") == range(200)
    assert seeds_of("7:9") == range(7, 9)
    with pytest.raises(InvalidArgument, match="expected at least one, got '9:7'"):
        seeds_of("9:7")


def test_the_simulation_is_loaded_by_those_who_simulate() -> None:
    done, loaded = in_process("simulate", "--help")

    assert done.returncode == 0
    assert "coverage" in done.stdout
    assert not [one for one in loaded if "simulation." in one]
