"""Tables as files written by this process, in Spark's form but as one file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from tierledger.events.extras import naming_extras
from tierledger.pipeline.table_columns import RowChunk, Table

Write: TypeAlias = "Callable[[RowChunk], None]"

COMPLETE = "_SUCCESS"
"""The file that marks a complete folder, as Spark's do."""


@contextmanager
def writing(table: Table, folder: Path, kind: str) -> Iterator[Write]:
    """A function that writes chunks of `table` into a folder that does not exist yet.

    Args:
        table: The table of the chunks.
        folder: It is complete, with a file `_SUCCESS`, when the block ends without an error.
        kind: One of `files.FORMATS`; in `csv`, maps and lists are JSON, bytes base64.

    Raises:
        InvalidArgument: `kind` is Parquet, and pyarrow is not installed.
    """
    opened = _WRITERS[kind]
    with naming_extras():
        writer = opened(table, folder)
        folder.mkdir()
        with writer as write:
            yield write
    (folder / COMPLETE).touch()


@contextmanager
def _parquet(table: Table, folder: Path) -> Iterator[Write]:
    # Imported here: the other formats do not need pyarrow.
    import pyarrow.parquet as pq  # noqa: PLC0415

    from tierledger.pipeline.tables.arrow import record_batch, schema_of  # noqa: PLC0415

    schema = schema_of(table)
    with pq.ParquetWriter(folder / "part-00000.snappy.parquet", schema) as writer:
        yield lambda chunk: writer.write_batch(record_batch(chunk, schema))


@contextmanager
def _csv(table: Table, folder: Path) -> Iterator[Write]:
    names = [one.name for one in (*table.identity, *table.columns)]
    with (folder / "part-00000.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(names) + "\n")

        def write(chunk: RowChunk) -> None:
            for row in chunk.rows():
                file.write(",".join(map(_field, row.values())) + "\n")

        yield write


@contextmanager
def _json(_: Table, folder: Path) -> Iterator[Write]:
    with (folder / "part-00000.json").open("w", encoding="utf-8", newline="") as file:

        def write(chunk: RowChunk) -> None:
            for row in chunk.rows():
                file.write(_document(row) + "\n")

        yield write


_WRITERS: dict[str, Callable[[Table, Path], AbstractContextManager[Write]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
}


# A value is of whatever type its column is.
def _field(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        text = _base64(value)
    else:
        text = _document(value) if isinstance(value, dict | list) else str(value)
    if not text or any(one in text for one in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


# The standard library makes floats of decimals.
_document_bytes = msgspec.json.Encoder(decimal_format="number").encode


def _document(value: object) -> str:
    return _document_bytes(value).decode()


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")
