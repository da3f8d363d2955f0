"""Column files in a bucket are used, mended, removed and done without as those in a folder."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from typing_extensions import override

from tests.models.cli.command_line import run, write
from tests.models.spark.rows import Row, in_order, options_of
from tests.models.storage.stored_partitions import TIP, StoredPartition
from tests.pipeline.column_files.test_column_files import OTHER, Store, fill, grow
from tierledger import tables
from tierledger.cli.exit_status import ExitStatus
from tierledger.events.errors import InvalidArgument, StorageUnavailable
from tierledger.pipeline.column_files.bucket import ColumnBucket
from tierledger.pipeline.column_files.locate import COLUMNS_SETTING, column_place
from tierledger.pipeline.column_writer import listed, write_columns
from tierledger.pipeline.log_ranges import FileRanges
from tierledger.pipeline.source.options import SourceOptions
from tierledger.pipeline.source.schema import DEFAULT_SCHEMA
from tierledger.pipeline.source.source import TierledgerReader
from tierledger.simulation.live.s3_server import S3Server
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.connector import URL_SETTING
from tierledger.tiering.objects.request_counts import Operation


class InBucket(Store):
    """A SQLite store whose column files are in a bucket."""

    def __init__(self, path: Path, columns: str) -> None:
        super().__init__(path)
        self.columns = columns
        self.options = SourceOptions({URL_SETTING: self.url, COLUMNS_SETTING: columns})
        place = column_place(self.options.config)
        assert isinstance(place, ColumnBucket)
        self.bucket = self.place = place  # type: ignore[assignment]

    def put(self, name: str, data: bytes) -> None:
        asyncio.run(self.bucket._store.put(Operation.COLUMNS, self.bucket._prefix + name, data))

    def of_file(self, name: str) -> bytes:
        return self.bucket._bytes(name)

    @override
    def read(self) -> list[Row]:
        return in_order(tables.read("events", self.url, columns=self.columns).to_pylist())

    def task_reader(self) -> TierledgerReader:
        options = options_of(self.url, column_files=self.columns)
        return TierledgerReader(SourceOptions.of(options), DEFAULT_SCHEMA)


@pytest.fixture
def store(tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> InBucket:
    for name, value in s3_server.options().items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    return InBucket(tmp_path / "store.sqlite", s3_server.place())


def cut(store: InBucket, name: str) -> None:
    store.put(name, store.of_file(name)[:-100])


def emptied(store: InBucket, name: str) -> None:
    store.put(name, b"")


def foreign(store: InBucket, name: str) -> None:
    store.put(name, b"PAR1 of another program PAR1" * 9)


def flipped(store: InBucket, name: str) -> None:
    data = bytearray(store.of_file(name))
    data[100] ^= 1
    store.put(name, bytes(data))


def test_what_is_in_the_bucket_is_not_decoded_again(store: InBucket) -> None:
    fill(store)
    done = store.write()
    assert done.files == len(store.place.names()) == 1
    grow(store, range(50, 60))
    assert store.read() == store.decoded()
    pieces = [piece for task in store.task_reader().partitions() for piece in task.pieces]
    assert any(isinstance(piece, FileRanges) for piece in pieces)
    store.write()
    found = asyncio.run(listed(store.options, store.place))
    assert found.behind == 0
    assert store.read() == store.decoded()
    assert run(store.path, "columns", "drop", "--columns", store.columns).exit_code == 0
    assert store.place.names() == []


@pytest.mark.parametrize("spoil", [cut, emptied, foreign, flipped])
def test_an_object_that_is_not_what_was_written_is_noted_once_and_made_anew(
    store: InBucket, spoil: Callable[[InBucket, str], None]
) -> None:
    fill(store)
    store.write()
    (name,) = store.place.names()
    store.put("notes.txt", b"of somebody else")
    spoil(store, name)

    with pytest.warns(UserWarning, match="a column file is not used") as notes:
        assert store.read() == store.decoded()
    assert len(notes) == 1

    assert store.write().files == 1
    assert store.read() == store.decoded()
    assert store.of_file("notes.txt") == b"of somebody else", "it is nobody's of ours"


def test_an_object_that_goes_while_a_query_runs_costs_time_and_no_row(store: InBucket) -> None:
    fill(store)
    store.write()
    tasks = store.task_reader().partitions()
    assert any(isinstance(piece, FileRanges) for task in tasks for piece in task.pieces)
    (name,) = store.place.names()
    store.place.remove(name)
    store.place.remove(name)
    with pytest.warns(UserWarning, match="is gone"):
        found = [batch for task in tasks for batch in store.task_reader().read(task)]
    assert in_order([row for batch in found for row in batch.to_pylist()]) == store.decoded()


def test_the_command_that_forgets_removes_objects_with_its_events(store: InBucket) -> None:
    async def gone(backend: SqliteBackend) -> None:
        for tip in (TIP, OTHER):
            partition = await StoredPartition.led(backend, tip)
            await partition.close()

    write(store.path, gone)
    store.write()
    asked = ("forget", "payments", 0, "--yes", "--columns", store.columns)

    assert run(store.path, *asked[:-1], "s3:nothing").exit_code != 0, "before it forgets"
    result = run(store.path, *asked)

    assert result.exit_code == 0, result.output
    assert "1 column files that had its events are removed from s3://" in result.stderr
    assert store.place.names() == []


def test_a_bucket_that_is_not_there_stops_no_read_and_is_told(store: InBucket) -> None:
    fill(store)
    nowhere = "s3://no-such-bucket/columns"
    with pytest.warns(UserWarning, match="all is read from the logs: s3://no-such-bucket"):
        found = tables.read("events", store.url, columns=nowhere)
    assert in_order(found.to_pylist()) == store.decoded()

    result = run(store.path, "columns", "write", "--columns", nowhere)
    assert result.exit_code == ExitStatus.USAGE
    assert "there is no such bucket" in result.stderr


@pytest.mark.parametrize(
    "url",
    ["memory://", "manifest:s3://b/p", "local-tiered://x", "s3://", "ftp:x", "s3://b/../c"],
)
def test_what_is_no_place_is_refused(store: InBucket, url: str) -> None:
    with pytest.raises(InvalidArgument, match="expected where the column files are"):
        write_columns(SourceOptions({**store.options.config, COLUMNS_SETTING: url}), _of(url))


def _of(url: str) -> ColumnBucket:
    place = column_place({COLUMNS_SETTING: url})
    assert isinstance(place, ColumnBucket)
    return place


def test_a_write_that_fails_leaves_what_was_there(
    store: InBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    store.write()
    before = store.place.names()
    grow(store, range(50, 60))

    async def refused(*_: object) -> None:
        raise StorageUnavailable("the bucket does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(store.bucket._store, "put", refused)
        with pytest.raises(StorageUnavailable):
            store.write()

    assert store.place.names() == before
    assert store.read() == store.decoded()
