"""`replay` in one process, over a store in memory: recorded traces in, Kafka's answers out."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.models.cli.command_line import invoke, lines, refused
from tests.models.events.recorded_answers import answer_all
from tests.models.storage.stored_partitions import TRACES
from tierledger.conformance.answers import read_answers, read_questions
from tierledger.conformance.trace import answers_path, read_records

HISTORIES = sorted((TRACES / "histories").iterdir())
SOURCES = ("leader", "follower", "storage")


def replay(*arguments: object) -> Result:
    return invoke("replay", *arguments, "--store", "memory:")


def assert_all_right(summary: dict[str, Any], *sources: str) -> None:
    """Every question of the trace is answered as Kafka did, or better."""
    questions = sum(1 for _ in read_questions(answers_path(trace_of(summary))))
    for source in sources:
        told = summary[f"answers_from_{source}"]
        assert (told["wrong"], told["missed"]) == (0, 0), source
        assert told["equal"] + told["recovered"] == questions
        assert told["questions"] == told["answers"] == questions


def trace_of(summary: dict[str, Any]) -> Path:
    name: str = summary["trace"]
    return TRACES / "histories" / name if name.startswith("seed-") else TRACES / name


@pytest.mark.parametrize(
    "name",
    [
        "one-broker",
        "custom-metadata",
        "custom-metadata-over-limit",
        "tier",
        pytest.param("topic-deletion", marks=pytest.mark.long),
        pytest.param("large", marks=pytest.mark.long),
    ],
)
def test_a_trace_is_answered_as_kafka_did_whoever_is_asked(name: str) -> None:
    result = replay(TRACES / name, "--check", "--from", "all", "--churn", 5, "--json")

    (summary,) = lines(result)
    assert_all_right(summary, *SOURCES)
    assert summary["host_kills"] >= 1
    assert summary["records_refused"] == 0


@pytest.mark.long
def test_leaders_that_change_all_the_time_lose_nothing() -> None:
    trace = TRACES / "three-brokers-churn"

    result = replay(trace, "--check", "--from", "all", "--churn", 50, "--seed", 3, "--json")

    (summary,) = lines(result)
    assert_all_right(summary, *SOURCES)
    assert summary["host_kills"] >= 10
    assert summary["partition_stops"] >= 1


@pytest.mark.parametrize(
    "histories", [HISTORIES[::6], pytest.param(HISTORIES, marks=pytest.mark.long)], ids=len
)
def test_many_histories_go_through_one_service(histories: list[Path]) -> None:
    result = replay(*histories, "--check", "--json")

    found = lines(result)
    assert [one["trace"] for one in found] == [path.name for path in histories]
    for summary in found:
        assert_all_right(summary, "leader")


@pytest.mark.long
def test_many_histories_are_answered_alike_by_everybody_through_churn() -> None:
    result = replay(*HISTORIES, "--check", "--from", "all", "--churn", 5, "--json")

    for summary in lines(result):
        assert_all_right(summary, *SOURCES)


def test_a_wrong_answer_of_kafkas_is_found_out(tmp_path: Path) -> None:
    trace = tmp_path / "one-broker"
    trace.mkdir()
    records = TRACES / "one-broker" / "records.jsonl.gz"
    (trace / "records.jsonl.gz").write_bytes(records.read_bytes())
    kept = []
    for one in read_answers(answers_path(TRACES / "one-broker")):
        fields = dict(one.question.fields)
        if fields["query"] == "highest_offset" and fields["answer"] is not None:
            fields["answer"] += 1
        kept.append(json.dumps(fields) + "\n")
    (trace / "answers.jsonl").write_text("".join(kept))

    result = replay(trace, "--check")

    assert result.exit_code == 1
    assert "wrong=0" not in result.stdout
    assert "leader: wrong: " in result.stderr
    assert max(map(len, result.stderr.splitlines())) < 500, "a finding is a line, not a page"


# Strict.


def test_strict_sends_what_a_broker_would_and_nothing_of_a_real_ones_is_refused() -> None:
    result = replay(TRACES / "one-broker", "--strict", "--check", "--churn", 5, "--json")

    (summary,) = lines(result)
    assert summary["records_refused"] == 0
    assert_all_right(summary, "leader")


def test_strict_names_what_the_lifecycle_refuses_and_exits_with_1() -> None:
    result = replay(TRACES / "histories" / "seed-01", "--strict", "--json")

    assert result.exit_code == 1
    refused = [line for line in result.stderr.splitlines() if line.startswith("note: refused")]
    assert json.loads(result.stdout)["records_refused"] == len(refused) > 0
    assert any("is no transition" in line for line in refused)


# Answers to questions of one's own.


@pytest.mark.parametrize("name", ["one-broker", "histories/seed-07"])
def test_every_question_comes_back_with_the_answer_of_the_slow_model(
    name: str, tmp_path: Path
) -> None:
    trace, questions, out = TRACES / name, tmp_path / "questions.jsonl", tmp_path / "out.jsonl"
    asked = [
        {key: one.question.fields[key] for key in one.question.fields if key != "answer"}
        for one in read_answers(answers_path(trace))
    ]
    questions.write_text("".join(json.dumps(one) + "\n" for one in asked))

    result = replay(trace, "--answer", questions, "--out", out, "--from", "follower")

    assert result.exit_code == 0, result.output
    answered = [json.loads(line) for line in out.read_text().splitlines()]
    assert [{key: one[key] for key in one if key != "answer"} for one in answered] == asked
    expected = list(answer_all(read_records(trace), read_questions(questions)))
    for ours, model in zip(read_answers(out), expected, strict=True):
        assert ours.question.same_as(model.question)
        assert _unordered(ours.outcome) == _unordered(model.outcome)


def _unordered(outcome: object) -> object:
    """A list of everything has no order of its own."""
    value = getattr(outcome, "value", outcome)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sorted(value, key=lambda one: one["id"])
    return value


def test_each_source_writes_a_file_of_its_own(tmp_path: Path) -> None:
    trace, out = TRACES / "tier", tmp_path / "out.jsonl"

    result = replay(trace, "--answer", answers_path(trace), "--out", out, "--from", "all")

    assert result.exit_code == 0, result.output
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert sorted(texts) == [f"out.{source}.jsonl" for source in sorted(SOURCES)]
    assert len(set(texts.values())) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--answer", "q.jsonl"], "--answer takes one trace, --out, and no --check"),
        (["--check", "--from", "moon"], "--from: expected one of leader, follower, storage"),
        (["--report", "no/such/folder/page.html"], "cannot write"),
        (["--answer", "{answers}", "--out", "no/such/folder/out.jsonl"], "cannot write"),
    ],
    ids=["answer", "from", "report", "out"],
)
def test_what_cannot_be_done_is_one_error_and_exit_2(
    arguments: list[str], message: str
) -> None:
    trace = TRACES / "tier"
    given = [one.format(answers=answers_path(trace)) for one in arguments]

    refused(replay(trace, *given), message)


def test_a_report_shows_every_partition(tmp_path: Path) -> None:
    page = tmp_path / "page.html"

    result = replay(TRACES / "one-broker", "--report", page)

    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    assert "ledger-tx" in text
    assert "orders" in text


def test_a_service_in_memory_is_refused() -> None:
    refused(invoke("serve", "--store", "memory:"), "a service needs sqlite:FILE")
