"""An import in any number of runs, killed anywhere, leaves the log of an import in one."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.models.actors.local_world import CLUSTER
from tests.models.events.compared_answers import assert_same_answers
from tests.models.events.driven_partition import GENESIS, TIP, import_of
from tests.models.events.histories import EPOCHS_PROBED, OFFSETS_PROBED, Step, histories
from tests.models.pipeline.imported_logs import RECORDED, logs_in, stored_batches
from tests.models.storage.stored_partitions import StoredPartition
from tierledger.events import log_events as log
from tierledger.events.kafka.codec import encode
from tierledger.events.partition.evolve import evolve
from tierledger.events.partition.imports import AFTER_FINISHED
from tierledger.events.partition.state import PartitionState
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.imports import log as importing
from tierledger.pipeline.imports.job import import_into
from tierledger.pipeline.imports.scan import ARROW, HOLDS, RECORD
from tierledger.pipeline.imports.task import ImportTask, Outcome
from tierledger.simulation.checkers.slow.model import Add, PartitionDelete, SlowPartition
from tierledger.storage.backend import Remove
from tierledger.storage.connector import URL_SETTING, load_connector
from tierledger.storage.partition.forgetting import forget

FIRST, SECOND = Add(b"\x01" * 16, 0, 99, {0: 0}), Add(b"\x02" * 16, 100, 109, {0: 100})
DELETION = [PartitionDelete(0, 0, 1), PartitionDelete(1, 0, 2), PartitionDelete(2, 0, 3)]


class Run(NamedTuple):
    """One import: of the records `begin` to below `end`; a killed one stores some batches."""

    begin: int
    end: int
    batches: int | None = None


@st.composite
def splits(draw: st.DrawFn, size: int) -> list[Run]:
    """Runs that see all of `size` records in the end; each may see earlier ones again."""
    runs, done = list[Run](), 0
    while done < size:
        end = draw(st.integers(done + 1, size))
        begin = draw(st.integers(0, done))
        killed = draw(st.none() | st.integers(0, 3))
        runs.append(Run(begin, end, killed))
        if killed is not None:  # It is repeated, with what came since.
            end = draw(st.integers(end, size))
            runs.append(Run(begin, end))
        done = end
    return runs


@st.composite
def split_histories(draw: st.DrawFn) -> tuple[Step, list[Run]]:
    history = draw(histories(records_max=24).filter(bool))
    return history, draw(splits(len(history)))


def imported(url: str, records: Step, run: Run, metadata_partition: int = 7) -> Outcome:
    """What one task reports of the records of `run`, as Spark gives them to it."""
    before = stored_batches(url) if Path(url.removeprefix("sqlite:")).exists() else {}
    items = import_of(records).records[run.begin : run.end]
    key = (bytes(TIP.topic_id), TIP.partition)
    rows: list[tuple[object, ...]] = [(*key, HOLDS, metadata_partition, None, None, None, None)]
    rows += [
        (*key, RECORD, metadata_partition, one.offset, one.timestamp_ms, value_of(one), None)
        for one in items
    ]
    columns = [
        pa.array(list(column), field.type)
        for column, field in zip(zip(*rows, strict=True), ARROW, strict=True)
    ]
    store = JobStore.of(url, CLUSTER)
    with import_into(store) as socket:
        task = ImportTask(store, RECORDED, socket)
        (found,) = task([pa.record_batch(columns, schema=ARROW)])
    if run.batches is not None:
        asyncio.run(
            lose(url, sorted(stored_batches(url).keys() - before.keys())[run.batches :])
        )
    return Outcome(*(column.to_pylist()[0] for column in found.columns))


def value_of(item: object) -> bytes:
    record = getattr(item, "record", None)
    assert record is not None
    return encode(record.value)


async def lose(url: str, keys: Sequence[str]) -> None:
    """Take back the last batches of a run: they are what a kill would have prevented."""
    backend = await load_connector({URL_SETTING: url}).backend(read_only=False)
    try:
        values = await backend.get_each(keys)
        for key, value in zip(keys, values, strict=True):
            assert value is not None
            await backend.execute_atomically([Remove(key, value)])
    finally:
        await backend.close()


def taken(url: str) -> list[tuple[int, log.Body]]:
    """The log's events but for its sessions, each with its time."""
    return [
        (event.log_time_ms, event.body)
        for event in logs_in(url)[TIP]
        if not isinstance(event.body, log.SessionOpened | log.SessionClosed)
    ]


