"""`tierledger simulate live` for a while, and `check` on the history that it leaves."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tierledger.simulation.history.calls import OK, WRITE
from tierledger.simulation.record.file import read_record, record_as_lines

pytestmark = [pytest.mark.chaos, pytest.mark.ray]

QUICK = ["--minutes", 0.25, "--fault", "kill host", "--fault", "kill coordinator"]
"""Faults that are noticed at once, so that much happens in little time."""

ALL = ["--minutes", 1]


class Said(NamedTuple):
    """How a command ended, and the document that it printed."""

    status: int
    document: dict[str, Any]


def command(*arguments: object) -> Said:
    given = [sys.executable, "-m", "tierledger.cli.main", *map(str, arguments), "--json"]
    ended = subprocess.run(given, capture_output=True, text=True, check=False)
    assert ended.stdout, ended.stderr
    return Said(ended.returncode, json.loads(ended.stdout))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live") / "history.jsonl"


@pytest.fixture(
    scope="module",
    params=[QUICK, pytest.param(ALL, marks=pytest.mark.long)],
    ids=["quick", "all"],
)
def lived(request: pytest.FixtureRequest, history: Path) -> Said:
    options = ["--store", "sqlite", "--seed", 7, "--history", history]
    return command("simulate", "live", *request.param, *options)


def test_a_run_of_faults_shows_no_violation_and_was_no_quiet_one(lived: Said) -> None:
    document = lived.document
    assert document["violations"] == []
    assert lived.status == 0
    # Half of what a busy machine showed.
    assert document["leadership_changes"] >= 2
    assert document["ok_writes"] >= 200
    assert len(document["faults"]) >= 2
    assert document["fared"]["answered_share"] > 0.9
    assert all(0 < row["max_gap_s"] < 60 for row in document["faults"])


def test_its_history_is_judged_again_and_the_same(lived: Said, history: Path) -> None:
    status, again = command("check", history)

    assert (status, again["violations"]) == (0, [])
    for name, figure in (
        ("calls", lived.document["fared"]["calls"]),
        ("ok_writes", lived.document["ok_writes"]),
        ("leadership_changes", lived.document["leadership_changes"]),
        ("events", lived.document["events"]),
    ):
        assert again[name] == figure


def test_a_lie_in_it_is_found(lived: Said, history: Path, tmp_path: Path) -> None:
    record = read_record(history)
    operations = record.history.operations
    answered = next(op for op in operations if (op.kind, op.outcome) == (WRITE, OK))
    assert answered.position is not None
    operations[answered.number] = answered._replace(position=answered.position + 1)
    (tmp_path / "lie.jsonl").write_bytes(b"".join(record_as_lines(record)))

    status, document = command("check", tmp_path / "lie.jsonl")

    assert status == 1
    assert "lost_write" in document["checkers"]
