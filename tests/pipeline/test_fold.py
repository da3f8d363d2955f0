"""The logs that a job folds, how far, and how it reports damage."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.models.cli.command_line import Write
from tests.models.pipeline.folded_tables import (
    TableRow,
    folded,
    imported,
    of_log,
    plan,
    rows_of,
    written,
)
from tests.models.storage.stored_partitions import (
    CLUSTER,
    TIP,
    StoredPartition,
    added,
    finished,
    updated,
)
from tierledger.events.as_of import AsOf
from tierledger.events.errors import (
    CorruptLog,
    InvalidArgument,
    RemoteResourceNotFound,
    StoreRefused,
)
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.partition.answers import metadata_of
from tierledger.pipeline.fold import PlannedLog, point
from tierledger.pipeline.folding.plan import TASKS_PER_CORE, divided, divided_in_order
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.folding.task import DamagedLog
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.partition.forgetting import forget

OTHER = TopicIdPartition(Uuid(b"o" * 16), 0, "other")


async def two_logs(backend: SqliteBackend) -> None:
    for tip in (TIP, OTHER):
        stored = await StoredPartition.led(backend, tip)
        await stored.fill(range(10), step_ms=10)


def damaged_batch(number: int) -> Write:
    """A step that turns one bit of batch `number` of `TIP`'s log."""

    async def step(backend: SqliteBackend) -> None:
        await StoredPartition(backend).flip(number)

    return step


def planned_ends(store: JobStore) -> list[int]:
    return [log.end_batch for log in plan("segments", store).logs]


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 5, 8, 9, 31, 33])
def test_the_end_of_a_log_is_found_whatever_its_length(tmp_path: Path, batches: int) -> None:
    async def step(backend: SqliteBackend) -> None:
        stored = await StoredPartition.led(backend)
        for number in range(batches - 1):
            await stored.append([added(number, number * 10, number * 10 + 9)])

    assert planned_ends(written(tmp_path / "s", step)) == [batches]


def test_what_is_appended_after_the_planning_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    store = written(path, two_logs)
    made = plan("segments", store)

    async def more(backend: SqliteBackend) -> None:
        third = await StoredPartition.led(
            backend, TopicIdPartition(Uuid(b"t" * 16), 0, "third")
        )
        await third.append(finished(0))
        again = await StoredPartition.resumed(backend)
        await again.append(finished(99))

    before = rows_of(made)
    written(path, more)

    assert rows_of(made) == before
    assert len(rows_of(plan("segments", store))) == len(before) + 2


def test_a_forgotten_log_that_goes_on_is_read_from_its_boundary(tmp_path: Path) -> None:
    path = tmp_path / "s"

    async def begun(backend: SqliteBackend) -> None:
        stored = await StoredPartition.led(backend)
        await stored.append([*finished(1), updated(1, 2), updated(1, 3)])
        await stored.close()
        await forget(stored.reader())

    async def gone_on(backend: SqliteBackend) -> None:
        stored = await StoredPartition.resumed(backend)
        await stored.open()
        await stored.append(finished(2))

    store = written(path, begun)
    assert folded("sizes", store) == []

    written(path, gone_on)
    (row,) = folded("segments", store)
    assert (row["topic"], row["start_offset"], row["finished_at_position"]) == (
        "orders",
        20,
        row["position"],
    )


def test_a_damaged_log_is_set_aside_and_the_others_are_not(tmp_path: Path) -> None:
    clean = written(tmp_path / "clean", two_logs)
    store = written(tmp_path / "s", two_logs, damaged_batch(4))
    damaged: list[DamagedLog] = []

    found = rows_of(plan("segments", store), damaged)

    others = [row for row in folded("segments", clean) if row["topic"] == "other"]
    assert found == others
    (one,) = damaged
    assert (one.topic, one.topic_id, one.partition) == ("orders", str(TIP.topic_id), 3)
    assert one.position == 1 + 2 * 3
    assert "checksum" in one.message


