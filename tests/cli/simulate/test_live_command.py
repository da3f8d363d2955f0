"""`simulate live` refuses impossible arguments before it starts anything."""

import pytest

from tests.models.cli.command_line import refused
from tests.models.cli.simulate_command import simulate
from tierledger.simulation.live.chaos.chaos import Storm
from tierledger.simulation.live.plan import LivePlan


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--store", "memory:"], "a store that several processes see, got memory:"),
        (["--store", "mysql://me:secret@db/x"], "expected a store as sqlite:FILE"),
        (["--fault", "burn"], "no fault 'burn'; there are kill host, "),
        (["--fault", "kill PostgreSQL"], "'kill PostgreSQL' cannot happen to sqlite"),
        (["--store", "postgresql", "--fault", "freeze writer"], "to postgresql"),
        (
            ["--store", "postgresql://me:secret@db/x", "--fault", "freeze PostgreSQL"],
            "//me@db/x",
        ),
        (["--history", "/nowhere/at/all"], "/nowhere/at is no folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_question_is_one_line(options: list[str], message: str) -> None:
    result = simulate("live", *options)

    refused(result, message)
    assert "secret" not in result.stderr


def test_a_short_run_has_to_show_something_too() -> None:
    storm = Storm(LivePlan(1, 3, 6, 120.0, 5.0), minutes=0.01)

    assert min(storm.minimums[:4]) == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--nodes", "1"],
        ["--hosts", "0"],
        ["--seed", "-1"],
        ["--minutes", "0"],
        ["--minutes", "inf"],
        ["--rate", "nan"],
    ],
)
def test_a_number_out_of_range_is_refused(options: list[str]) -> None:
    result = simulate("live", *options)

    assert result.exit_code == 2
    assert options[0] in result.stderr
