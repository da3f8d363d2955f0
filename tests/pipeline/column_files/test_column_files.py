"""What column files have is what the logs have, whatever happens to the files or the store."""

import asyncio
import errno
import os
import shutil
import threading
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tests.models.cli.command_line import run, write
from tests.models.spark.rows import (
    Row,
    in_order,
    options_of,
    partition_of,
    read,
    rows,
    writing,
)
from tests.models.storage.stored_partitions import (
    TIP,
    TRACES,
    StoredPartition,
    import_trace,
)
from tests.pipeline.test_engines import TRACE_NAMES, damaged
from tierledger import tables
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline import column_writer
from tierledger.pipeline.column_files import content
from tierledger.pipeline.column_files.folder import ColumnFolder
from tierledger.pipeline.column_files.locate import COLUMNS_SETTING
from tierledger.pipeline.column_writer import WrittenColumns, listed, write_columns
from tierledger.pipeline.frames import events
from tierledger.pipeline.log_ranges import FileRanges, LogRange
from tierledger.pipeline.source import native, options
from tierledger.pipeline.source.columns import FILE_SCHEMA, coded_schema
from tierledger.pipeline.source.local import planned_here
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.scan import scanned
from tierledger.pipeline.source.schema import DEFAULT_SCHEMA, EVENT_SCHEMA
from tierledger.pipeline.source.source import TierledgerReader
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.connector import URL_SETTING
from tierledger.storage.partition.forgetting import forget

OTHER = TopicIdPartition(Uuid(bytes(range(1, 17))), 0, "payments")
NOWHERE = "dir:/nonexistent"
DELTA = "DELTA_BINARY_PACKED"


