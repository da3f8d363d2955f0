"""`retention`: what a broker would delete under another retention, one row for each segment.

Each partition has one more row, with its totals before and after.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from functools import partial
from operator import add
from pathlib import Path
from typing import NamedTuple, TypeVar

from typing_extensions import override

from tierledger.events.errors import InvalidArgument
from tierledger.events.partition.answers import summary
from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.digests import Digest
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.jobs.retention.deletions import (
    UNKNOWN,
    Deletion,
    LocalFacts,
    PartitionPlan,
    RetentionQuestion,
)
from tierledger.pipeline.table_columns import (
    BIGINT,
    INT,
    STRING,
    Column,
    PlainRow,
    Row,
    Table,
    TableRows,
    id_texts,
    state_names,
)

PARTITION, SEGMENT = "partition", "segment"
"""Kinds of rows."""

TIME_MAX = (1 << 63) - 1
"""Largest value of a column of times. A later due time is null."""

BUCKETS_MAX = 200
"""Steps of the chart's timeline, at most."""

LOCAL_COLUMNS = (
    "topic",
    "partition",
    "log_start_offset",
    "local_bytes",
    "log_end_offset",
    "leader_epochs",
)
"""Columns of a file of local facts, which only brokers know. The first two are required."""

_EPOCHS = re.compile(r"\s*([0-9]+:[0-9]+(\s+[0-9]+:[0-9]+)*)?\s*", re.ASCII)


class LocalKey(NamedTuple):
    """A partition as named in a file: the topic by its name or its id."""

    topic: str
    partition: int


class _Retention(TableRows):
    def __init__(
        self, question: RetentionQuestion, local: Mapping[LocalKey, LocalFacts]
    ) -> None:
        self._question = question
        self._local = local

    @override
    def rows(self, state: PartitionState) -> Iterator[Row]:
        found = summary(state)
        count, size = sum(found.count_by_state), sum(found.bytes_by_state)
        plan = PartitionPlan(state, self._question, self._facts(state))
        gone, gone_bytes = 0, 0
        for one in plan:
            yield self._segment(one, gone)
            gone += 1
            gone_bytes += max(0, one.segment.segment_size_in_bytes)
        start = plan.log_start_offset
        counted = (count, size, count - gone, size - gone_bytes, start)
        yield (PARTITION, *(None,) * 11, *counted)

    def _segment(self, one: Deletion, ordinal: int) -> Row:
        segment, kept_ms = one.segment, self._question.retention_ms
        due_ms = segment.max_timestamp_ms + kept_ms
        return (
            SEGMENT,
            ordinal,
            bytes(segment.remote_log_segment_id.id),
            one.reason.value,
            one.run,
            one.at_ms,
            due_ms if kept_ms >= 0 and due_ms <= TIME_MAX else None,
            int(segment.state),
            segment.start_offset,
            segment.end_offset,
            segment.segment_size_in_bytes,
            segment.max_timestamp_ms,
            *(None,) * 5,
        )

    def _facts(self, state: PartitionState) -> LocalFacts:
        tip = state.topic_id_partition
        return self._local.get(LocalKey(str(tip.topic_id), tip.partition), UNKNOWN)


def retention_table(
    question: RetentionQuestion, local: Mapping[LocalKey, LocalFacts] | None = None
) -> Table:
    """The table that answers `question`; pass it to `tables.plan.planned`.

    The keys of `local` have topic ids; see `with_topic_ids`.
    """
    return Table(
        "retention",
        "what a broker would delete",
        COLUMNS,
        partial(_Retention, question, local or {}),
    )


def read_local(path: Path) -> dict[LocalKey, LocalFacts]:
    """Local facts by partition, from a CSV file with a heading.

    Raises:
        InvalidArgument: The file cannot be read, or a line is invalid; names file and line.
    """
    found: dict[LocalKey, LocalFacts] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            named = reader.fieldnames or []
            unknown = [name for name in named if name not in LOCAL_COLUMNS]
            if unknown or not {"topic", "partition"} <= set(named):
                raise InvalidArgument(
                    f"{path}: expected columns topic, partition and any of "
                    f"{', '.join(LOCAL_COLUMNS[2:])}; got {', '.join(named) or 'none'}"
                )
            for line in reader:
                key, facts = _line(path, reader.line_num, line)
                if key in found:
                    there = f"{key.topic}-{key.partition}"
                    raise InvalidArgument(
                        f"{path}, line {reader.line_num}: {there} is there twice"
                    )
                found[key] = facts
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgument(f"cannot read {path}: {error}") from error
    return found


async def with_topic_ids(
    store: JobStore, local: Mapping[LocalKey, LocalFacts]
) -> dict[LocalKey, LocalFacts]:
    """`local` with topic ids in place of names. Facts under a name go to every topic with it.

    Partitions that the store does not know are left out: brokers have other topics, too.

    Raises:
        InvalidArgument: The store holds several clusters and none was named.
        RemoteResourceNotFound: The store does not hold the named cluster.
        StoreRefused: The URL does not lead to a store.
    """
    found: dict[LocalKey, LocalFacts] = {}
    async with store.opened() as catalog:
        async for entry in catalog.partitions():
            tip = entry.topic_id_partition
            by_id = LocalKey(str(tip.topic_id), tip.partition)
            facts = local.get(by_id) or local.get(LocalKey(tip.topic, tip.partition))
            if facts is not None:
                found[by_id] = facts
    return found


