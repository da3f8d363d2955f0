"""Brokers as people read them: some ids are no broker's."""

from __future__ import annotations

from typing import Final

from tierledger.actors.no_brokers import IMPORTER, OBSERVER, REPLAY
from tierledger.cli.table import Cell

COMMAND: Final = -1
"""The id under which commands write, `jobs import` among them."""

_NAMES: Final = {
    COMMAND: "command",
    IMPORTER: "import",
    OBSERVER: "handover",
    REPLAY: "replay",
}


def broker_text(broker_id: int) -> str:
    """A broker in a sentence: "broker 2"."""
    return _NAMES.get(broker_id, f"broker {broker_id}")


def broker_cell(broker_id: int | None) -> object:
    """A broker in a table's column of brokers."""
    name = None if broker_id is None else _NAMES.get(broker_id)
    return broker_id if name is None else Cell(name, name, name, is_number=True)
