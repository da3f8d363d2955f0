"""What travels in a partition's feed; `docs/feed.md` is the protocol.

A row is the bytes that the state holds (`events.segment_rows`), with its placement per leader
epoch. A row that comes replaces the one of its id, and its strays: it has those that come in
the same frame, and no others.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import Claim
from tierledger.events.typed_fields import Count, Id, Int32, Int64, Sized, Text, Within

FRAME_ROWS = 1000
"""Rows, ids and epochs of one frame, of each as many."""

FRAME_BYTES = 256 * 1024
"""Bytes of rows in one frame, up to the one row that exceeds it: a row has 1 MiB at most."""

Hash: TypeAlias = Annotated[bytes, Sized(1, 64)]
Checksum: TypeAlias = Annotated[bytes, Sized(16, 16)]
DeleteState: TypeAlias = Annotated[int, Within(0, 2)] | None
"""How far the partition's own deletion has come; 2 (finished) empties the replica."""


class Subscription(NamedTuple):
    """What a replica asks for: to be fed from where it is, and never from before."""

    key: PartitionKey
    role: Text
    """Whose state: the leader's or a follower's."""
    position: Int64 = -1
    """The last batch it has applied; -1 if it holds no rows."""
    chain_hash: Hash | None = None
    """Of the log up to `position`, as it was told."""
    floor: Int64 = -1
    """The highest position that it ever answered at, whatever it holds now."""
    claim: Claim | None = None
    """The announcement of its broker, for which it wants to hear that it is ready."""
    without_rows: bool = False
    """It remembers `position`, and holds no rows: a snapshot is wanted."""
    head_only: bool = False
    """No rows are wanted, only `Head`."""


class EpochNumbers(NamedTuple):
    """What of a leader epoch's answers does not follow from rows."""

    epoch: Int32
    highest: Int64 | None
    size: Int64


class Strays(NamedTuple):
    """A segment that `epochs` list besides those that its row names."""

    segment_id: Id
    epochs: tuple[Int32, ...]


class Contents(NamedTuple):
    """Rows and numbers of one frame; each replaces what was there."""

    rows: tuple[bytes, ...] = ()
    gone: tuple[Id, ...] = ()
    """Ids whose rows are to be removed."""
    strays: tuple[Strays, ...] = ()
    epochs: tuple[EpochNumbers, ...] = ()


class SnapshotBegun(NamedTuple):
    """Forget all rows: those of the state at `position` follow, in `Slice` frames."""

    position: Int64
    chain_hash: Hash
    delete_state: DeleteState
    checksum: Checksum


class Slice(NamedTuple):
    """Part `number` of the snapshot at `position`. What a change brought since is newer."""

    position: Int64
    number: Count
    contents: Contents
    is_last: bool


class Change(NamedTuple):
    """Part `number` of one durable batch, whose predecessor ended at position `after`.

    It counts once the last part is there. The rest is of the state behind the batch.
    """

    after: Int64
    position: Count
    number: Count
    contents: Contents
    is_last: bool
    chain_hash: Hash
    delete_state: DeleteState
    checksum: Checksum


class Ready(NamedTuple):
    """Who has applied `position` has caught up with the head that `claim` was announced at."""

    claim: Claim
    position: Int64


class Fenced(NamedTuple):
    """The log holds that `claim` leads no more."""

    claim: Claim


class OtherHistory(NamedTuple):
    """At `position` the log is another than the one that the replica was fed from."""

    position: Int64


class Head(NamedTuple):
    """Where the log's head is, as its leader knows it; for who reads the log itself."""

    position: Int64


Frame: TypeAlias = SnapshotBegun | Slice | Change | Ready | Fenced | OtherHistory
