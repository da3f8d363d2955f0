"""Verdicts on answers, for a small partition in which Kafka loses a segment."""

from dataclasses import replace

import pytest

from tierledger.conformance.answers import (
    After,
    AnsweredQuestion,
    Failure,
    QueryResult,
    Question,
)
from tierledger.conformance.trace import TraceRecord
from tierledger.conformance.verdicts import FINDINGS_MAX, CheckReport, Verdict, check
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.kafka.codec import encode
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)

STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState
TOPIC_ID = Uuid(bytes(range(16)))
PARTITION = TopicIdPartition(TOPIC_ID, 0, "t")

LONG, SHORT, NEXT, COPYING = (Uuid(bytes([one]) * 16) for one in (9, 8, 7, 6))
"""LONG (0 to 99) is lost when SHORT (0 to 49) takes its key; NEXT (100 to 149) has an index
of transactions; COPYING has started at 100 and not finished."""


def added(one: Uuid, start: int, end: int, *, txn_index_empty: bool = True) -> bytes:
    return encode(
        RemoteLogSegmentMetadata(
            remote_log_segment_id=RemoteLogSegmentId(PARTITION, one),
            start_offset=start,
            end_offset=end,
            max_timestamp_ms=1,
            broker_id=1,
            event_timestamp_ms=1,
            segment_size_in_bytes=end - start + 1,
            state=STARTED,
            segment_leader_epochs={0: start},
            txn_index_empty=txn_index_empty,
        )
    )


def updated(one: Uuid, state: RemoteLogSegmentState) -> bytes:
    return encode(
        RemoteLogSegmentMetadataUpdate(RemoteLogSegmentId(PARTITION, one), 2, state, 1)
    )


RECORDS = [
    TraceRecord(3, offset, 0, value)
    for offset, value in enumerate(
        [
            added(LONG, 0, 99),
            updated(LONG, FINISHED),
            added(SHORT, 0, 49),
            updated(SHORT, FINISHED),
            added(NEXT, 100, 149, txn_index_empty=False),
            updated(NEXT, FINISHED),
            added(COPYING, 100, 119),
            None,
        ]
    )
]

LISTED = [str(one) for one in (SHORT, NEXT, COPYING)]
LISTED_SIZE = 50 + 50 + 20
SEGMENT = {"id": str(SHORT), "state": "COPY_SEGMENT_FINISHED", "start_offset": 0}


def line(
    query: str,
    value: object,
    *,
    epoch: int | None = 0,
    offset: int | None = None,
    after: After = None,
) -> AnsweredQuestion:
    asked = Question(after, "t", TOPIC_ID, 0, query, epoch, offset)
    return AnsweredQuestion(asked, QueryResult(value))


def verdict(kafka: AnsweredQuestion, ours: object, *context: AnsweredQuestion) -> Verdict:
    """The verdict on our answer `ours`; both managers answer `context` alike."""
    our_line = replace(kafka, outcome=QueryResult(ours))
    without = check(RECORDS, context, context).counts
    counts = check(RECORDS, [*context, kafka], [*context, our_line]).counts

    [found] = [one for one in Verdict if counts[one] > without[one]]
    return found


@pytest.mark.parametrize(
    ("offset", "kafka", "ours", "expected"),
    [
        (7, str(SHORT), str(SHORT), Verdict.EQUAL),
        (200, None, None, Verdict.EQUAL),
        (70, None, str(LONG), Verdict.RECOVERED),
        (70, None, None, Verdict.MISSED),
        (7, str(SHORT), None, Verdict.MISSED),
        (7, str(SHORT), str(LONG), Verdict.WRONG),
        (70, None, str(SHORT), Verdict.WRONG),
        (200, None, str(NEXT), Verdict.WRONG),
        (110, str(NEXT), str(COPYING), Verdict.WRONG),
        (70, None, [str(LONG)], Verdict.WRONG),
    ],
)
def test_a_lookup_may_find_what_kafka_does_not(
    offset: int, kafka: str | None, ours: object, expected: Verdict
) -> None:
    asked = line("lookup", kafka, offset=offset)

    assert verdict(asked, ours) is expected