class Store:
    """A SQLite store with column files beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:{path}"
        self.options = SourceOptions({URL_SETTING: self.url})
        self.place = ColumnFolder(path.with_name(path.name + ".columns"))

    def write(self) -> WrittenColumns:
        return write_columns(self.options, self.place)

    def file(self) -> Path:
        """The only file."""
        (name,) = self.place.names()
        return self.path.with_name(self.path.name + ".columns") / name

    def read(self) -> list[Row]:
        return in_order(tables.read("events", self.url).to_pylist())

    def decoded(self) -> list[Row]:
        """The events without any file."""
        return in_order(tables.read("events", self.url, columns=NOWHERE).to_pylist())

    def pieces(self, schema: StructType = DEFAULT_SCHEMA, **options: object) -> list[object]:
        """What tasks of Spark would read."""
        return [
            piece
            for task in self.reader(schema, **options).partitions()
            for piece in task.pieces
        ]

    def reader(
        self, schema: StructType = DEFAULT_SCHEMA, **options: object
    ) -> TierledgerReader:
        return TierledgerReader(SourceOptions.of(options_of(self.url, **options)), schema)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def fill(store: Store, *, batches: int = 30) -> None:
    asyncio.run(partition_of(store.url, TIP, batches))
    asyncio.run(partition_of(store.url, OTHER, batches // 2))


def grow(store: Store, numbers: range, tip: TopicIdPartition = TIP) -> None:
    async def more() -> None:
        async with writing(store.url) as backend:
            partition = await StoredPartition.resumed(backend, tip)
            await partition.fill(numbers, step_ms=1000)

    asyncio.run(more())


@pytest.mark.parametrize("traces", ["some", pytest.param("every", marks=pytest.mark.long)])
def test_files_have_every_event_of_real_traces(store: Store, traces: str) -> None:
    async def imported(backend: SqliteBackend) -> None:
        for name in TRACE_NAMES[traces]:
            await import_trace(backend, TRACES / name)

    write(store.path, imported, damaged)
    expected = in_order(tables.read("events", store.url, damaged=[]).to_pylist())

    done = store.write()

    assert [tip.partition for tip in done.damaged] == [3]
    assert all(
        isinstance(one, FileRanges) or one.topic_id_partition.topic == "damaged"
        for one in store.pieces()
        if isinstance(one, FileRanges | LogRange)
    )
    assert in_order(tables.read("events", store.url, damaged=[]).to_pylist()) == expected


def test_any_order_of_growing_forgetting_and_writing_gives_the_logs_rows(store: Store) -> None:
    random = Random(11)
    fill(store, batches=3)
    sizes, next_number = list[int](), 100
    for _ in range(25):
        choice = random.random()
        if choice < 0.6:
            tip, count = random.choice((TIP, OTHER)), random.randrange(1, 12)
            grow(store, range(next_number, next_number + count), tip)
            next_number += count
        if choice > 0.3:
            store.write()
            sizes.append(len(store.place.names()))
            found = asyncio.run(listed(store.options, store.place))
            assert found.behind == 0
            assert not found.held.unfit
            assert all(one.rows == one.used for one in found.files)
        assert store.read() == store.decoded()
    assert max(sizes) > 1
    assert max(sizes) <= 8, "an event is in few files, as small ones are written again"


def test_a_log_that_is_forgotten_leaves_no_rows_and_one_that_goes_on_has_new_ones(
    store: Store,
) -> None:
    fill(store)
    store.write()

    async def forgotten() -> None:
        async with writing(store.url) as backend:
            await (await StoredPartition.resumed(backend, OTHER)).close()
            await forget(
                (await StoredPartition.resumed(backend, OTHER)).reader(), segments_too=True
            )

    asyncio.run(forgotten())
    assert {row["topic"] for row in store.read()} == {"orders"}
    store.write()
    assert {row["topic"] for row in pq.read_table(store.file()).to_pylist()} == {"orders"}

    async def led_again() -> None:
        async with writing(store.url) as backend:
            partition = await StoredPartition.resumed(backend, OTHER)
            await partition.open()
            await partition.fill(range(3))

    asyncio.run(led_again())
    expected = store.decoded()
    assert expected[-1]["topic"] == "payments"
    store.write()
    assert store.read() == expected


def test_the_command_that_forgets_removes_files_with_its_events(store: Store) -> None:
    async def gone(backend: SqliteBackend) -> None:
        for tip in (TIP, OTHER):
            partition = await StoredPartition.led(backend, tip)
            await partition.close()

    write(store.path, gone)
    store.write()

    result = run(store.path, "forget", "payments", 0, "--yes")

    assert result.exit_code == 0, result.output
    assert "1 column files that had its events are removed" in result.stderr
    assert store.place.names() == []


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)


def of_another_program(file: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), file)


def of_another_version(file: Path) -> None:
    table = pq.read_table(file)
    pq.write_table(table.drop_columns(["reason"]), file)


def unreadable(file: Path) -> None:
    file.unlink()
    file.mkdir()


BAD = [truncated, emptied, flipped, of_another_program, of_another_version, unreadable]


@pytest.mark.parametrize("spoil", BAD)
def test_a_file_that_is_not_what_was_written_is_left_aside_and_noted_once(
    store: Store, spoil: Callable[[Path], None]
) -> None:
    fill(store)
    expected = store.decoded()
    store.write()
    spoil(store.file())

    with pytest.warns(UserWarning, match="a column file is not used") as notes:
        assert store.read() == expected
    assert len(notes) == 1

    if spoil is unreadable:
        store.file().rmdir()
    assert store.write().files == 1
    assert store.read() == expected


def test_a_file_with_a_good_name_and_other_rows_is_not_used(store: Store) -> None:
    fill(store)
    expected = store.decoded()
    store.write()
    old = store.file()
    table = pq.read_table(old)
    old.unlink()
    for change in (table.slice(0, table.num_rows - 1), table.replace_schema_metadata({})):
        sink = pa.BufferOutputStream()
        pq.write_table(change, sink)
        store.place.write(7, sink.getvalue().to_pybytes())
    with pytest.warns(UserWarning, match=r"is not used.*\(and 1 more\)"):
        assert store.read() == expected


def test_files_of_an_older_form_are_replaced(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    with monkeypatch.context() as older:
        older.setattr(content, "FORMAT", content.FORMAT - 1)
        store.write()
    with pytest.warns(UserWarning, match="another version of tierledger"):
        assert store.read() == store.decoded()

    assert store.write().removed == 1

    assert store.read() == store.decoded()
    store.file()


def test_files_of_another_store_fit_no_log(store: Store, tmp_path: Path) -> None:
    fill(store)
    (tmp_path / "other").mkdir()
    other = Store(tmp_path / "other" / "store.sqlite")
    fill(other, batches=0)
    for tip in (TIP, OTHER):
        grow(other, range(50, 54), tip)
    other.write()
    with pytest.warns(UserWarning, match="do not fit the log of .* and 1 other logs"):
        found = tables.read("events", store.url, columns=f"dir:{other.file().parent}")
    assert in_order(found.to_pylist()) == store.decoded()


def test_a_store_that_is_restored_and_goes_on_otherwise_is_read_from_its_log(
    store: Store, tmp_path: Path
) -> None:
    fill(store)
    shutil.copy(store.path, tmp_path / "backup")
    store.write()
    grow(store, range(50, 60))
    store.write()
    for suffix in ("-wal", "-shm"):
        store.path.with_name(store.path.name + suffix).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup", store.path)
    assert store.read() == store.decoded(), "the older files fit"

    grow(store, range(70, 80))
    with pytest.warns(UserWarning, match="do not fit the log of .*:orders-3;"):
        assert store.read() == store.decoded()
    store.write()
    assert store.read() == store.decoded()
    assert asyncio.run(listed(store.options, store.place)).behind == 0


def test_a_file_that_goes_while_a_query_runs_costs_time_and_no_row(store: Store) -> None:
    fill(store)
    expected = store.decoded()
    store.write()
    tasks = store.reader().partitions()
    assert any(isinstance(piece, FileRanges) for task in tasks for piece in task.pieces)
    store.file().unlink()
    with pytest.warns(UserWarning, match="cannot be read: No such file"):
        found = [batch for task in tasks for batch in store.reader().read(task)]
    assert in_order([row for batch in found for row in batch.to_pylist()]) == expected


def test_what_is_in_files_is_read_without_the_store(store: Store) -> None:
    fill(store)
    store.write()
    expected = store.read()
    (task,) = planned_here(store.options)
    store.path.unlink()

    batches = scanned(store.options, task.cluster, FILE_SCHEMA, task.pieces)

    assert in_order(pa.Table.from_batches(batches).to_pylist()) == expected


def test_a_full_disk_leaves_what_was_there_and_nothing_half_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    store.write()
    grow(store, range(50, 60))
    before = store.place.names()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        result = run(store.path, "columns", "write")

    assert result.exit_code == 4
    assert "No space left on device" in result.stderr
    folder = store.path.with_name(store.path.name + ".columns")
    assert [one.name for one in folder.iterdir()] == before
    assert store.read() == store.decoded()


def test_writers_at_once_do_not_hurt(store: Store) -> None:
    fill(store)
    threads = [threading.Thread(target=store.write) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert store.read() == store.decoded()
    grow(store, range(100, 110))
    store.write()
    assert asyncio.run(listed(store.options, store.place)).behind == 0


class Reads:
    """Counts what is read of column files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.groups = self.files = 0
        monkeypatch.setattr(content, "ROWS_PER_GROUP", 20)
        whole, group = ColumnFolder.read, pq.ParquetFile.read_row_group

        def read(place: ColumnFolder, name: str) -> bytes:
            self.files += 1
            return whole(place, name)

        def read_row_group(file: pq.ParquetFile, number: int, **given: object) -> pa.Table:
            self.groups += 1
            return group(file, number, **given)

        monkeypatch.setattr(ColumnFolder, "read", read)
        monkeypatch.setattr(pq.ParquetFile, "read_row_group", read_row_group)

    def of(self, read: Callable[[], object]) -> tuple[int, int]:
        """Files and groups of rows that this reads."""
        self.files = self.groups = 0
        read()
        return self.files, self.groups


