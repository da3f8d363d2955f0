"""What nodes did and knew, apart from what callers saw: the other half of a run's history.

A world's driver writes these down, as often as it can afford; every one is judged. Times
are nanoseconds on the history's clock. A *life* is one actor from its start to its end: what
loads the partition again is another life, and needs another name.
"""

from __future__ import annotations

from typing import NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.events.commands import Claim

COLD = "cold"
"""Folded by a process that is nobody's replica: the whole log, or checkpoint and tail."""

CHECKPOINT = "checkpoint"
"""Restored from a checkpoint alone."""


class StateSeen(NamedTuple):
    """Somebody's state at one position."""

    time: int
    node: str
    role: str
    """`LEADER`, `FOLLOWER`, `COLD` or `CHECKPOINT`."""
    key: PartitionKey
    position: int
    """The last that is applied; -1 before the first event."""
    digest: bytes
    """`PartitionState.digest()`."""


class Applied(NamedTuple):
    """A life took events in, in this order; one of no events says where it entered the log."""

    time: int
    node_life: str
    key: PartitionKey
    first_position: int
    last_position: int
    """The end of a batch; `first_position - 1` if no events were taken in."""
    chain_hash: bytes
    """Of the event at `last_position`, as that life computed it."""


class Led(NamedTuple):
    """A leader learned that a batch which it wrote itself is durable, and answers for it."""

    time: int
    node_life: str
    key: PartitionKey
    session: int
    """Number of the session that it believes to serve."""
    position: int
    """Of the batch's last event."""


class Ready(NamedTuple):
    """A replica told a broker that it is ready for what the broker had announced."""

    time: int
    node_life: str
    role: str
    key: PartitionKey
    claim: Claim
    position: int
    """The last that the replica had applied."""


class Healed(NamedTuple):
    """From `since` on nothing fails any more; by `until` a partition has to be well again."""

    since: int
    until: int
    broker_id: int
    """Whom the controller elected last: it may write, nobody else need be able to."""
