"""`check`, run as a user runs it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.models.cli.command_line import invoke, refused
from tests.models.simulation.planted_anomalies import altered
from tests.models.simulation.records import small_record
from tierledger.simulation.history.calls import INFO, OK, WRITE, history_as_lines
from tierledger.simulation.record.file import record_as_lines
from tierledger.simulation.record.record import RunRecord


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def with_calls(
    record: RunRecord,
    number: int,
    **fields: Any,  # noqa: ANN401 - Of that call.
) -> RunRecord:
    operations = altered(record.history.operations, number, **fields)
    return record._replace(history=record.history._replace(operations=operations))


def rows(result: Result) -> dict[str, str]:
    """The table: checker to violations."""
    cells = (line.split() for line in result.stdout.splitlines())
    return {row[0]: row[1] for row in cells if len(row) > 2 and row[1].isdigit()}


def test_a_history_without_fault_is_clean(path: Path) -> None:
    path.write_bytes(b"".join(record_as_lines(small_record())))

    result = invoke("check", path)

    assert result.exit_code == 0
    counts = rows(result)
    assert counts["lost_write"] == counts["wrong_answer"] == counts["vacuous"] == "0"
    assert {one for name, one in counts.items() if "_" in name} == {"0"}
    assert "leadership changes  2" in result.stdout
    assert result.stdout.endswith("\n0 violations\n")


def test_a_planted_violation_is_named(path: Path) -> None:
    record = small_record()
    (log,) = record.logs
    last = max(op.position or 0 for op in record.history.operations)
    number = next(
        op.number for op in record.history.operations if op.kind == WRITE and op.outcome == INFO
    )
    claimed = {"outcome": OK, "position": last + 5, "error": ""}
    path.write_bytes(b"".join(record_as_lines(with_calls(record, number, **claimed))))

    result = invoke("check", path)

    assert result.exit_code == 1
    assert int(rows(result)["lost_write"]) == 1
    assert (
        f"FAILED  lost_write: partition {log.topic_id_partition.partition}: " in result.stdout
    )


def test_the_same_as_one_json_document(path: Path) -> None:
    record = small_record()
    (checkpoint, *others) = record.checkpoints
    wrong = record._replace(checkpoints=[checkpoint._replace(digest=bytes(16)), *others])
    path.write_bytes(b"".join(record_as_lines(wrong)))

    result = invoke("check", path, "--json")

    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert report["checkers"] == {"checkpoint_is_fold": 1}
    assert report["violations"][0]["partition"] == 3
    assert report["leadership_changes"] == 2
    assert report["calls"] == len(record.history.operations)


def test_where_an_assumption_breaks_nobody_else_is_said_to_be_content(path: Path) -> None:
    record = small_record()
    first = record.history.operations[0]
    path.write_bytes(b"".join(record_as_lines(with_calls(record, 1, request=first.request))))

    result = invoke("check", path)

    assert result.exit_code == 1
    assert rows(result) == {"assumptions": "1"}
    assert "no other checker was asked" in result.stderr


def test_a_file_that_is_none_or_not_whole_is_a_wrong_question(path: Path) -> None:
    refused(invoke("check", path), f"cannot read {path}: No such file or directory")

    path.write_text("dear diary\n")
    refused(invoke("check", path), "line 1: expected a line of a record")

    path.write_bytes(b"".join(history_as_lines(small_record().history)))
    message = "calls alone, without what the store held, cannot be judged"
    refused(invoke("check", path), message)

    path.write_bytes(b"".join(record_as_lines(small_record())))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(invoke("check", path), "the record is cut off")
