"""Operations that last too long are found with their age, and no others."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.models.storage.stored_partitions import (
    TIME_MS,
    StoredPartition,
    added,
    finished,
    segment_id,
    updated,
)
from tierledger.cli.commands.jobs import stuck as spark_stuck_command
from tierledger.cli.commands.jobs.stuck import limits
from tierledger.cli.commands.jobs.times import stated_time_ms
from tierledger.cli.options import duration_ms
from tierledger.events.as_of import AsOf
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import Uuid
from tierledger.events.log_events import Body, PartitionDeleteUpdated
from tierledger.pipeline.fold import LogFold
from tierledger.pipeline.jobs.stuck import ADVICE, stuck_table

HOUR_MS = 3_600_000
LIMITS = dict.fromkeys(ADVICE, HOUR_MS)
MINUTE_MS = 60_000


def found(
    bodies: Sequence[Body], now_ms: int, limits_ms: dict[str, int] = LIMITS, *, step_ms: int = 0
) -> list[dict[str, Any]]:
    """Stuck operations at `now_ms` in a log of events `step_ms` apart, from `TIME_MS` on."""

    async def run() -> list[dict[str, Any]]:
        partition = await StoredPartition.led()
        await partition.append(bodies, step_ms=step_ms)
        table = stuck_table(now_ms, limits_ms)
        maker, reader = table.make(), partition.reader()
        start = await reader.start()
        fold = LogFold(start.state, reader.serde, AsOf(), maker.watch)
        pages = [await reader.log.read(0, 100)]
        assert sum(fold.run(pages)) == len(bodies) + 1
        rows = maker.rows(fold.state)
        chunks = table.chunks(("cluster", "orders", "id", 3), rows)
        return [row for chunk in chunks for row in chunk.rows()]

    return asyncio.run(run())


def text_of(number: int) -> str:
    return str(Uuid(segment_id(number)))


def test_what_finished_is_never_stuck() -> None:
    bodies = [*finished(0), *finished(1), updated(1, 2), updated(1, 3)]

    assert found(bodies, TIME_MS + 10**12) == []


def test_a_copy_that_does_not_end_is_found() -> None:
    (row,) = found([*finished(0), added(1, 10, 19)], TIME_MS + HOUR_MS + 1)

    assert row | {"advice": ""} == {
        "cluster": "cluster",
        "topic": "orders",
        "topic_id": "id",
        "partition": 3,
        "state": "COPY_SEGMENT_STARTED",
        "segment_id": text_of(1),
        "since_ms": TIME_MS,
        "age_ms": HOUR_MS + 1,
        "limit_ms": HOUR_MS,
        "broker_id": 1,
        "start_offset": 10,
        "end_offset": 19,
        "size_in_bytes": 1000,
        "advice": "",
    }
    assert row["advice"] == ADVICE["COPY_SEGMENT_STARTED"]


def test_a_copy_is_not_stuck_before_its_time() -> None:
    assert found([added(1, 10, 19)], TIME_MS + HOUR_MS) == []
    assert found([added(1, 10, 19)], TIME_MS - 1) == []


def test_a_deletion_that_does_not_end_is_found_since_it_began() -> None:
    """Not since the copy, nor since a repeat."""
    bodies = [*finished(1), updated(1, 2), updated(1, 2), updated(1, 2)]

    (row,) = found(bodies, TIME_MS + 2 * HOUR_MS, step_ms=MINUTE_MS)

    assert (row["state"], row["since_ms"]) == (
        "DELETE_SEGMENT_STARTED",
        TIME_MS + 2 * MINUTE_MS,
    )
    assert row["broker_id"] == 2


@pytest.mark.parametrize(
    ("last", "name"), [(0, "DELETE_PARTITION_MARKED"), (1, "DELETE_PARTITION_STARTED")]
)
def test_a_partitions_deletion_that_does_not_end_is_found(last: int, name: str) -> None:
    deletion = [PartitionDeleteUpdated(state, 4, 5) for state in range(last + 1)]

    (row,) = found([*finished(0), *deletion], TIME_MS + 2 * HOUR_MS)

    assert (row["state"], row["segment_id"], row["broker_id"]) == (name, None, 4)
    assert (row["start_offset"], row["end_offset"], row["size_in_bytes"]) == (None, None, 1000)
    assert row["advice"] == ADVICE[name]


def test_a_deletion_that_is_said_again_is_as_old_as_it_was() -> None:
    deletion: list[Body] = [PartitionDeleteUpdated(state, 4, 5) for state in (0, 1, 1, 1)]

    (row,) = found(deletion, TIME_MS + 2 * HOUR_MS, step_ms=MINUTE_MS)

    assert row["since_ms"] == TIME_MS + MINUTE_MS


def test_a_copy_that_begins_anew_after_it_ended_is_as_old_as_that() -> None:
    """As in recorded history, where Kafka's manager takes it."""
    (row,) = found([*finished(1), added(1, 10, 19)], TIME_MS + 2 * HOUR_MS, step_ms=MINUTE_MS)

    assert row["since_ms"] == TIME_MS + 2 * MINUTE_MS


