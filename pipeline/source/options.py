"""The options of the `tierledger` format, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from tierledger.events.as_of import AsOf
from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.column_files.locate import COLUMNS_SETTING
from tierledger.pipeline.fold import point
from tierledger.pipeline.log_ranges import ROWS_PER_TASK
from tierledger.pipeline.source.bounds import ALL_EVENTS, EventBounds
from tierledger.storage.connector import CONNECTOR_SETTING, SERIALIZER_SETTING, URL_SETTING
from tierledger.storage.keys import INT32_MAX, INT64_MAX
from tierledger.storage.locate import parse_store_url

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OPTIONS = {
    "store": "where the store is, as `--store` takes it",
    "cluster": "the Kafka cluster's id; not needed if the store holds one cluster",
    "topic": "only topics of that name, or the one with that id",
    "partition": "only partitions of that number",
    "columns": "names of columns, with commas between; all but `stored` if absent",
    "column_files": "where its column files are; if absent, a folder beside a SQLite file",
    "since": "only events from that position of each log on, or from a time like "
    "2026-11-28T09:00:00Z",
    "as_of": "only events up to that position or time",
    "rows_per_task": f"about how many rows one task reads; {ROWS_PER_TASK} if absent",
    "max_rows_per_trigger": "in a stream: about how many rows one micro-batch has at most",
    CONNECTOR_SETTING: "the class of a connector, if it is not ours",
    SERIALIZER_SETTING: "the class of a serializer, if it is not ours",
}
"""Name and meaning of each option."""


ROWS_PER_BOUNDED_RANGE = 20_000
"""Ranges are short where many may be left out; each takes a read of the store."""

OF_TABLE = "option."
"""What stands before an option of a table in Spark's catalog."""

KEPT = "tierledger.options"
"""Where a table's schema has the table's options."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one read. Pickled into every task; the URL may hold a password."""

    config: Mapping[str, object] = field(repr=False)
    """Settings of the store, by their names in Kafka."""

    cluster: str | None = None
    topic: str | None = None
    partition: int | None = None
    columns: tuple[str, ...] = ()
    bounds: EventBounds = ALL_EVENTS
    rows_per_task: int = ROWS_PER_TASK
    max_rows_per_trigger: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """The checked form of `options`, whose names are in lower case.

        Raises:
            InvalidArgument: An option is unknown or invalid, or `store` is missing.
        """
        options = own_options(options)
        # `path` is refused, too: Spark adds it if `load` is called with an argument.
        unknown = sorted(set(options) - {name.lower() for name in OPTIONS})
        if unknown:
            raise InvalidArgument(f"expected options {', '.join(OPTIONS)}; got {unknown[0]!r}")
        store = options.get("store")
        if not store:
            raise InvalidArgument("expected the option store, for example sqlite:FILE")
        if parse_store_url(store).scheme == "memory":
            raise InvalidArgument("expected a store that other processes can read, got memory:")
        config: dict[str, object] = {URL_SETTING: store}
        for name in (CONNECTOR_SETTING, SERIALIZER_SETTING):
            if name in options:
                config[name] = options[name]
        if "column_files" in options:
            config[COLUMNS_SETTING] = options["column_files"]
        rows = number_of(options, "max_rows_per_trigger", 1, INT64_MAX)
        return cls(
            config,
            cluster=options.get("cluster"),
            topic=options.get("topic"),
            partition=number_of(options, "partition", 0, INT32_MAX),
            columns=_columns(options.get("columns")),
            bounds=EventBounds.between(point_of(options, "since"), point_of(options, "as_of")),
            rows_per_task=number_of(options, "rows_per_task", 1, INT64_MAX) or ROWS_PER_TASK,
            max_rows_per_trigger=rows,
        )

    @property
    def rows_per_range(self) -> int:
        """About how many rows a range of a log has, which is read whole or left out."""
        if self.bounds == ALL_EVENTS:
            return self.rows_per_task
        return min(self.rows_per_task, ROWS_PER_BOUNDED_RANGE)


def own_options(given: Mapping[str, str]) -> Mapping[str, str]:
    """The options that a user gave, of those that Spark passes; names keep their case.

    For CREATE TABLE Spark passes all that its catalog will know of the table, such as `owner`
    and properties, and the options with `option.` before their names, too.
    """
    return _of_table(given) or given


def keeping(schema: StructType, given: Mapping[str, str]) -> StructType:
    """`schema`; for CREATE TABLE with the table's options in it, which `kept` finds there.

    Spark asks for the schema when a table is made, and gives only that to the table's readers.
    """
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 - Only Spark asks.

    own = _of_table(given)
    if not own:
        return schema
    first, *others = schema.fields
    metadata = {KEPT: json.dumps(own)}
    kept_first = StructField(first.name, first.dataType, first.nullable, metadata)
    return StructType([kept_first, *others])


def kept(schema: StructType, given: Mapping[str, str]) -> dict[str, str]:
    """The options of a read: those of the table that `schema` is of, and those `given` now.

    Raises:
        InvalidArgument: There are none; to a table made with columns Spark passes none.
    """
    found = [one.metadata[KEPT] for one in schema.fields if KEPT in (one.metadata or {})]
    options = {**(json.loads(found[0]) if found else {}), **given}
    if "store" not in {name.lower() for name in options}:
        raise InvalidArgument(
            "expected the option store, for example sqlite:FILE; a table has it if its "
            "CREATE TABLE names no columns: these are chosen by SELECT"
        )
    return options


def _of_table(given: Mapping[str, str]) -> dict[str, str]:
    return {
        name[len(OF_TABLE) :]: value
        for name, value in given.items()
        if name.lower().startswith(OF_TABLE)
    }


def _columns(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InvalidArgument(f"expected names of columns with commas between, got {text!r}")
    return names


def point_of(options: Mapping[str, str], name: str) -> AsOf:
    """The position or time of option `name`; `NOW` if absent."""
    text = options.get(name)
    if text is None or text.isdigit():
        return point(None if text is None else int(text))
    try:
        return point(datetime.fromisoformat(text))
    except ValueError as error:
        raise InvalidArgument(
            f"expected a position or a time like 2026-11-28T09:00:00Z for {name}, got {text!r}"
        ) from error


def number_of(options: Mapping[str, str], name: str, lowest: int, highest: int) -> int | None:
    """The value of option `name`, which is a key of `options` in lower case; None if absent."""
    text = options.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
        raise InvalidArgument(f"expected a number from {lowest} up for {name}, got {text!r}")
    return int(text)