def test_a_damaged_log_ends_a_job_that_nobody_watches(tmp_path: Path) -> None:
    store = written(tmp_path / "s", two_logs, damaged_batch(4))

    with pytest.raises(CorruptLog, match=r":orders-3: .*checksum"):
        folded("segments", store)


def test_of_a_damaged_log_anomalies_have_what_was_before_and_the_damage(tmp_path: Path) -> None:
    async def repeated(backend: SqliteBackend) -> None:
        stored = await StoredPartition.led(backend)
        await stored.append([*finished(1), updated(1, 1)])
        await stored.append(finished(2))

    store = written(tmp_path / "s", repeated, damaged_batch(2))
    damaged: list[DamagedLog] = []

    found = rows_of(plan("anomalies", store), damaged)

    assert [(row["kind"], row["position"]) for row in found] == [
        ("repeated", 3),
        ("corrupt", 4),
    ]
    assert found[1]["detail"] == damaged[0].message


def test_a_log_damaged_at_its_start_is_called_what_its_checkpoint_says(tmp_path: Path) -> None:
    async def kept(backend: SqliteBackend) -> None:
        stored = await StoredPartition.led(backend)
        await stored.append(finished(1))
        await stored.checkpoint()

    store = written(tmp_path / "s", kept, damaged_batch(0))
    damaged: list[DamagedLog] = []

    assert rows_of(plan("segments", store), damaged) == []
    assert [(one.topic, one.position) for one in damaged] == [("orders", 0)]


def test_an_event_that_no_leader_decided_is_damage(tmp_path: Path) -> None:
    async def impossible(backend: SqliteBackend) -> None:
        stored = await StoredPartition.led(backend)
        await stored.append(finished(1))
        before = stored.state
        stored.state = (await stored.reader().state()).state
        before.rows.drop(next(iter(before.rows))[3:19])
        stored.state = before
        with pytest.raises(CorruptLog):
            await stored.append([updated(7, 1)])

    store = written(tmp_path / "s", impossible)
    damaged: list[DamagedLog] = []

    assert rows_of(plan("segments", store), damaged) == []
    assert "unknown" in damaged[0].message


def test_a_batch_that_has_gone_since_the_planning_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "s"
    store = written(path, two_logs)
    made = plan("segments", store)

    async def cut(backend: SqliteBackend) -> None:
        await StoredPartition(backend).lose(10)

    written(path, cut)
    damaged: list[DamagedLog] = []
    rows_of(made, damaged)

    assert ["batch 10 is missing" in one.message for one in damaged] == [True]


def test_a_selection_takes_names_ids_and_numbers(tmp_path: Path) -> None:
    store = written(tmp_path / "s", two_logs)

    assert len(plan("segments", store).logs) == 2
    for topic in ("orders", str(TIP.topic_id)):
        assert [log.topic_id for log in plan("segments", store, topic=topic).logs] == [
            TIP.topic_id
        ]
    (log,) = plan("segments", store, partition=0).logs
    assert log.topic_id == OTHER.topic_id


def test_what_is_not_there_is_said_before_any_task_starts(tmp_path: Path) -> None:
    store = written(tmp_path / "s", two_logs)

    with pytest.raises(RemoteResourceNotFound, match="no topic 'nobody'"):
        plan("segments", store, topic="nobody")
    with pytest.raises(RemoteResourceNotFound, match="partition 7"):
        plan("segments", store, topic="orders", partition=7)
    with pytest.raises(RemoteResourceNotFound, match=f"it holds {CLUSTER}"):
        plan("segments", JobStore.of(f"sqlite:{tmp_path / 's'}", "elsewhere"))
    with pytest.raises(RemoteResourceNotFound, match="empty"):
        plan("segments", written(tmp_path / "nothing"))
    with pytest.raises(StoreRefused):
        plan("segments", JobStore.of(f"sqlite:{tmp_path / 'missing'}"))
    with pytest.raises(InvalidArgument, match="other processes"):
        JobStore.of("memory:")
    with pytest.raises(InvalidArgument, match="expected one of segments"):
        plan("segmants", store)


