"""What nodes did and knew, apart from what callers saw: the other half of a run's history.

A world's driver notes these as often as it can afford, and each is judged. Times are
nanoseconds on the history's clock. A *life* is one actor from its start to its end; an actor
that loads the partition again is another life, and needs another name.
"""

from __future__ import annotations

from typing import NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import Claim

COLD = "cold"
"""Folded by a process that is no replica: from the whole log, or a checkpoint and its tail."""

CHECKPOINT = "checkpoint"
"""Restored from a checkpoint alone."""


class StateSeen(NamedTuple):
    """The state of a node at one position."""

    time: int
    node: str
    role: str
    """`LEADER`, `FOLLOWER`, `COLD` or `CHECKPOINT`."""
    key: PartitionKey
    position: int
    """The last position that is applied; -1 before the first event."""
    digest: bytes
    """`PartitionState.digest()`."""


class Applied(NamedTuple):
    """A life applied a batch of events; an empty one tells where the life enters the log."""

    time: int
    node_life: str
    key: PartitionKey
    first_position: int
    last_position: int
    """The end of the batch; `first_position - 1` if it is empty."""
    chain_hash: bytes
    """The hash of the event at `last_position`, as the life computed it."""


class Led(NamedTuple):
    """A leader learned that its own batch is durable, and so answers for it."""

    time: int
    node_life: str
    key: PartitionKey
    session: int
    """The number of the session that the leader believes to serve."""
    position: int
    """The position of the batch's last event."""


class Ready(NamedTuple):
    """A replica reported to a broker that it is ready for the broker's announcement."""

    time: int
    node_life: str
    role: str
    key: PartitionKey
    claim: Claim
    position: int
    """The last position that the replica had applied."""


class Healed(NamedTuple):
    """From `since` on nothing fails any more; by `until` the partition must be well again."""

    since: int
    until: int
    broker_id: int
    """The broker that was elected last: it must be able to write, others need not."""