def test_a_partition_that_is_deleted_leaves_nothing_stuck() -> None:
    deletion: list[Body] = [PartitionDeleteUpdated(state, 4, 5) for state in (0, 1, 2)]

    assert found([added(1, 0, 9), *deletion], TIME_MS + 2 * HOUR_MS) == []


def test_each_state_has_its_own_limit() -> None:
    bodies = [added(1, 0, 9), *finished(2), updated(2, 2)]
    now_ms = TIME_MS + HOUR_MS

    short = found(bodies, now_ms, LIMITS | {"DELETE_SEGMENT_STARTED": HOUR_MS - 1})
    none = found(bodies, now_ms, {})

    assert [row["segment_id"] for row in short] == [text_of(2)]
    assert none == []


def test_several_at_once_are_all_found() -> None:
    deletion = [PartitionDeleteUpdated(state, 4, 5) for state in (0, 1)]
    bodies = [added(1, 0, 9), *finished(2), updated(2, 2), *finished(3), *deletion]

    rows = found(bodies, TIME_MS + 2 * HOUR_MS)

    assert sorted(row["state"] for row in rows) == [
        "COPY_SEGMENT_STARTED",
        "DELETE_PARTITION_STARTED",
        "DELETE_SEGMENT_STARTED",
    ]


def test_what_can_be_stuck_is_what_the_option_names() -> None:
    assert set(spark_stuck_command.STATE_NAMES) == set(ADVICE)


def test_limits_are_one_for_all_or_one_for_each() -> None:
    assert set(limits([]).values()) == {HOUR_MS}
    assert limits(["DELETE_SEGMENT_STARTED=2d", "30m"]) == {
        **dict.fromkeys(ADVICE, 30 * MINUTE_MS),
        "DELETE_SEGMENT_STARTED": 48 * HOUR_MS,
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["1h", "2h"], "one time for all states, got 1h and 2h"),
        (["COPY=1h"], "got 'COPY'"),
        (["COPY_SEGMENT_FINISHED=1h"], "got 'COPY_SEGMENT_FINISHED'"),
        (["soon"], "got 'soon'"),
        (["-1h"], "got '-1h'"),
        (["COPY_SEGMENT_STARTED="], "got ''"),
        (["1.5h"], "like 90m"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(given: list[str], message: str) -> None:
    with pytest.raises(InvalidArgument, match="--older-than") as caught:
        limits(given)

    assert message in str(caught.value)


def test_durations_are_in_the_unit_they_say() -> None:
    texts = ("7ms", "7s", "7m", "7h", "7d")

    assert [duration_ms(text, "--x") for text in texts] == [
        7,
        7_000,
        420_000,
        25_200_000,
        604_800_000,
    ]


def test_a_time_is_no_position() -> None:
    assert stated_time_ms("1970-01-01T00:00:01Z", "--now") == 1000
    with pytest.raises(InvalidArgument, match="--now: expected a time"):
        stated_time_ms("17", "--now")
