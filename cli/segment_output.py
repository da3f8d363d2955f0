"""Segments as commands print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.cli.brokers import broker_cell
from tierledger.cli.output import print_json, print_pairs
from tierledger.cli.table import (
    Cell,
    PrintedTable,
    id_cell,
    print_table,
    size_cell,
    state_cell,
    time_cell,
)
from tierledger.events.tables.segment_rows import EPOCHS, FINISHED_AT, NOT_FINISHED, unpack_row
from tierledger.events.typed_fields import time_text

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMNS = ("id", "state", "start", "end", "bytes", "epochs", "broker", "time", "txn index")
SPARE = ("txn index", "broker", "time", "epochs")

BRIEF_STATES = {
    "COPY_SEGMENT_STARTED": "copying",
    "COPY_SEGMENT_FINISHED": "finished",
    "DELETE_SEGMENT_STARTED": "deleting",
}


def plain_segment(row: bytes) -> dict[str, Any]:
    from tierledger.conformance.answers import recorded_segment

    fields = unpack_row(row)
    epochs, finished = fields[EPOCHS], fields[FINISHED_AT]
    recorded = recorded_segment(row)
    return {
        **{"size_in_bytes" if name == "size" else name: recorded[name] for name in recorded},
        "leader_epochs": [list(one) for one in zip(epochs[::3], epochs[1::3], strict=True)],
        "finished_at_position": None if finished == NOT_FINISHED else finished,
    }


def print_segments(rows: Iterable[bytes], *, json: bool, wide: bool = False) -> None:
    if json:
        for row in rows:
            print_json(plain_segment(row))
    else:
        cells = [_cells(plain_segment(row)) for row in rows]
        print_table(PrintedTable(COLUMNS, cells, SPARE), wide=wide)


def print_segment(row: bytes, *, json: bool) -> None:
    plain = plain_segment(row)
    if json:
        print_json(plain)
        return
    shown = dict(plain)
    for name in ("max_timestamp_ms", "event_timestamp_ms"):
        shown[name] = f"{plain[name]} ({time_text(plain[name])})"
    shown["leader_epochs"] = _epochs_text(plain)
    print_pairs((name.replace("_", " "), value) for name, value in shown.items())


def _cells(plain: dict[str, Any]) -> list[object]:
    return [
        id_cell(plain["id"]),
        state_cell(plain["state"], BRIEF_STATES[plain["state"]]),
        plain["start_offset"],
        plain["end_offset"],
        size_cell(plain["size_in_bytes"]),
        _epochs_cell(plain),
        broker_cell(plain["broker_id"]),
        time_cell(plain["event_timestamp_ms"]),
        "empty" if plain["txn_index_empty"] else "maybe",
    ]


def _epochs_cell(plain: dict[str, Any]) -> Cell:
    text = _epochs_text(plain)
    first, *more = text.split()
    return Cell(text, text, f"{first} +{len(more)}" if more else first)


def _epochs_text(plain: dict[str, Any]) -> str:
    return " ".join(f"{epoch}@{offset}" for epoch, offset in plain["leader_epochs"])
