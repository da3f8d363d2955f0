"""`simulate replay` and `simulate explain`, run as a user runs them."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.models.cli.command_line import invoke, refused
from tests.models.cli.simulate_command import MISTAKE, document, simulate


def replayed(*arguments: str) -> dict[str, Any]:
    return document(simulate("replay", *arguments, "--json"))


def test_a_seed_is_the_same_run_again() -> None:
    first, second = replayed("--seed", "3"), replayed("--seed", "3")

    assert first == second
    assert first["violations"] == []
    hashed = simulate("run", "--seed", "3", "--hash-only", "--jobs", "1").stdout
    assert hashed == f"3 {first['trace_hash']}\n"


def test_a_run_is_told_as_text() -> None:
    result = simulate("replay", "--seed", "3")

    assert result.exit_code == 0
    assert "trace hash " in result.stdout
    assert result.stdout.endswith("0 violations\n")


def test_fewer_decisions_are_another_run() -> None:
    whole = replayed("--seed", "3")
    some = replayed("--seed", "3", "--keep", "0-9,12")
    none = replayed("--seed", "3", "--keep", "none", "--shape", "hosts=1,delays=even")

    assert none["calls"] < some["calls"] < whole["calls"]


def test_a_planted_mistake_is_found_again() -> None:
    result = simulate("replay", "--seed", "1", "--mutant", MISTAKE)

    assert result.exit_code == 1
    assert "FAILED  " in result.stdout


@pytest.mark.parametrize(
    ("seed", "world"),
    [("3", "service"), ("20", "service")],
)
def test_a_history_is_one_that_check_takes(seed: str, world: str, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    asked = ["--seed", seed, "--world", world, "--shape", "release=same"]

    simulate("replay", *asked, "--history", str(path))
    checked = invoke("check", path, "--json")

    assert checked.exit_code == 0, checked.stdout + checked.stderr
    assert document(checked)["calls"] > 20
    assert f"replay --seed {seed}" in document(checked)["origin"]


def test_a_history_with_a_mistake_in_it_is_found_out_again(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    asked = ["--seed", "1", "--mutant", MISTAKE]

    simulate("replay", *asked, "--history", str(path))
    checked = invoke("check", path)

    assert checked.exit_code == 1
    assert "FAILED  " in checked.stdout


def test_a_trace_has_every_decision_and_every_process(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    some = ["--seed", "3", "--keep", "0-9"]

    result = simulate("replay", *some, "--trace", str(path))

    assert result.exit_code == 0
    text = path.read_text()
    assert "decisions: 10\n" in text
    assert "broker-1/" in text
    assert "repeat: tierledger simulate replay --seed 3 --keep 0-9\n" in text
    assert re.search(r"batch 0: position 0\S* SessionOpened\(", text)
    for moment in ("loaded", "ready", "heal", "well", "follow", "claim"):
        assert f" {moment} " in text


def test_some_decisions_of_the_service_world_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    some = ["--seed", "20", "--world", "service", "--keep", "40-60", "--shape", "hosts=2"]

    result = simulate("explain", *some, "--out", str(path))

    assert result.exit_code == 0
    assert "again: tierledger simulate replay --seed 20 --keep 40-60" in result.stderr
    assert "host-1/" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--keep", "1,x"], "expected numbers like 3,8,19-22 or none, got '1,x'"),
        (["--keep", "99999"], "seed 1 has no decision 99999"),
        (["--shape", "roof=flat"], "no shape 'roof=flat'; there are brokers=NUMBER"),
        (["--mutant", "M999"], "no mutant 'M999'; there are M01"),
        (["--world", "service", "--keep", "99999"], "seed 1 has no decision 99999"),
        (["--history", "no/such/folder"], "no/such is no folder"),
        (["--world", "lives", "--history", "x"], "--history: a life has none"),
        (["--world", "machines"], "--world machines: this world is gone, and its seeds are"),
    ],
)
def test_a_wrong_question_is_one_line_and_exit_2(arguments: list[str], error: str) -> None:
    refused(simulate("replay", "--seed", "1", *arguments), error)


def test_a_failing_seed_is_made_small_and_drawn(tmp_path: Path) -> None:
    path = tmp_path / "run.html"

    result = simulate("explain", "--seed", "1", "--mutant", "M46", "--out", str(path))

    assert result.exit_code == 0
    page = path.read_text()
    assert page.startswith("<!doctype html>")
    assert "tierledger simulate replay --seed 1 --mutant M46 --keep " in page
    assert "again: tierledger simulate replay --seed 1 --mutant M46 --keep " in result.stderr
    assert "host-0/" in page


def test_a_seed_without_fault_is_drawn_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.html"

    result = simulate("explain", "--seed", "3", "--out", str(path))

    assert result.stdout.endswith(f" decisions, 0 violations: {path}\n")
    assert "tierledger simulate replay --seed 3</" in path.read_text()
