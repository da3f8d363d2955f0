"""A slot that closes its log: what it holds is no batch, so nobody reads or writes behind it.

In a coordinator's log it keeps every service from starting, also those of former releases.
"""

from __future__ import annotations

from tierledger.events.errors import CorruptCheckpoint, InvalidArgument
from tierledger.storage.serde import MetadataSerDe

KIND = "closed"

COPIED = "the ledger was copied to another store, and goes on there: "
"""With what the reason begins in a store whose ledger another one has taken over."""


def closed_slot(serde: MetadataSerDe, why: str, closer: bytes) -> bytes:
    """The value of a slot that closes its log; `closer` tells it from those of others."""
    return serde.serialize(KIND, [why, closer])


def why_closed(serde: MetadataSerDe, value: bytes) -> str | None:
    """Why the slot with `value` closes its log; None if it does not."""
    try:
        why, _ = serde.deserialize(KIND, value)
    except (CorruptCheckpoint, InvalidArgument, ValueError):
        return None
    return str(why)
