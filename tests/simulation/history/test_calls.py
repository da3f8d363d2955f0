"""A history keeps what callers saw, in memory and as a file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.simulation.planted_anomalies import altered
from tests.models.simulation.recorded_run import KEY, small_run
from tierledger.actors.messages import Query
from tierledger.events.errors import (
    CorruptLog,
    Fenced,
    InvalidArgument,
    InvalidStateTransition,
    NotLeader,
    OutcomeUnknown,
    Quarantined,
    RemoteStorageError,
    StorageUnavailable,
)
from tierledger.simulation.checkers.slow.model import Add
from tierledger.simulation.history.calls import (
    FAIL,
    INFO,
    OK,
    READ,
    WRITE,
    CallHistory,
    Recorder,
    digest_of,
    history_as_lines,
    outcome_of,
    read_history,
)


def test_a_history_survives_its_file(tmp_path: Path) -> None:
    run = small_run()
    run.begin_write("unheard", Add(b"z" * 16, 900, 999, {0: 900}))
    history = CallHistory(altered(run.operations, 6, stale=True), run.history().notes)

    (tmp_path / "history.jsonl").write_bytes(b"".join(history_as_lines(history)))

    assert read_history(tmp_path / "history.jsonl") == history


def test_a_file_has_a_line_for_each_beginning_end_and_note_by_time(tmp_path: Path) -> None:
    run = small_run()
    path = tmp_path / "history.jsonl"

    path.write_bytes(b"".join(history_as_lines(run.history())))

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    times = [line["t"] for line in lines]
    assert times == sorted(times)
    counted = [line["type"] for line in lines]
    assert counted.count("invoke") == len(run.operations)
    assert counted.count("note") == len(run.history().notes)
    assert {"ok", "fail", "info"} < set(counted)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda _: "[1]", "[1]"),
        (lambda _: "{", "{"),
        (lambda line: line.replace('"type":"invoke"', '"type":"begin"'), "'begin'"),
        (lambda line: line.replace('"t":', '"t":"x","was":'), "'x'"),
        (lambda line: line.replace('"op":0', '"op":true'), "True"),
        (lambda line: line.replace('"f":"write"', '"f":"append"'), "'append'"),
        (lambda line: line.replace('"request":"', '"request":"zz'), "zz00"),
        (lambda line: line.replace('"claim":[1', '"claim":[null'), "None"),
        (lambda line: line.replace('"proc":', '"process":'), "'proc'"),
        (lambda line: line.replace('"wanted":"', '"wanted":"AAAA'), "AAAA"),
        (lambda line: line.replace('"part":"', '"part":"!'), "!"),
    ],
)
def test_a_wrong_line_is_refused_by_number_and_value(
    tmp_path: Path, change: Callable[[str], str], named: str
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(history_as_lines(small_run().history())))
    lines = path.read_text().splitlines()
    at = next(at for at, line in enumerate(lines) if '"type":"invoke"' in line)
    lines[at] = change(lines[at])
    path.write_text("\n".join(lines))

    with pytest.raises(InvalidArgument) as caught:
        read_history(path)

    assert f"line {at + 1}:" in str(caught.value)
    assert named in str(caught.value)


def test_an_end_that_does_not_fit_its_beginning_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    begun = {"t": 1, "type": "invoke", "op": 0, "proc": "a", "f": "read", "role": "leader"}
    begun |= {"part": "AAAAAAAAAAAAAAAAAAAAAA:0", "what": ""}
    ended = {"t": 2, "type": "fail", "op": 0, "proc": "a", "err": "NotReady"}
    for lines, what in (
        ([ended], "never invoked"),
        ([begun, ended, ended], "ended before"),
        ([begun, ended | {"proc": "b"}], "is a's, not b's"),
        ([begun, ended | {"type": "ok"}], "no field 'pos'"),
        ([begun, begun], "was invoked before"),
    ):
        path.write_text("\n".join(json.dumps(line) for line in lines))

        with pytest.raises(InvalidArgument, match=f"line {len(lines)}: .*{what}"):
            read_history(path)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NotLeader("x"), FAIL),
        (StorageUnavailable("x"), FAIL),
        (InvalidStateTransition("x"), FAIL),
        (Fenced("x"), FAIL),
        (Quarantined("x"), FAIL),
        (CorruptLog("x"), FAIL),
        (OutcomeUnknown("x"), INFO),
        (RemoteStorageError("x"), INFO),
        (TimeoutError(), INFO),
        (ConnectionResetError(), INFO),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_only_an_error_that_promises_it_means_that_nothing_happened(
    error: Exception, outcome: str
) -> None:
    assert outcome_of(error) == outcome


def test_answers_have_equal_digests_iff_they_are_equal() -> None:
    answers = [None, 0, 1, b"", b"\x00", [], [b""], [b"a", b"b"], [b"b", b"a"], [b"ab"]]

    assert len({digest_of(answer) for answer in answers}) == len(answers)
    assert {len(digest_of(answer)) for answer in answers} == {16}


def test_only_a_list_of_a_whole_partition_is_compared_without_its_order() -> None:
    one, other = [b"a", b"b"], [b"b", b"a"]

    assert digest_of(one, Query("list")) == digest_of(other, Query("list"))
    assert digest_of(one, Query("list_epoch")) != digest_of(other, Query("list_epoch"))


def test_a_call_without_an_end_is_open_and_one_ends_once() -> None:
    recorder = Recorder(lambda: 7)
    number = recorder.begin("a", READ, KEY, query=Query("size"))
    (begun,) = recorder.history().operations
    assert (begun.outcome, begun.completed, begun.kind) == (INFO, None, READ)

    recorder.ok(number, 3, b"v", stale=True)

    (ended,) = recorder.history().operations
    assert (ended.outcome, ended.completed, ended.position) == (OK, 7, 3)
    assert (ended.value, ended.stale) == (b"v", True)
    with pytest.raises(InvalidArgument, match="operation 0 ended already"):
        recorder.fail(number, Fenced("late"))


def test_how_a_call_failed_can_be_told_or_left_to_the_error() -> None:
    recorder = Recorder(lambda: 7)
    numbers = [recorder.begin("a", WRITE, KEY) for _ in range(4)]

    recorder.fail(numbers[0], Fenced("x"))
    recorder.info(numbers[1], TimeoutError())
    recorder.failed(numbers[2], Fenced("x"))
    recorder.failed(numbers[3], OutcomeUnknown("x"))

    ended = [(op.outcome, op.error) for op in recorder.history().operations]
    assert ended[:2] == [(FAIL, "Fenced"), (INFO, "TimeoutError")]
    assert ended[2:] == [(FAIL, "Fenced"), (INFO, "OutcomeUnknown")]
