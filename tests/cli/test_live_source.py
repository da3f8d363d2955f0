"""`--from leader|follower` where no service runs; with one, see the tests on Ray."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.command_line import orders, run, write


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.sqlite"
    write(path, orders)
    return path


@pytest.mark.parametrize("source", ["leader", "follower"])
@pytest.mark.parametrize("command", [["lookup", "orders", 1, 0, 5], ["segments", "orders", 1]])
def test_without_a_service_it_is_said_how_to_start_one(
    store: Path, command: list[object], source: str
) -> None:
    result = run(store, *command, "--from", source)

    assert result.exit_code == 4
    assert result.stderr.startswith("error: no service runs")
    assert "tierledger serve" in result.stderr


def test_the_past_is_not_asked_of_a_service(store: Path) -> None:
    result = run(store, "lookup", "orders", 1, 0, 5, "--from", "leader", "--as-of", "3")

    assert result.exit_code == 2
    assert "the past is read from the store" in result.stderr


def test_an_unknown_source_is_answered_with_those_known(store: Path) -> None:
    result = run(store, "segments", "orders", 1, "--from", "moon")

    assert result.exit_code == 2
    assert "--from: expected one of store, leader, follower, got 'moon'" in result.stderr


def test_ray_is_not_loaded_for_a_service_that_does_not_run(store: Path) -> None:
    script = (
        "import sys; from tierledger.cli import main\n"
        "try: main.main()\n"
        "finally: print('ray' in sys.modules, file=sys.stderr)"
    )
    asked = ["segments", "orders", "1", "--from", "leader", "--store", f"sqlite:{store}"]

    done = subprocess.run(
        [sys.executable, "-c", script, *asked], capture_output=True, text=True, check=False
    )

    assert done.returncode == 4
    assert done.stderr.splitlines()[-1] == "False"