def _line(path: Path, number: int, line: dict[str, str | None]) -> tuple[LocalKey, LocalFacts]:
    def value(name: str) -> int | None:
        text = (line.get(name) or "").strip()
        if not text:
            return None
        if not (text.isascii() and text.isdigit()) or int(text) >= 1 << 63:
            raise InvalidArgument(
                f"{path}, line {number}: {name}: expected a number, got {text!r}"
            )
        return int(text)

    partition = value("partition")
    epochs = line.get("leader_epochs") or ""
    if partition is None or None in line:
        raise InvalidArgument(
            f"{path}, line {number}: expected a partition, and as many values as columns"
        )
    if _EPOCHS.fullmatch(epochs) is None:
        raise InvalidArgument(
            f"{path}, line {number}: leader_epochs: expected EPOCH:OFFSET with blanks between "
            f"them, got {epochs!r}"
        )
    pairs = [tuple(map(int, one.split(":"))) for one in epochs.split()]
    facts = LocalFacts(
        value("log_start_offset") or 0,
        value("local_bytes") or 0,
        value("log_end_offset"),
        tuple((epoch, offset) for epoch, offset in sorted(pairs)) or None,
    )
    return LocalKey(line.get("topic") or "", partition), facts


SUMS = ("segments_before", "segments_after", "bytes_before", "bytes_after")
"""Columns of partition rows that are summed by topic."""


class RetentionDigest(Digest):
    """Totals of the deletions by topic, by reason and by time."""

    def __init__(self, question: RetentionQuestion) -> None:
        self._now_ms = question.now_ms
        self._step_ms = max(1, -(-(question.until_ms - question.now_ms + 1) // BUCKETS_MAX))
        self._topics: dict[tuple[str, str], tuple[int, ...]] = {}
        """By name and id: number of partitions, and `SUMS`."""
        self._reasons: dict[str, tuple[int, ...]] = {}
        """By reason: segments and bytes."""
        self._times: dict[int, tuple[int, ...]] = {}
        """By number of the time step: segments and bytes."""

    @override
    def take(self, row: PlainRow) -> None:
        if row["what"] == PARTITION:
            sums = (row[name] for name in SUMS)
            _add(self._topics, (row["topic"], row["topic_id"]), (1, *sums))
        else:
            gone = (1, row["size_in_bytes"])
            _add(self._reasons, row["reason"], gone)
            _add(self._times, (row["at_ms"] - self._now_ms) // self._step_ms, gone)

    @override
    def join(self, other: RetentionDigest) -> None:
        for topic, more in other._topics.items():
            _add(self._topics, topic, more)
        for reason, more in other._reasons.items():
            _add(self._reasons, reason, more)
        for step, more in other._times.items():
            _add(self._times, step, more)

    def topics(self) -> list[PlainRow]:
        """A row for each topic, with its totals before and after; most bytes freed first."""
        rows = [
            {"topic": topic, "topic_id": topic_id, "partitions": partitions}
            | (sums := dict(zip(SUMS, numbers, strict=True)))
            | {"bytes_deleted": sums["bytes_before"] - sums["bytes_after"]}
            for (topic, topic_id), (partitions, *numbers) in self._topics.items()
        ]
        return sorted(
            rows, key=lambda row: (-row["bytes_deleted"], row["topic"], row["topic_id"])
        )

    def reasons(self) -> list[PlainRow]:
        """A row for each reason, with its segments and bytes; most bytes first."""
        rows = [
            {"reason": reason, "segments": segments, "bytes": size}
            for reason, (segments, size) in self._reasons.items()
        ]
        return sorted(rows, key=lambda row: (-row["bytes"], row["reason"]))

    def times(self) -> list[PlainRow]:
        """A row for each time step with deletions, which begins at `since_ms`; ascending."""
        return [
            {
                "since_ms": self._now_ms + step * self._step_ms,
                "segments": segments,
                "bytes": size,
            }
            for step, (segments, size) in sorted(self._times.items())
        ]


Key = TypeVar("Key")


def _add(sums: dict[Key, tuple[int, ...]], key: Key, more: tuple[int, ...]) -> None:
    known = sums.get(key)
    sums[key] = more if known is None else tuple(map(add, known, more))


COLUMNS = (
    Column("what", STRING, f"what the row is about: `{PARTITION}` or `{SEGMENT}`"),
    Column(
        "ordinal", BIGINT, "number of the segment among the partition's deletions, from 0", True
    ),
    Column("segment_id", STRING, "id of the segment, 22 characters", True, id_texts),
    Column("reason", STRING, "reason for the deletion, as listed above", True),
    Column("run", INT, "number of the retention run that deletes the segment, from 1", True),
    Column("at_ms", BIGINT, "time of that run, ms since 1970", True),
    Column(
        "due_ms",
        BIGINT,
        "time from which `retention.ms` allows the deletion, ms since 1970; null if it "
        "sets no limit",
        True,
    ),
    Column(
        "state", STRING, "present state of the segment, by its name in Kafka", True, state_names
    ),
    Column("start_offset", BIGINT, "first offset of the segment", True),
    Column("end_offset", BIGINT, "last offset of the segment, inclusive", True),
    Column("size_in_bytes", BIGINT, "bytes of the segment's log", True),
    Column(
        "max_timestamp_ms",
        BIGINT,
        "largest timestamp of the segment's records, ms since 1970",
        True,
    ),
    Column(
        "segments_before",
        BIGINT,
        "number of the partition's segments before the deletions, in any state",
        True,
    ),
    Column(
        "bytes_before", BIGINT, "bytes of the partition's segments before the deletions", True
    ),
    Column(
        "segments_after", BIGINT, "number of the partition's segments after the deletions", True
    ),
    Column(
        "bytes_after", BIGINT, "bytes of the partition's segments after the deletions", True
    ),
    Column("log_start_offset", BIGINT, "first offset of the log after the deletions", True),
)
