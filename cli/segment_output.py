"""Segments as commands print them; JSON has the names of recorded traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tierledger.cli.output import print_json, print_pairs, print_table, time_text
from tierledger.conformance.answers import recorded_segment
from tierledger.events.tables.segment_rows import EPOCHS, FINISHED_AT, NOT_FINISHED, unpack_row

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMNS = ("id", "state", "start", "end", "bytes", "epochs", "broker", "time", "txn index")


def plain_segment(row: bytes) -> dict[str, Any]:
    fields = unpack_row(row)
    epochs, finished = fields[EPOCHS], fields[FINISHED_AT]
    return {
        **recorded_segment(row),
        "leader_epochs": [list(one) for one in zip(epochs[::3], epochs[1::3], strict=True)],
        "finished_at_position": None if finished == NOT_FINISHED else finished,
    }


def print_segments(rows: Iterable[bytes], *, json: bool) -> None:
    if json:
        for row in rows:
            print_json(plain_segment(row))
    else:
        print_table(COLUMNS, [_cells(plain_segment(row)) for row in rows])


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
        plain["id"],
        plain["state"],
        plain["start_offset"],
        plain["end_offset"],
        plain["size"],
        _epochs_text(plain),
        plain["broker_id"],
        time_text(plain["event_timestamp_ms"]),
        "empty" if plain["txn_index_empty"] else "maybe",
    ]


def _epochs_text(plain: dict[str, Any]) -> str:
    return " ".join(f"{epoch}@{offset}" for epoch, offset in plain["leader_epochs"])
