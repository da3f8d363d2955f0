"""Over recorded traces, every table says row by row what the leaders' states answer."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.models.pipeline.folded_tables import (
    REAL_TRACES,
    TableRow,
    folded,
    imported,
    of_log,
    written,
)
from tests.models.storage.stored_partitions import (
    StoredPartition,
    finished,
    segment_id,
    updated,
)
from tierledger.events import log_events as log
from tierledger.events.identifiers import Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.partition import answers
from tierledger.events.partition.answers import Snapshot
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import FINISHED_AT, id_of_row, unpack_row
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.tables.lineage import lineage_of
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.tiering.retention.walk import LineageSize, RetentionBounds


class Recorded(NamedTuple):
    """A trace in a store, and its partitions as leaders have them."""

    store: JobStore
    partitions: list[StoredPartition]

    def pairs(self, table: str) -> Iterator[tuple[PartitionState, list[TableRow]]]:
        """Each partition's state, and its rows of a table."""
        rows = folded(table, self.store)
        about = {(row["topic_id"], row["partition"]) for row in rows}
        known = {(str(one.tip.topic_id), one.tip.partition) for one in self.partitions}
        assert about <= known
        assert {(row["cluster"]) for row in rows} <= {"test-cluster"}
        for one in self.partitions:
            yield one.state, of_log(rows, one)


@pytest.fixture(scope="module", params=REAL_TRACES)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Recorded:
    return Recorded(*imported(tmp_path_factory.mktemp("trace") / "s", request.param))


def test_segments_are_those_that_the_leaders_list(recorded: Recorded) -> None:
    for state, rows in recorded.pairs("segments"):
        listed = list(answers.list_all(Snapshot(state)))
        by_id = {row["segment_id"]: row for row in rows}

        assert len(rows) == len(by_id) == len(listed)
        for row in listed:
            one = answers.metadata_of(state.topic_id_partition, row)
            mine = by_id[str(one.remote_log_segment_id.id)]
            finished_at = unpack_row(row)[FINISHED_AT]
            assert mine == {
                "cluster": "test-cluster",
                "topic": one.remote_log_segment_id.topic_id_partition.topic,
                "topic_id": str(one.remote_log_segment_id.topic_id_partition.topic_id),
                "partition": one.remote_log_segment_id.topic_id_partition.partition,
                "segment_id": str(one.remote_log_segment_id.id),
                "state": one.state.name,
                "start_offset": one.start_offset,
                "end_offset": one.end_offset,
                "leader_epochs": dict(one.segment_leader_epochs),
                "size_in_bytes": one.segment_size_in_bytes,
                "max_timestamp_ms": one.max_timestamp_ms,
                "broker_id": one.broker_id,
                "event_timestamp_ms": one.event_timestamp_ms,
                "custom_metadata": one.custom_metadata and one.custom_metadata.value,
                "txn_index_empty": one.txn_index_empty,
                "finished_at_position": None if finished_at < 0 else finished_at,
                "position": state.next_position - 1,
            }