@settings(max_examples=15)
@given(split_histories())
@example(([FIRST, *DELETION, DELETION[-1]], [Run(0, 4), Run(0, 5)]))
@example(([*DELETION, SECOND, DELETION[0]], [Run(0, 3), Run(3, 4, 0), Run(3, 5)]))
@example(([FIRST, *DELETION, SECOND], [Run(0, 5, 1), Run(0, 5)]))
def test_any_split_of_a_source_gives_the_log_of_one_run(
    split: tuple[Step, list[Run]],
) -> None:
    records, runs = split
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(importing, "RECORDS_PER_BATCH", 3)
        one, many = f"sqlite:{folder}/one.sqlite", f"sqlite:{folder}/many.sqlite"
        whole = imported(one, records, Run(0, len(records)))
        found = [imported(many, records, run) for run in runs]
        again = imported(many, records, Run(0, len(records)))

        assert {outcome.trouble for outcome in (whole, *found, again)} == {None}
        assert taken(many) == taken(one)
        assert (again.imported, again.batches) == (0, 0)
        late = dict(whole.dropped_by_reason).get(AFTER_FINISHED, 0)
        assert whole.imported + late == len(records)
        model, state = SlowPartition(), PartitionState(TIP, GENESIS)
        for record in records:
            model.apply(record)
        for event in logs_in(many)[TIP]:
            evolve(state, event)
        assert_same_answers(state, model, EPOCHS_PROBED, OFFSETS_PROBED)


def test_what_follows_a_finished_deletion_is_dropped_in_a_later_run_too(
    sqlite_url: str,
) -> None:
    records = [*DELETION, DELETION[-1]]
    imported(sqlite_url, records, Run(0, 3))

    later = imported(sqlite_url, records, Run(0, 4))

    assert (later.trouble, later.repeated, later.imported) == (None, 3, 0)
    assert dict(later.dropped_by_reason) == {AFTER_FINISHED: 1}


def test_a_record_older_than_the_log_and_not_in_it_is_refused_and_named(
    sqlite_url: str,
) -> None:
    imported(sqlite_url, [FIRST, SECOND], Run(1, 2))

    whole = imported(sqlite_url, [FIRST, SECOND], Run(0, 2))

    assert str(whole.trouble).startswith(
        "out of order: metadata partition 7, offset 0 is not in the log"
    )
    assert whole.repeated == 1


def test_of_a_log_whose_beginning_was_forgotten_older_records_are_taken_to_be_there(
    sqlite_url: str,
) -> None:
    imported(sqlite_url, [FIRST, SECOND], Run(0, 1))
    asyncio.run(forgotten(sqlite_url))

    later = imported(sqlite_url, [FIRST, SECOND], Run(0, 2))

    assert (later.trouble, later.repeated, later.imported) == (None, 1, 1)


async def forgotten(url: str) -> None:
    connector = load_connector({URL_SETTING: url})
    backend = await connector.backend(read_only=False)
    try:
        partition = await StoredPartition.resumed(backend, TIP, CLUSTER)
        await forget(partition.reader(), segments_too=True)
    finally:
        await backend.close()


def test_a_run_from_another_metadata_partition_is_refused_as_in_one_run(
    sqlite_url: str,
) -> None:
    imported(sqlite_url, [FIRST, SECOND], Run(0, 1))

    elsewhere = imported(sqlite_url, [FIRST, SECOND], Run(1, 2), metadata_partition=8)

    assert "metadata partitions 7 and 8" in str(elsewhere.trouble)
    assert len(taken(sqlite_url)) == 1