def test_a_position_is_one_partitions(tmp_path: Path) -> None:
    store = written(tmp_path / "s", two_logs)

    with pytest.raises(InvalidArgument, match="one partition's"):
        plan("segments", store, AsOf(position=4))

    made = plan("segments", store, AsOf(position=4), topic="orders")
    assert sorted(row["start_offset"] for row in rows_of(made)) == [0, 10]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_segments_as_of_a_time_are_a_replay_up_to_there(tmp_path: Path, share: float) -> None:
    store, partitions = imported(tmp_path / "s", "three-brokers-churn")
    ends = [one.state.log_time_ms for one in partitions]
    at = int(min(ends) - 60_000 * (1 - share))

    found = folded("segments", store, AsOf(time_ms=at))

    assert found
    _assert_replayed(tmp_path / "s", partitions, found, AsOf(time_ms=at))


def test_segments_as_of_each_logs_middle_are_a_replay_up_to_there(tmp_path: Path) -> None:
    store, partitions = imported(tmp_path / "s", "three-brokers-churn")

    for one in partitions:
        as_of = AsOf(position=one.state.next_position // 2)
        tip = one.tip
        made = plan("segments", store, as_of, topic=str(tip.topic_id), partition=tip.partition)
        _assert_replayed(tmp_path / "s", [one], rows_of(made), as_of)


def _assert_replayed(
    path: Path, partitions: list[StoredPartition], found: list[TableRow], as_of: AsOf
) -> None:
    async def run() -> None:
        backend = await SqliteBackend.open(path, read_only=True)
        for one in partitions:
            one.backend = backend
            mine = of_log(found, one)
            try:
                state = await one.reader().state_as_of(**as_of._asdict())
            except RemoteResourceNotFound:
                assert not mine
                continue
            listed = [metadata_of(one.tip, row) for row in state.rows]
            assert {row["segment_id"]: row["state"] for row in mine} == {
                str(row.remote_log_segment_id.id): row.state.name for row in listed
            }
            assert {row["event_timestamp_ms"] for row in mine} == {
                row.event_timestamp_ms for row in listed
            }
            assert {row["position"] for row in mine} <= {state.next_position - 1}
        await backend.close()

    asyncio.run(run())


def test_a_time_is_utc_unless_it_says() -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 5000)  # noqa: DTZ001 - That is what is asked.
    east = moment.replace(tzinfo=timezone(timedelta(hours=2)))

    assert point(moment) == point(moment.replace(tzinfo=UTC))
    assert point(moment) == AsOf(time_ms=1769860800005)
    assert point(east) == AsOf(time_ms=1769860800005 - 7_200_000)
    assert point(7) == AsOf(position=7)
    assert point(None) == AsOf()


def test_every_log_has_one_task_and_the_tasks_are_about_equal() -> None:
    logs = [PlannedLog(Uuid(bytes(16)), at, 0, 1 + at % 7 * 10) for at in range(300)]

    tasks = divided(logs, cores=2)

    loads = [sum(log.batches for log in task) for task in tasks]
    assert len(tasks) == 2 * TASKS_PER_CORE
    assert sorted(log.partition for task in tasks for log in task) == list(range(300))
    assert max(loads) - min(loads) <= 61
    assert divided([], cores=2) == divided_in_order([], cores=2) == [[]]
    assert len(divided(logs[:3], cores=2)) == 3


def test_tasks_in_order_have_neighbours_and_are_about_as_long() -> None:
    logs = [PlannedLog(Uuid(bytes([one]) * 16), 0, 0, 1 + one % 3) for one in range(1, 100)]
    tasks = divided_in_order(logs[::-1], cores=2)
    assert len(tasks) == 2 * TASKS_PER_CORE
    assert [log for task in tasks for log in task] == sorted(logs, key=lambda log: str(log[0]))
    lengths = [sum(log.batches for log in task) for task in tasks]
    assert max(lengths) - min(lengths) <= 4
    large = logs[0]._replace(end_batch=1000)
    assert [large] in divided_in_order([large, *logs[1:]], cores=2)