def test_epochs_answer_every_question_as_the_leaders_do(recorded: Recorded) -> None:
    for state, rows in recorded.pairs("epochs"):
        by_epoch: dict[int, dict[str, list[TableRow]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            by_epoch[row["leader_epoch"]][row["answer"]].append(row)

        assert sorted(by_epoch) == sorted(state.epochs)
        for epoch, by_answer in by_epoch.items():
            (whole,) = by_answer["epoch"]
            assert whole["highest_offset"] == answers.highest_offset_for_epoch(state, epoch)
            assert whole["size_in_bytes"] == answers.remote_log_size(state, epoch)
            listed = answers.list_epoch(Snapshot(state, epoch), epoch)
            assert [row["segment_id"] for row in by_answer["list"]] == [
                str(Uuid(id_of_row(row))) for row in listed if row is not None
            ]
            _assert_looked_up(state, epoch, by_answer["lookup"])


def _assert_looked_up(state: PartitionState, epoch: int, ranges: list[TableRow]) -> None:
    spans = [(row["start_offset"], row["end_offset"]) for row in ranges]
    assert all(first <= last for first, last in spans)
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert [row["ordinal"] for row in ranges] == list(range(len(ranges)))
    segments = [unpack_row(row) for row in state.rows]
    until = max((fields[3] for fields in segments), default=0) + 3
    found: dict[int, str | None] = {}
    recovered: set[int] = set()
    for served in ranges:
        span = range(served["start_offset"], min(served["end_offset"] + 1, until + 1))
        found.update(dict.fromkeys(span, served["segment_id"]))
        if served["is_recovered"]:
            recovered.update(span)
    first = min((fields[2] for fields in segments), default=0)
    for offset in range(max(0, first - 2), until):
        row = answers.lookup(state, epoch, offset)
        assert found.get(offset) == (None if row is None else str(Uuid(id_of_row(row))))
        is_ours = row is not None and not _kafka_has(state, epoch, offset)
        assert (offset in recovered) == is_ours


def _kafka_has(state: PartitionState, epoch: int, offset: int) -> bool:
    """Kafka's own rule: the floor entry, if it reaches so far."""
    entry = state.epochs[epoch].referenced.floor(offset)
    row = None if entry is None else state.rows.get(entry[1])
    if row is None:
        return False
    fields = answers.metadata_of(state.topic_id_partition, row)
    later = [at for one, at in fields.segment_leader_epochs.items() if one > epoch]
    return offset <= (min(later) - 1 if later else fields.end_offset)


def test_sizes_are_what_the_leaders_count(recorded: Recorded) -> None:
    for state, rows in recorded.pairs("sizes"):
        counted = answers.summary(state)
        whole = {row["state"]: row for row in rows if row["leader_epoch"] is None}
        for number, name in enumerate(one.name for one in tuple(RemoteLogSegmentState)[:3]):
            assert whole[name]["segments"] == counted.count_by_state[number]
            assert whole[name]["size_in_bytes"] == counted.bytes_by_state[number]
        epochs: Counter[int] = Counter()
        held: Counter[str] = Counter()
        for row in rows:
            if row["leader_epoch"] is not None:
                epochs[row["leader_epoch"]] += row["size_in_bytes"]
                held["segments"] += row["lineage_segments"]
                held["bytes"] += row["lineage_size_in_bytes"]
        finished_row = whole["COPY_SEGMENT_FINISHED"]
        assert dict(epochs) == {
            epoch: answers.remote_log_size(state, epoch) for epoch in state.epochs
        }
        assert held["segments"] == finished_row["lineage_segments"]
        assert held["bytes"] == finished_row["lineage_size_in_bytes"] == _measured(state)


def _measured(state: PartitionState) -> int:
    """The broker's own sum over the epochs' lists, for the same lineage."""
    lineage = lineage_of(state)
    if lineage is None:
        return 0
    size = LineageSize(RetentionBounds(lineage.made(), 0, lineage.log_end_offset))
    for epoch in lineage.leader_epochs:
        for row in answers.list_epoch(Snapshot(state), epoch):
            if row is not None:
                size.add(answers.metadata_of(state.topic_id_partition, row))
    return size.size_in_bytes


def test_the_lineage_is_that_of_the_newest_segment(recorded: Recorded) -> None:
    for one in recorded.partitions:
        lineage = lineage_of(one.state)
        done = [
            answers.metadata_of(one.tip, row)
            for row in one.state.rows
            if unpack_row(row)[1] == RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        ]
        if lineage is None:
            assert not done
            continue
        newest = max(done, key=lambda it: (max(it.segment_leader_epochs), it.end_offset))
        offsets = list(lineage.leader_epochs.values())
        assert offsets == sorted(offsets)
        assert lineage.log_end_offset == newest.end_offset + 1
        assert lineage.made().holds(
            newest.segment_leader_epochs, newest.end_offset, lineage.log_end_offset
        )


def _events(recorded: Recorded) -> list[list[log.Event]]:
    """Each partition's events, as its store has them."""

    async def run() -> list[list[log.Event]]:
        async with recorded.store.opened() as catalog:
            return [
                [event async for event in catalog.reader(one.tip).events()]
                for one in recorded.partitions
            ]

    return asyncio.run(run())


def test_transitions_are_what_the_events_say_in_order(recorded: Recorded) -> None:
    for events, (state, rows) in zip(
        _events(recorded), recorded.pairs("transitions"), strict=True
    ):
        expected: list[tuple[Any, ...]] = []
        lives: dict[bytes, list[log.Event]] = defaultdict(list)
        for event in events:
            body = event.body
            if isinstance(body, log.SegmentAdded | log.SegmentUpdated):
                lives[body.segment_id].append(event)
            elif isinstance(body, log.PartitionDeleteUpdated) and body.state == 2:
                for life in lives.values():
                    life.append(event)
        for segment, life in lives.items():
            expected += _stays(str(Uuid(segment)), life)

        assert sorted(map(str, map(_stay, rows))) == sorted(map(str, expected))
        lasting = {row["segment_id"]: row["state"] for row in rows if row["next_state"] is None}
        assert lasting == {
            str(Uuid(id_of_row(row))): RemoteLogSegmentState(unpack_row(row)[1]).name
            for row in state.rows
        }
        for row in rows:
            if row["until_ms"] is not None:
                assert row["duration_ms"] == row["until_ms"] - row["since_ms"]


def _stay(row: TableRow) -> tuple[Any, ...]:
    names = (
        "segment_id",
        "state",
        "since_position",
        "since_ms",
        "next_state",
        "until_position",
    )
    return tuple(row[name] for name in names)


def _stays(segment: str, life: list[log.Event]) -> Iterator[tuple[Any, ...]]:
    """A segment's stays, by looking at which events change its state."""
    runs: list[tuple[str, log.Event]] = []
    for event in life:
        body = event.body
        if isinstance(body, log.PartitionDeleteUpdated):
            name = "DELETE_PARTITION_FINISHED"
        else:
            name = RemoteLogSegmentState(getattr(body, "state", 0)).name
        if not runs or runs[-1][0] != name:
            runs.append((name, event))
    ends = {"DELETE_SEGMENT_FINISHED", "DELETE_PARTITION_FINISHED"}
    for (name, event), following in zip(runs, [*runs[1:], None], strict=True):
        if name not in ends:
            next_name = None if following is None else following[0]
            until = None if following is None else following[1].position
            yield segment, name, event.position, event.log_time_ms, next_name, until


def test_anomalies_are_what_the_states_count(recorded: Recorded) -> None:
    for events, (state, rows) in zip(
        _events(recorded), recorded.pairs("anomalies"), strict=True
    ):
        kinds = Counter(row["kind"] for row in rows)
        reasons = Counter(
            row["detail"].partition(" (record")[0] for row in rows if row["kind"] == "dropped"
        )
        lost = {
            (epoch, str(Uuid(key)))
            for epoch, tables in state.epochs.items()
            for key, _ in tables.lost.items()
        }

        assert dict(reasons) == state.dropped
        assert kinds["disputed"] == state.disputes
        assert lost == {
            (row["leader_epoch"], row["segment_id"])
            for row in rows
            if row["kind"] == "recovered"
        }
        assert (kinds["repeated"], kinds["late"]) == _repeated_and_late(events)


def _repeated_and_late(events: list[log.Event]) -> tuple[int, int]:
    """How many events change no state, and how many come before the one they follow."""
    known: dict[bytes, tuple[int, int]] = {}
    deletion, repeated, late = None, 0, 0
    for event in events:
        body = event.body
        if isinstance(body, log.PartitionDeleteUpdated):
            repeated += body.state == deletion
            deletion = body.state
            if body.state == 2:
                known.clear()
        elif isinstance(body, log.SegmentAdded | log.SegmentUpdated):
            now = (getattr(body, "state", 0), body.event_timestamp_ms)
            before = known.get(body.segment_id)
            if before is not None:
                repeated += before[0] == now[0]
                late += now[1] < before[1]
            known[body.segment_id] = now
            if now[0] == RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
                del known[body.segment_id]
    return repeated, late


def test_an_unclean_elections_segments_are_not_in_the_lineage(tmp_path: Path) -> None:
    async def step(backend: SqliteBackend) -> None:
        stored = await StoredPartition.led(backend)

        def copied(
            number: int, start: int, end: int, epochs: tuple[int, ...]
        ) -> list[log.Body]:
            body = log.SegmentAdded(
                segment_id(number), start, end, epochs, 100 + number, 5, 1, 5, None, False
            )
            return [body, updated(number, 1)]

        await stored.append(copied(1, 0, 99, (0, 0)))
        await stored.append(copied(2, 100, 199, (0, 100, 1, 150)))  # Of the leader that lost.
        await stored.append(copied(3, 100, 179, (0, 100, 2, 140)))
        await stored.append(copied(4, 180, 250, (2, 180)))

    rows = folded("sizes", written(tmp_path / "s", step))

    held = {
        (row["leader_epoch"], row["lineage_size_in_bytes"])
        for row in rows
        if row["state"] == "COPY_SEGMENT_FINISHED"
    }
    assert held == {(None, 101 + 103 + 104), (0, 101), (1, 0), (2, 103 + 104)}


def test_epochs_that_meet_where_segments_do_are_one_lineage(tmp_path: Path) -> None:
    async def step(backend: SqliteBackend) -> None:
        stored = await StoredPartition.led(backend)
        for number in range(4):
            await stored.append(finished(number, epoch=number // 2))

    store = written(tmp_path / "s", step)

    whole = [row for row in folded("sizes", store) if row["leader_epoch"] is None]
    assert [row["lineage_segments"] for row in whole] == [0, 4, 0]


def test_what_a_leader_would_not_have_recorded_is_told(tmp_path: Path) -> None:
    async def step(backend: SqliteBackend) -> None:
        stored = await StoredPartition.led(backend)
        late = log.SegmentUpdated(segment_id(1), 2, 2, 1, None, dropped_bytes=200)
        await stored.append([*finished(1), late])
        await stored.append([log.SessionDisputed(1, 4, 2, None, 1)])
        await stored.append([log.PartitionDeleteUpdated(0, 1, 5)] * 2)

    store = written(tmp_path / "s", step)

    told = {(row["kind"], row["position"], row["detail"]) for row in folded("anomalies", store)}
    assert told == {
        ("custom_metadata_dropped", 3, "200 bytes"),
        ("late", 3, "by 5 ms"),
        ("disputed", 4, "broker 1 in leader epoch 4, broker 2 in unknown"),
        ("repeated", 6, "deletion at 0 again"),
    }
