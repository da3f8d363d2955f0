"""The frames of a partition's feed; `docs/feed.md` is the protocol.

A row is the bytes that the state holds (`events.segment_rows`), with its placement per leader
epoch. A new row replaces the one of the same id and that row's strays: it has only the strays
that come in the same frame.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import Claim
from tierledger.events.typed_fields import Count, Id, Int32, Int64, Text

FRAME_ROWS = 1000
"""Rows, ids and epochs in one frame, each at most so many."""

FRAME_BYTES = 256 * 1024
"""Bytes of rows in one frame, up to the one row that exceeds it: a row has 1 MiB at most."""

Hash: TypeAlias = Annotated[bytes, Meta(min_length=1, max_length=64)]
Checksum: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
DeleteState: TypeAlias = Annotated[int, Meta(ge=0, le=2)] | None
"""How far the partition's own deletion has come; 2 (finished) empties the replica."""


class Subscription(NamedTuple):
    """A replica's request to be fed from its position on, and never from before."""

    key: PartitionKey
    role: Text
    """The source: the leader or a follower."""
    position: Int64 = -1
    """The position that the replica has applied; -1 if it holds no rows."""
    chain_hash: Hash | None = None
    """The chain hash of the log up to `position`, as the source sent it."""
    floor: Int64 = -1
    """The highest position that the replica ever answered at, whatever it holds now."""
    claim: Claim | None = None
    """The claim of its broker, for which the source is to send `FeedReady`."""
    without_rows: bool = False
    """The replica remembers `position`, but holds no rows: it needs a snapshot."""
    head_only: bool = False
    """Only `Head` frames are wanted, no rows."""


class EpochNumbers(NamedTuple):
    """The numbers of a leader epoch that do not follow from rows."""

    epoch: Int32
    highest: Int64 | None
    size: Int64


class Strays(NamedTuple):
    """Epochs that list a segment although its row does not name them."""

    segment_id: Id
    epochs: tuple[Int32, ...]


class Contents(NamedTuple):
    """Rows and numbers of one frame; each replaces the earlier one of its id or epoch."""

    rows: tuple[bytes, ...] = ()
    gone: tuple[Id, ...] = ()
    """Ids whose rows are to be removed."""
    strays: tuple[Strays, ...] = ()
    epochs: tuple[EpochNumbers, ...] = ()


class SnapshotBegun(NamedTuple):
    """Drop all rows: those of the state at `position` follow in `Slice` frames."""

    position: Int64
    chain_hash: Hash
    delete_state: DeleteState
    checksum: Checksum


class Slice(NamedTuple):
    """Part `number` of the snapshot at `position`; rows of later changes are newer."""

    position: Int64
    number: Count
    contents: Contents
    is_last: bool


class Change(NamedTuple):
    """Part `number` of one durable batch, whose predecessor ended at position `after`.

    A replica applies the batch once the last part is there. Hash, delete state and checksum are
    those of the state after the batch.
    """

    after: Int64
    position: Count
    number: Count
    contents: Contents
    is_last: bool
    chain_hash: Hash
    delete_state: DeleteState
    checksum: Checksum


class FeedReady(NamedTuple):
    """A replica at `position` has all that the log held when `claim` was announced."""

    claim: Claim
    position: Int64


class FeedFenced(NamedTuple):
    """The log holds that `claim` no longer leads."""

    claim: Claim


class OtherHistory(NamedTuple):
    """At `position` the log differs from the one that the replica was fed from."""

    position: Int64


class Head(NamedTuple):
    """The head of the log as its leader knows it, for followers, which read the log itself."""

    position: Int64


Frame: TypeAlias = SnapshotBegun | Slice | Change | FeedReady | FeedFenced | OtherHistory
