"""Folds logs one after another into the rows of a table.

A Spark task does this with its logs, and the local engine with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeAlias

from tierledger.events.as_of import AsOf
from tierledger.events.errors import CorruptLog, DataError
from tierledger.events.identifiers import TopicIdPartition
from tierledger.pipeline.digests import Digest
from tierledger.pipeline.fold import LogFold, PlannedLog
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.table_columns import RowChunk, Table
from tierledger.pipeline.worker import page_loop, without_cycles
from tierledger.storage.catalog import Catalog
from tierledger.storage.partition.event_log import BATCHES_PER_READ, StoredBatch
from tierledger.storage.partition.loading import LoadedPartition
from tierledger.storage.partition.reader import PartitionReader

Report: TypeAlias = "Callable[[list[DamagedLog]], None]"


class DamagedLog(NamedTuple):
    """A log that was left out, and the position from which it cannot be read."""

    topic: str
    topic_id: str
    partition: int
    position: int
    message: str

    @property
    def name(self) -> str:
        """The partition, as errors name it."""
        return f"{self.topic_id}:{self.topic}-{self.partition}"


class FoldTask:
    """Folds logs one after another into the rows of a table; for either engine."""

    def __init__(
        self, store: JobStore, table: Table, as_of: AsOf, report: Report | None
    ) -> None:
        """Damaged logs go to `report`; without `report`, the first one ends the job."""
        self._store = store
        self._table = table
        self._as_of = as_of
        self._report = report

    def run(
        self, logs: Iterable[PlannedLog], digest: Digest | None = None
    ) -> Iterator[RowChunk]:
        """The rows of `logs`, chunk by chunk. `digest` takes them, too.

        Raises:
            DataError: A log is damaged, and there is no `report`.
            StorageUnavailable: The store cannot be reached.
            StoreRefused: The URL does not lead to a store any more.
        """
        with ExitStack() as stack:
            stack.enter_context(without_cycles())
            run = stack.enter_context(page_loop()).run_until_complete
            opened = self._store.opened()
            catalog = run(opened.__aenter__())
            stack.callback(lambda: run(opened.__aexit__(None, None, None)))
            for log in logs:
                for chunk in self._rows_of(_Pages(run, catalog, log), catalog.cluster_id):
                    if digest is not None:
                        for row in chunk.rows():
                            digest.take(row)
                    yield chunk

    def _rows_of(self, pages: _Pages, cluster: str) -> Iterator[RowChunk]:
        table, rows, log = self._table, self._table.make(), pages.log
        fold: LogFold | None = None
        try:
            fold = LogFold(pages.start().state, pages.reader.serde, self._as_of, rows.watch)
            for _ in fold.run(pages):
                yield from table.chunks(_identity(cluster, fold.topic, log), rows.taken())
        except DataError as error:
            topic = fold.topic if fold is not None else ""
            identity = _identity(cluster, topic or pages.topic_by_checkpoint(), log)
            found = DamagedLog(
                *identity[1:], 0 if fold is None else fold.state.next_position, str(error)
            )
            if self._report is None:
                raise type(error)(f"{found.name}: {error}") from error
            self._report([found])
            left = [*rows.taken(), *rows.damaged(found.position, found.message)]
            yield from table.chunks(identity, left)
            return
        if fold.events:
            yield from table.chunks(_identity(cluster, fold.topic, log), rows.rows(fold.state))


def _identity(cluster: str, topic: str, log: PlannedLog) -> tuple[str, str, str, int]:
    return cluster, topic, str(log.topic_id), log.partition


class _Pages:
    """The batches of one log up to its planned end, page by page."""

    def __init__(self, run: Callable[..., Any], catalog: Catalog, log: PlannedLog) -> None:
        self.log = log
        self.reader: PartitionReader = catalog.reader(
            TopicIdPartition(log.topic_id, log.partition, "")
        )
        self._run = run
        self._next = log.first_batch

    def start(self) -> LoadedPartition:
        """The state before the first page."""
        loaded: LoadedPartition = self._run(self.reader.start())
        self._next = loaded.next_batch
        return loaded

    def topic_by_checkpoint(self) -> str:
        """The topic's name by the checkpoint, for a log with a damaged start; "" if unknown."""
        try:
            found = self._run(self.reader.checkpoints.read_partition())
        except DataError:
            return ""
        return "" if found is None else found[1].topic

    def __iter__(self) -> Iterator[list[StoredBatch]]:
        while (left := self.log.end_batch - self._next) > 0:
            reading = self.reader.log.read(self._next, min(left, BATCHES_PER_READ))
            page: list[StoredBatch] = self._run(reading)
            if not page:
                raise CorruptLog(
                    f"batch {self._next} is missing: the log ends there, and had "
                    f"{self.log.end_batch} batches"
                )
            self._next = page[-1].number + 1
            yield page