@pytest.mark.parametrize(
    ("offset", "kafka", "ours", "expected"),
    [
        (110, str(NEXT), str(NEXT), Verdict.EQUAL),
        (70, None, str(NEXT), Verdict.RECOVERED),
        (70, None, str(LONG), Verdict.WRONG),
        (200, None, str(NEXT), Verdict.WRONG),
        (110, str(NEXT), None, Verdict.WRONG),
    ],
)
def test_a_walk_may_go_on_where_kafka_stops_at_a_hole(
    offset: int, kafka: str | None, ours: object, expected: Verdict
) -> None:
    asked = line("next_txn", kafka, offset=offset)

    assert verdict(asked, ours) is expected


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ([str(SHORT), str(LONG), str(NEXT), str(COPYING)], Verdict.RECOVERED),
        ([str(LONG), str(SHORT), str(COPYING), str(NEXT)], Verdict.RECOVERED),
        (LISTED, Verdict.MISSED),
        ([], Verdict.MISSED),
        ([str(LONG), str(NEXT), str(COPYING), str(SHORT)], Verdict.WRONG),
        ([*LISTED, str(LONG), str(LONG)], Verdict.WRONG),
        ([*LISTED, str(LONG), str(SHORT)], Verdict.WRONG),
        ([*LISTED, str(LONG), "nobody"], Verdict.WRONG),
        (None, Verdict.WRONG),
        ([1], Verdict.WRONG),
    ],
)
def test_a_list_of_an_epoch_keeps_kafkas_order_and_gains_all_that_kafka_lost(
    ours: object, expected: Verdict
) -> None:
    assert verdict(line("list_epoch", LISTED), ours) is expected


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (LISTED_SIZE, Verdict.EQUAL),
        (LISTED_SIZE + 100, Verdict.RECOVERED),
        (LISTED_SIZE + 99, Verdict.WRONG),
        (float(LISTED_SIZE), Verdict.WRONG),
        (None, Verdict.WRONG),
    ],
)
def test_a_size_gains_what_the_list_gains(ours: object, expected: Verdict) -> None:
    listed = line("list_epoch", LISTED)

    assert verdict(line("size", LISTED_SIZE), ours, listed) is expected


def test_a_size_without_its_list_has_to_be_kafkas() -> None:
    asked = line("size", LISTED_SIZE)

    assert verdict(asked, LISTED_SIZE + 100) is Verdict.WRONG


@pytest.mark.parametrize(
    ("query", "kafka", "ours", "expected"),
    [
        ("highest_offset", 149, 149, Verdict.EQUAL),
        ("highest_offset", None, None, Verdict.EQUAL),
        ("highest_offset", None, 99, Verdict.WRONG),
        ("highest_offset", 1, True, Verdict.WRONG),
        ("list", [SEGMENT], [SEGMENT], Verdict.EQUAL),
        ("list", [{**SEGMENT, "size": None}], [{**SEGMENT, "size": 50}], Verdict.EQUAL),
        ("list", [{**SEGMENT, "size": 50}], [SEGMENT], Verdict.WRONG),
        ("list", [SEGMENT], [{**SEGMENT, "custom_metadata_hex": ""}], Verdict.WRONG),
        ("list", [SEGMENT], [], Verdict.WRONG),
        ("list", [SEGMENT], [SEGMENT, SEGMENT], Verdict.WRONG),
        ("list", [SEGMENT], [{"id": 7}], Verdict.WRONG),
        ("list", [SEGMENT], "x", Verdict.WRONG),
    ],
)
def test_highest_offset_and_the_full_list_are_kafkas(
    query: str, kafka: object, ours: object, expected: Verdict
) -> None:
    assert verdict(line(query, kafka), ours) is expected