def test_of_a_topic_only_its_part_of_a_file_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    reads = Reads(monkeypatch)
    store.write()

    def payments() -> None:
        found = tables.read("events", store.url, topic="payments")
        assert {row["topic"] for row in found.to_pylist()} == {"payments"}

    assert reads.of(payments) == (1, 2)


def test_what_many_logs_have_in_a_file_is_read_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    for number in range(12):
        tip = TopicIdPartition(Uuid(bytes([number + 1] * 16)), number % 2, f"topic-{number}")
        asyncio.run(partition_of(store.url, tip, 2))
    store.write()

    assert reads.of(lambda: tables.read("events", store.url, partition=1)) == (1, 3)


def test_bounds_leave_out_files_and_parts_of_files(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three files, of which the second and third have what each log got later; and a tail."""
    reads = Reads(monkeypatch)
    fill(store)
    store.write()
    grow(store, range(50, 65))
    store.write()
    grow(store, range(65, 68))
    store.write()
    grow(store, range(70, 72))
    assert len(store.place.names()) == 3
    (first, *_, last) = [one["log_time_ms"] for one in store.read() if one["topic"] == "orders"]

    def read(**bounds: Any) -> Callable[[], object]:  # noqa: ANN401 - As its arguments.
        return lambda: tables.read("events", store.url, **bounds)

    assert reads.of(read()) == (3, 8)
    assert reads.of(read(since=95)) == (1, 1), "positions 91 to 96 are in the third file"
    assert reads.of(read(since=time_of(last))) == (0, 0), "in the tail alone"
    assert reads.of(read(as_of=time_of(first))) == (1, 2), "the begin of each of the two logs"
    assert reads.of(read(topic="orders", as_of=70)) == (2, 5)
    assert reads.of(read(topic="orders", since=40, as_of=50)) == (1, 2)


def time_of(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def test_bounds_select_what_a_filter_would(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In files, in their groups of rows, and in ranges of the logs behind them."""
    Reads(monkeypatch)
    monkeypatch.setattr(options, "ROWS_PER_BOUNDED_RANGE", 10)
    fill(store)
    store.write()
    grow(store, range(50, 65))
    store.write()
    grow(store, range(70, 90))
    every = store.decoded()
    chosen = Random(7)
    for _ in range(40):
        column = chosen.choice(["position", "log_time_ms"])
        first, last = sorted(chosen.choice(every)[column] for _ in range(2))
        ends = [first, last] if column == "position" else list(map(time_of, (first, last)))
        names = chosen.choice([("since",), ("as_of",), ("since", "as_of")])
        bounds: dict[str, Any] = {
            name: at for name, at in zip(("since", "as_of"), ends, strict=True) if name in names
        }

        reader = store.reader(**bounds)
        found = [
            row
            for task in reader.partitions()
            for batch in reader.read(task)
            for row in batch.to_pylist()
        ]

        assert in_order(found) == [
            row
            for row in every
            if ("since" not in bounds or row[column] >= first)
            and ("as_of" not in bounds or row[column] <= last)
        ]


def test_damage_before_the_bounds_is_told_if_it_hides_what_is_in_them(store: Store) -> None:
    fill(store)

    async def damage() -> None:
        async with writing(store.url) as backend:
            await StoredPartition(backend, TIP).flip(10)

    asyncio.run(damage())
    damaged = list[tables.DamagedLog]()
    found = tables.read("events", store.url, topic="orders", since=40, damaged=damaged)
    assert found["type"].to_pylist() == ["corrupt"]
    assert [one.position for one in damaged] == found["position"].to_pylist() == [19]


def test_texts_are_read_as_numbers_of_values_from_files_and_logs(store: Store) -> None:
    fill(store)
    store.write()
    grow(store, range(50, 60))
    for where in (store.place, NOWHERE):
        config = {URL_SETTING: store.url, COLUMNS_SETTING: str(where)}
        read_options = SourceOptions(config)
        coded = coded_schema(FILE_SCHEMA.names)
        found = dict[bool, pa.Table]()
        for is_coded, schema in ((False, FILE_SCHEMA), (True, coded)):
            batches = [
                batch
                for task in planned_here(read_options)
                for batch in scanned(read_options, task.cluster, schema, task.pieces)
            ]
            found[is_coded] = pa.Table.from_batches(batches)
        assert pa.types.is_dictionary(found[True].schema.field("segment_id").type)
        assert found[True].cast(FILE_SCHEMA).equals(found[False])


def test_numbers_that_grow_are_differences_and_only_what_orders_rows_has_its_ends(
    store: Store,
) -> None:
    fill(store)
    store.write()
    group = pq.ParquetFile(store.file()).metadata.row_group(0)
    columns = {one.path_in_schema: one for one in map(group.column, range(group.num_columns))}

    growing = {name for name, one in columns.items() if DELTA in one.encodings}
    have_ends = {
        name
        for name, one in columns.items()
        if one.statistics is not None and one.statistics.has_min_max
    }

    assert growing == {*content.GROWING, "leader_epochs.key_value.value"}
    assert have_ends == {*content.ORDERED} - {"source_offset"}, "no event is imported"
    assert "RLE_DICTIONARY" in columns["leader_epochs.key_value.key"].encodings
    assert {"position", "log_time_ms"} < have_ends, "bounds leave out groups by these"


def test_several_files_are_written_if_there_is_much(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_writer, "ROWS_PER_FILE", 25)
    fill(store)
    assert store.write().files == 5
    found = tables.read("events", store.url, topic="orders")
    assert found["position"].to_pylist() == list(range(found.num_rows))
    assert store.read() == store.decoded()
    assert store.write().files == 0


def test_the_stored_bytes_are_read_from_the_logs(store: Store) -> None:
    fill(store)
    store.write()
    assert not any(isinstance(one, FileRanges) for one in store.pieces(EVENT_SCHEMA))
    elsewhere = store.pieces(column_files=NOWHERE)
    assert elsewhere
    assert not any(isinstance(one, FileRanges) for one in elsewhere)
    assert COLUMNS_SETTING not in store.options.config


def spark_rows(found: DataFrame) -> list[Row]:
    """Rows from Spark, with maps as Arrow has them."""
    held = rows(found.collect())
    for row in held:
        row["leader_epochs"] = row["leader_epochs"] and list(row["leader_epochs"].items())
    return held


def test_sparks_format_reads_files_and_the_logs_behind_them(
    spark: SparkSession, store: Store
) -> None:
    fill(store)
    store.write()
    grow(store, range(50, 60))
    expected = store.decoded()
    folder = store.path.with_name(store.path.name + ".columns")
    elsewhere = folder.rename(store.path.with_name("elsewhere"))

    found = read(spark, store.url, column_files=f"dir:{elsewhere}")

    assert spark_rows(found) == expected
    elsewhere.rename(folder)
    newer = read(spark, store.url, since=50, as_of=70, columns="topic,position")
    assert sorted(newer.collect()) == sorted(
        (row["topic"], row["position"]) for row in expected if 50 <= row["position"] <= 70
    )


@pytest.fixture
def no_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other test's copies of column files, which may be the same files."""
    monkeypatch.setattr(native, "COPIES", tmp_path.name)


def files_read(found: DataFrame) -> set[str]:
    """The column files that Spark reads itself."""
    return {Path(one).name for one in found.inputFiles()}


def test_spark_reads_whole_files_itself_and_the_rest_in_tasks(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files, the second with what both logs got later, and tails of both."""
    Reads(monkeypatch)
    fill(store)
    store.write()
    for tip in (TIP, OTHER):
        grow(store, range(50, 60), tip)
    store.write()
    grow(store, range(60, 65))
    expected, (older, newer) = store.decoded(), store.place.names()

    def check(names: set[str], is_wanted: Callable[[Row], bool], **of: Any) -> None:  # noqa: ANN401 - As `events`.
        found = events(spark, store.url, **of)
        assert files_read(found) == names
        assert spark_rows(found) == [row for row in expected if is_wanted(row)]

    check({older, newer}, lambda _: True)
    check({older, newer}, lambda row: row["topic"] == "payments", topic="payments")
    check({older, newer}, lambda row: row["partition"] == 3, partition=3)
    check({older}, lambda row: row["position"] <= 20, as_of=20)
    check({newer}, lambda row: row["position"] >= 65, since=65)
    moment = expected[5]["log_time_ms"]
    check({older}, lambda row: row["log_time_ms"] <= moment, as_of=time_of(moment))
    check(set(), lambda row: row["position"] >= 82, since=82)
    few = events(spark, store.url, columns=["position", "state"], topic="orders")
    assert sorted(few.collect()) == sorted(
        (row["position"], row["state"]) for row in expected if row["topic"] == "orders"
    )
    assert files_read(events(spark, store.url, columns=["stored"])) == set()


def test_a_file_is_read_by_tasks_if_the_logs_have_not_all_of_it(
    spark: SparkSession, store: Store
) -> None:
    fill(store)
    store.write()
    grow(store, range(50, 100))
    older = store.file().read_bytes()
    store.write()
    store.place.write(1, older)
    assert len(store.place.names()) == 2, "the first has what the second has, and less"

    found = events(spark, store.url)

    assert files_read(found) == {store.place.names()[1]}
    assert spark_rows(found) == store.decoded()


def test_files_of_which_each_has_more_of_another_log_are_read_by_tasks(
    spark: SparkSession, store: Store
) -> None:
    fill(store)
    before = store.path.read_bytes()
    grow(store, range(50, 100))
    store.write()
    first = store.file().read_bytes()
    store.file().unlink()
    after = store.path.read_bytes()
    store.path.write_bytes(before)
    grow(store, range(50, 100), OTHER)
    store.write()
    store.place.write(2, first)
    store.path.write_bytes(after)
    grow(store, range(50, 100), OTHER)
    assert len(store.place.names()) == 2

    found = events(spark, store.url)

    assert files_read(found) == set()
    assert spark_rows(found) == store.decoded()


@pytest.mark.parametrize("spoil", [truncated, flipped, Path.unlink])
@pytest.mark.usefixtures("no_copies")
def test_what_happens_to_files_after_their_digest_was_compared_does_not_matter(
    spark: SparkSession, store: Store, spoil: Callable[[Path], None]
) -> None:
    fill(store)
    store.write()
    expected = store.decoded()
    found = events(spark, store.url)
    assert files_read(found) == {store.file().name}

    spoil(store.file())

    assert spark_rows(found) == expected


@pytest.mark.parametrize("spoil", [truncated, flipped, of_another_program])
@pytest.mark.usefixtures("no_copies")
def test_spark_reads_no_file_itself_that_is_not_what_was_written(
    spark: SparkSession, store: Store, spoil: Callable[[Path], None]
) -> None:
    fill(store)
    store.write()
    spoil(store.file())

    with warnings.catch_warnings(action="ignore"):
        found = events(spark, store.url)

    assert files_read(found) == set()
    assert spark_rows(found) == store.decoded()


def test_a_copy_that_is_no_longer_what_was_copied_is_made_anew(
    spark: SparkSession, store: Store
) -> None:
    fill(store)
    store.write()
    (copy,) = events(spark, store.url).inputFiles()
    truncated(Path(copy.removeprefix("file:")))

    assert spark_rows(events(spark, store.url)) == store.decoded()


@pytest.mark.usefixtures("no_copies")
def test_a_disk_too_full_for_copies_costs_time_and_no_row(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    store.write()

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    found = events(spark, store.url)

    assert files_read(found) == set()
    assert spark_rows(found) == store.decoded()


def test_an_empty_store_has_no_events_on_spark(spark: SparkSession, store: Store) -> None:
    write(store.path)
    found = events(spark, store.url)
    assert found.schema == DEFAULT_SCHEMA
    assert found.collect() == []
