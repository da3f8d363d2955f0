"""A digest of a partition's state that the simulator makes itself, field by field.

The service's digest shows that two states agree only if `PartitionState.digest` covers all
that matters and keeps it up to date, which a simulator must not take for granted. This digest
covers all that a state holds, indexes included, but not its layout in pages.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgpack

from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.epoch_tables import EpochTables

FIELDS = (
    "position",
    "chain hash",
    "log time",
    "session",
    "brokers heard",
    "requests",
    "partition's deletion",
    "imported offsets",
    "dropped records",
    "disputes",
    "segments",
    "leader epochs",
    "stray epochs",
    "tombstones",
    "ids of tombstones",
    "kept segments",
    "counts",
)
"""The fields that a digest covers, in its order."""

SHARE = 4
"""Bytes of a digest for each field: its checksum."""

_pack = msgpack.Packer(autoreset=True).pack
"""As `msgpack.packb`, which makes a packer each time."""


def state_digest(state: PartitionState) -> bytes:
    """A digest that agrees iff the states do: `SHARE` bytes for each of `FIELDS`."""
    return b"".join([crc32(_pack(field)).to_bytes(SHARE, "big") for field in _plain(state)])


def fields_that_differ(one: bytes, other: bytes) -> list[str]:
    """The names of the fields in which the states of two digests differ."""
    if len(one) != len(other) or len(one) != SHARE * len(FIELDS):
        return ["digests"]  # Not made by `state_digest`.
    return [
        name
        for at, name in enumerate(FIELDS)
        if one[at * SHARE : (at + 1) * SHARE] != other[at * SHARE : (at + 1) * SHARE]
    ]


def _plain(state: PartitionState) -> list[Any]:
    """All that a state holds, as plain data, in the order of `FIELDS`."""
    tombstones = state.tombstones
    return [
        state.next_position,
        state.chain_hash,
        state.log_time_ms,
        state.session,
        sorted(state.heard.items()),
        [(broker, list(kept.items())) for broker, kept in sorted(state.requests.items())],
        state.delete,
        sorted(state.imported.items()),
        sorted(state.dropped.items()),
        (state.disputes, state.dispute_run),
        sorted(state.rows),
        [(epoch, _tables(tables)) for epoch, tables in sorted(state.epochs.items())],
        sorted(state.strays.items()),
        list(tombstones.by_position.items()),
        sorted(at for _, at in tombstones._positions),
        (
            list(state.kept.by_position.items()),
            sorted(at for _, at in state.kept._positions),
            [at for at, _ in state.kept.unreleased],
            state.kept.bytes,
        ),
        (list(state.count_by_state), list(state.bytes_by_state)),
    ]


def _tables(tables: EpochTables) -> list[Any]:
    return [
        tables.highest,
        tables.size,
        [list(table.items()) for _, table in tables.tables()],
    ]