@pytest.mark.parametrize(
    ("kafka", "ours", "expected"),
    [
        (Failure("a"), Failure("b"), Verdict.EQUAL),
        (Failure("a"), QueryResult(None), Verdict.WRONG),
        (QueryResult(None), Failure("a"), Verdict.WRONG),
        (QueryResult(None), None, Verdict.WRONG),
    ],
)
def test_an_error_is_answered_by_an_error(
    kafka: QueryResult | Failure, ours: QueryResult | Failure | None, expected: Verdict
) -> None:
    asked = line("highest_offset", None).question

    report = check(RECORDS, [AnsweredQuestion(asked, kafka)], [AnsweredQuestion(asked, ours)])

    assert report.counts[expected] == 1


def test_an_answer_is_judged_by_the_records_up_to_its_question() -> None:
    early = line("lookup", None, offset=70, after={3: 0})
    finished = line("lookup", None, offset=70, after={3: 1})

    assert verdict(early, None) is Verdict.EQUAL
    assert verdict(early, str(LONG)) is Verdict.WRONG
    assert verdict(finished, None) is Verdict.MISSED


def test_nothing_comes_back_after_a_partition_is_deleted() -> None:
    deleted = RemotePartitionDeleteMetadata(
        PARTITION, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED, 3, 1
    )
    late = [encode(deleted), added(LONG, 0, 99), updated(LONG, FINISHED)]
    records = [*RECORDS, *(TraceRecord(3, 8 + n, 0, value) for n, value in enumerate(late))]
    asked = line("lookup", None, offset=70)

    report = check(records, [asked], [asked])

    assert report.counts[Verdict.EQUAL] == 1


def test_a_deleted_segment_is_not_missed() -> None:
    late = [updated(LONG, DELETING), updated(LONG, DELETED), updated(LONG, FINISHED)]
    records = [*RECORDS, *(TraceRecord(3, 8 + n, 0, value) for n, value in enumerate(late))]
    asked = [line("lookup", None, offset=70), line("list_epoch", LISTED)]

    report = check(records, asked, asked)

    assert report.counts[Verdict.EQUAL] == 2


def test_a_check_passes_when_every_question_is_answered_right() -> None:
    asked = [line("lookup", str(SHORT), offset=7), line("lookup", None, offset=70)]
    ours = [asked[0], line("lookup", str(LONG), offset=70)]

    report = check(RECORDS, asked, ours)

    assert report.passed
    assert report.summary() == "equal=1 recovered=1 wrong=0 missed=0 of 2"


@pytest.mark.parametrize(
    ("asked", "answered", "summary"),
    [
        (2, 1, "equal=1 recovered=0 wrong=0 missed=0 of 2, 1 answered"),
        (1, 2, "equal=1 recovered=0 wrong=0 missed=0 of 1, 2 answered"),
        (0, 0, "equal=0 recovered=0 wrong=0 missed=0 of 0"),
    ],
)
def test_a_check_fails_unless_the_questions_are_the_answered_ones(
    asked: int, answered: int, summary: str
) -> None:
    one = line("lookup", str(SHORT), offset=7)

    report = check(RECORDS, [one] * asked, [one] * answered)

    assert not report.passed
    assert report.summary() == summary


def test_an_answer_to_another_question_is_wrong() -> None:
    report = check(
        RECORDS,
        [line("lookup", str(SHORT), offset=7)],
        [line("lookup", str(SHORT), offset=8)],
    )

    assert report.counts[Verdict.WRONG] == 1
    assert "another question" in report.findings[0].why


def test_a_report_shows_the_first_findings_with_their_reason() -> None:
    asked = [line("lookup", None, offset=offset) for offset in range(50, 90)]

    report = check(RECORDS, asked, asked)

    assert isinstance(report, CheckReport)
    assert not report.passed
    assert report.counts[Verdict.MISSED] == 40
    assert len(report.findings) == FINDINGS_MAX
    assert report.findings[0].question == asked[0].question
    assert str(LONG) in report.findings[0].why
