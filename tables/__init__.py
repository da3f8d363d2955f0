"""The public API for programs that read a store's tables: `import tierledger.tables`.

Needs the extra `sql`. It loads neither Ray nor Java, and no service has to run.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.events.errors import InvalidArgument
from tierledger.events.extras import naming_extras
from tierledger.pipeline.fold import point
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.folding.task import DamagedLog
from tierledger.pipeline.prices import Prices, read_prices
from tierledger.storage.connector import URL_SETTING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tierledger.pipeline.reading import StoredTables

__all__ = ["DamagedLog", "Prices", "read", "read_prices", "sql"]


def read(  # noqa: PLR0913 - Most have names.
    table: str,
    store: str,
    *,
    cluster: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    since: int | datetime | None = None,
    as_of: int | datetime | None = None,
    columns: str | None = None,
    prices: Prices | None = None,
    damaged: list[DamagedLog] | None = None,
) -> Any:  # noqa: ANN401 - Arrow has no types.
    """One table as a `pyarrow.Table`, which pandas, polars and DuckDB take.

    Rows are in the order of no particular log; within a log's, in the order of docs/tables.md.

    Args:
        table: `events`, `segments`, `trash`, `epochs`, `sizes`, `transitions` or `anomalies`;
            with `prices`, `costs` too.
        store: Where the store is, as `--store` takes it: `sqlite:FILE`, `postgresql://…`.
        cluster: The Kafka cluster's id; not needed if the store holds one cluster.
        topic: Only topics of that name, or the one with that id.
        partition: Only partitions of that number.
        since: Of `events` only those from that time, or from that position of each log, on;
            what is older is not read. No other table knows it.
        as_of: The table as it was at a time (UTC if it has no zone), or at a position if one
            partition is chosen; by default as it is now.
        columns: Where the store's column files are, as `--columns` takes it; by default a
            folder beside a SQLite file, if it is there.
        prices: What `costs` is made of, from `read_prices`.
        damaged: Takes the logs that do not verify, which are left out.

    Raises:
        InvalidArgument: There is no such table, pyarrow is missing, `as_of` is a position for
            several logs, `since` is for another table than `events`, the store holds several
            clusters and none was named, or the prices do not fit the store's topics.
        RemoteResourceNotFound: There is no such cluster, topic or partition.
        CorruptLog: A log does not verify, and there is no `damaged`.
        StorageUnavailable: The store cannot be reached.
        StoreRefused: The URL does not lead to a store.
    """

    def whole_table(stored: StoredTables) -> object:
        from tierledger.pipeline.reading import whole  # noqa: PLC0415

        return whole(stored.table(table, _report(damaged)))

    if since is not None and table != "events":
        raise InvalidArgument(f"since: expected the table events, got {table!r}")
    where = _Where(store, cluster, topic, partition, since, as_of, columns, prices)
    return _elsewhere(whole_table, where)


def sql(  # noqa: PLR0913 - As above.
    query: str,
    store: str,
    *,
    cluster: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    since: int | datetime | None = None,
    as_of: int | datetime | None = None,
    columns: str | None = None,
    prices: Prices | None = None,
    damaged: list[DamagedLog] | None = None,
) -> Any:  # noqa: ANN401 - As above.
    """What DuckDB answers to `query` over the tables, as a `pyarrow.Table`.

    The arguments and errors are those of `read`. Of several statements the last one's rows are
    returned; without rows, None. `InvalidArgument` is also for a query that DuckDB refuses.
    """
    running: list[Callable[[], None]] = []

    def last(stored: StoredTables) -> object:
        from tierledger.pipeline.sql import sql_over  # noqa: PLC0415

        found = None
        with sql_over(stored, _report(damaged)) as tables:
            running.append(tables.stop)
            for found in tables.arrow(query):  # noqa: B007 - The last one stays.
                pass
        return found

    where = _Where(store, cluster, topic, partition, since, as_of, columns, prices)
    return _elsewhere(last, where, running)


def _report(
    damaged: list[DamagedLog] | None,
) -> Callable[[list[DamagedLog]], None] | None:
    return None if damaged is None else damaged.extend


class _Where(NamedTuple):
    """The arguments that say what is read."""

    store: str
    cluster: str | None
    topic: str | None
    partition: int | None
    since: int | datetime | None
    as_of: int | datetime | None
    columns: str | None
    prices: Prices | None


def _elsewhere(
    work: Callable[[StoredTables], object],
    where: _Where,
    running: Sequence[Callable[[], None]] = (),
) -> object:
    """Do `work` in a thread of its own: a notebook's thread has a loop already.

    What is in `running` is called if the notebook is interrupted, until `work` has ended.
    """
    with naming_extras():
        from tierledger.pipeline.column_files.locate import COLUMNS_SETTING  # noqa: PLC0415
        from tierledger.pipeline.reading import StoredTables  # noqa: PLC0415

        config: dict[str, object] = {URL_SETTING: where.store}
        if where.columns is not None:
            config[COLUMNS_SETTING] = where.columns
        stored = StoredTables(
            JobStore.of(config, where.cluster),
            point(where.as_of),
            where.topic,
            where.partition,
            since=point(where.since),
            prices=where.prices,
        )
        with ThreadPoolExecutor(1, "tierledger-tables") as pool:
            doing = pool.submit(work, stored)
            try:
                return doing.result()
            except KeyboardInterrupt:
                from tierledger.pipeline.sql import end  # noqa: PLC0415

                end(doing, running)
                raise
