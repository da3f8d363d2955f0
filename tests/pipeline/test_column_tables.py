"""A table that is made of columns is the one that the fold makes."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tests.models.cli.command_line import orders, others, write
from tests.models.pipeline.folded_tables import plan, rows_of
from tests.models.storage.stored_partitions import (
    TIME_MS,
    TRACES,
    StoredPartition,
    import_trace,
    segment_id,
)
from tests.pipeline.test_engines import TRACE_NAMES, damaged
from tierledger.events import log_events as log
from tierledger.events.as_of import NOW, AsOf
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.lifecycle import SEGMENT_TRANSITIONS, RemoteLogSegmentState
from tierledger.pipeline import column_tables, frames
from tierledger.pipeline.column_files.folder import ColumnFolder
from tierledger.pipeline.column_tables import MADE, ColumnTable
from tierledger.pipeline.column_writer import write_columns
from tierledger.pipeline.fold import PlannedLog
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.folding.task import FoldTask
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.tables.plan import MADE_OF_COLUMNS
from tierledger.storage.backend import MetadataStorageBackend
from tierledger.storage.backends.sqlite.backend import SqliteBackend

Row = dict[str, Any]


def made(name: str, store: JobStore, as_of: AsOf = NOW, **of: Any) -> tuple[list[Row], int]:  # noqa: ANN401
    """The rows that columns give, with what is left folded; and how many logs are left."""
    planned = plan(name, store, as_of, **of)
    table = ColumnTable(planned)
    found = [row for batch in table.batches() for row in batch.to_pylist()]
    for row in found:
        if "leader_epochs" in row:
            row["leader_epochs"] = dict(row["leader_epochs"])
    for chunk in planned.fold(lambda _: None).run(table.left):
        found += chunk.rows()
    return found, len(table.left)


def sorted_rows(rows: list[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def assert_equal(name: str, store: JobStore, as_of: AsOf = NOW, **of: Any) -> int:  # noqa: ANN401
    rows, left = made(name, store, as_of, **of)
    assert sorted_rows(rows) == sorted_rows(rows_of(plan(name, store, as_of, **of), []))
    return left


@pytest.mark.parametrize("traces", ["some", pytest.param("every", marks=pytest.mark.long)])
def test_tables_of_recorded_logs_are_equal(tmp_path: Path, traces: str) -> None:
    path = tmp_path / "store"

    async def imported(backend: SqliteBackend) -> None:
        for trace in TRACE_NAMES[traces]:
            await import_trace(backend, TRACES / trace)

    write(path, imported, orders, others, damaged)
    store = JobStore.of(f"sqlite:{path}")
    times = _times(path)
    assert tuple(MADE) == MADE_OF_COLUMNS
    for name in MADE:
        left = [assert_equal(name, store)]
        for at in range(0, len(times), max(1, len(times) // 6)):
            assert_equal(name, store, AsOf(time_ms=times[at]))
        options = SourceOptions(store.config)
        write_columns(options, ColumnFolder(path.with_name("store.columns")))
        left.append(assert_equal(name, store))
        assert left[0] == left[1]
        assert 0 < left[0] < len(plan(name, store).logs) / 2, "most logs are plain"


def _times(path: Path) -> list[int]:
    from tierledger import tables  # noqa: PLC0415

    found = tables.read("events", f"sqlite:{path}", damaged=[])
    return sorted(set(found["log_time_ms"].to_pylist()))


SESSION = log.SessionOpened(1, 1, 1, 1, 1, None, "random", None)


class _Life:
    """A log of random events, as leaders and imports write them."""

    def __init__(self, random: Random, odd: float) -> None:
        self._random = random
        self._odd = odd
        self._states: dict[int, int] = {}
        self._next = 0

    def bodies(self, count: int) -> list[log.Body]:
        return [self._one() for _ in range(count)]

    def _one(self) -> log.Body:
        random = self._random
        if random.random() < self._odd:
            return self._odd_one()
        known = [one for one in self._states if random.random() < 0.5]
        if not known or random.random() < 0.4:
            self._next += 1
            return self._added(self._next)
        number = random.choice(known)
        before = RemoteLogSegmentState(self._states[number])
        state = random.choice(
            [int(to) for source, to in SEGMENT_TRANSITIONS if source is before and to]
        )
        if state == 3:
            del self._states[number]
        else:
            self._states[number] = state
        custom = random.choice([None, b"", b"custom"])
        return log.SegmentUpdated(
            segment_id(number), state, random.randrange(3), random.randrange(99), custom
        )

    def _added(self, number: int) -> log.Body:
        self._states[number] = 0
        random, start = self._random, number * 10 + self._random.randrange(-15, 15)
        epochs = sorted(random.sample(range(5), random.randint(1, 3)))
        flat = [x for at, epoch in enumerate(epochs) for x in (epoch, max(0, start) + at * 3)]
        return log.SegmentAdded(
            *(segment_id(number), max(0, start), max(0, start) + 9, tuple(flat)),
            *(random.randrange(1000), random.randrange(-1, 99), 1, 5),
            *(random.choice([None, b"first"]), random.random() < 0.5),
        )

    def _odd_one(self) -> log.Body:
        random = self._random
        started = [one for one, state in self._states.items() if state == 0]
        ending = [one for one, state in self._states.items() if state == 2]
        match random.randrange(4):
            case 0 if started:
                return self._added(random.choice(started))  # Once more.
            case 1 if ending:  # In place of the end of its deletion.
                number = random.choice(ending)
                del self._states[number]
                return log.SegmentKept(segment_id(number), 9, 1, 3, 5, "undo")
            case 2:
                self._states.clear()
                return log.PartitionDeleteUpdated(2, 1, 5)
            case _:
                return log.SessionClosed(1, "done")


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(one, marks=pytest.mark.long) for one in (2, 3))]
)
def test_tables_of_random_logs_are_equal(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    path = tmp_path / "store"

    logs = dict[TopicIdPartition, _Life]()

    async def grown(backend: MetadataStorageBackend) -> None:
        for tip, life in logs.items():
            partition = await StoredPartition.resumed(backend, tip)
            for _ in range(random.randrange(12)):
                await partition.append(life.bodies(random.randint(1, 9)), step_ms=1000)

    async def filled(backend: MetadataStorageBackend) -> None:
        for number in range(12):
            tip = TopicIdPartition(Uuid(bytes([number // 3 + 1]) * 16), number, "random")
            await StoredPartition(backend, tip).append([SESSION])
            logs[tip] = _Life(random, odd=random.choice([0, 0, 0.05]))
        await grown(backend)

    asyncio.run(_write(path, filled))
    store = JobStore.of(f"sqlite:{path}")
    for name in MADE:
        left = assert_equal(name, store)
        assert left < len(plan(name, store).logs)
        for at in range(0, 40, 7):
            assert_equal(name, store, AsOf(time_ms=TIME_MS + at * 1000))
        assert_equal(name, store, AsOf(position=5), topic="random", partition=0)

    write_columns(SourceOptions(store.config), ColumnFolder(tmp_path / "store.columns"))
    asyncio.run(_write(path, grown))
    for name in MADE:
        assert_equal(name, store)
        assert_equal(name, store, AsOf(time_ms=TIME_MS + 60_000))


async def _write(path: Path, step: Any) -> None:  # noqa: ANN401
    backend = await SqliteBackend.open(path)
    try:
        await step(backend)
    finally:
        await backend.close()


def test_a_log_that_is_too_long_for_memory_is_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_tables, "ROWS_OF_LOG_MAX", 40)
    write(tmp_path / "store", orders, others)
    store = JobStore.of(f"sqlite:{tmp_path / 'store'}")

    assert len(plan("segments", store).logs) == 4
    assert assert_equal("segments", store) == 2, "the long one, and the deleted one"


@pytest.mark.parametrize("name", MADE)
def test_a_task_of_spark_folds_only_what_columns_do_not_have(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "store", orders, others)
    store = JobStore.of(f"sqlite:{tmp_path / 'store'}")
    folded, expected = list[PlannedLog](), rows_of(plan(name, store), [])
    run = FoldTask.run

    def spied(task: FoldTask, logs: Iterable[PlannedLog], *more: Any) -> Any:  # noqa: ANN401
        some = list(logs)
        folded.extend(some)
        return run(task, some, *more)

    write_columns(SourceOptions(store.config), ColumnFolder(tmp_path / "store.columns"))
    monkeypatch.setattr(FoldTask, "run", spied)
    planned = plan(name, store)
    numbers = pa.RecordBatch.from_pydict({"id": [0, 1]})
    tasks = [list(planned.logs[:2]), list(planned.logs[2:])]

    run_tasks = frames._Tasks(planned, tasks, None, sets_aside=False)
    found = [row for batch in run_tasks([numbers], print) for row in batch.to_pylist()]

    for row in found:
        if "leader_epochs" in row:
            row["leader_epochs"] = dict(row["leader_epochs"])
    assert sorted_rows(found) == sorted_rows(expected)
    assert len(folded) < len(planned.logs), "the deleted partition alone is folded"
