"""`--from leader|follower` where no service runs; with one, see the tests on Ray."""

from pathlib import Path

import pytest

from tests.models.cli.command_line import in_process, refused, run


@pytest.mark.parametrize("source", ["leader", "follower"])
@pytest.mark.parametrize("command", [["lookup", "orders", 1, 0, 5], ["segments", "orders", 1]])
def test_without_a_service_it_is_said_how_to_start_one(
    store: Path, command: list[object], source: str
) -> None:
    result = run(store, *command, "--from", source)

    refused(result, "error: no service runs", "tierledger serve", status=4)


def test_the_past_is_not_asked_of_a_service(store: Path) -> None:
    result = run(store, "lookup", "orders", 1, 0, 5, "--from", "leader", "--as-of", "3")

    refused(result, "the past is read from the store")


def test_an_unknown_source_is_answered_with_those_known(store: Path) -> None:
    result = run(store, "segments", "orders", 1, "--from", "moon")

    refused(result, "--from: expected one of store, leader, follower, got 'moon'")


def test_ray_is_not_loaded_for_a_service_that_does_not_run(store: Path) -> None:
    asked = ("segments", "orders", 1, "--from", "leader", "--store", f"sqlite:{store}")

    done, loaded = in_process(*asked)

    assert done.returncode == 4
    assert "ray" not in loaded
