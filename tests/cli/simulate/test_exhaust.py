"""`simulate exhaust`: what it tried, and the one command that shows an order again."""

import json

from typer.testing import Result

from tests.models.cli.command_line import invoke, refused
from tests.models.cli.simulate_command import simulate

FEW = ("--crashes", "1", "--appends", "1", "--changes", "1", "--jobs", "1")


def exhaust(*arguments: str) -> Result:
    return simulate("exhaust", *arguments)


def test_it_says_how_much_it_tried_and_that_nothing_broke() -> None:
    result = exhaust(*FEW)

    assert result.exit_code == 0
    lines = dict(line.split(None, 1) for line in result.stdout.splitlines())
    assert int(lines["schedules"]) > 20
    assert int(lines["states"]) > 20
    assert lines["violations"] == "0"


def test_a_planted_mistake_is_found_and_the_command_that_is_printed_shows_it_again() -> None:
    found = exhaust(*FEW, "--mutant", "M09", "--json")
    report = json.loads(found.stdout)

    again = invoke(*report["again"].split()[1:])

    assert (found.exit_code, again.exit_code) == (1, 1)
    for violation in report["violations"]:
        assert f"FAILED  {violation['checker']}: " in again.stdout
    clean = [word for word in report["again"].split()[1:] if word not in ("--mutant", "M09")]
    assert invoke(*clean).exit_code == 0


def test_a_line_that_is_no_schedule_is_refused() -> None:
    refused(exhaust("--schedule", "somehow:h1"), "expected")
