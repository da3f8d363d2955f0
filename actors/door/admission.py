"""Who comes in: the one place where a connection is accepted, and who it is becomes known."""

from __future__ import annotations

from typing import NamedTuple

from tierledger.actors.coordinator_door import checked_broker
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import VERSION_MAX, VERSION_MIN
from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import Text, checked, shown


class Guest(NamedTuple):
    """A client that was let in."""

    peer: str
    """Where it calls from, as gRPC names it."""
    broker_id: int | None
    """For whom it speaks, as it says itself."""
    software: str
    version: int
    """The protocol version that is spoken."""


def admitted(greeting: pb.ClientGreeting, peer: str, cluster_id: str) -> Guest:
    """The client that says `greeting`, to a host of that cluster.

    Raises:
        InvalidArgument: It is after another cluster, speaks no version that is spoken here, or
            a field is not what it should be.
    """
    software: str = checked(Text, greeting.software, "greeting.software")
    version = min(greeting.version_max, VERSION_MAX)
    if not 0 < greeting.version_min <= version or version < VERSION_MIN:
        raise InvalidArgument(
            f"this host speaks the protocol versions {VERSION_MIN} to {VERSION_MAX}, the "
            f"client {greeting.version_min} to {greeting.version_max}: update the older one"
        )
    if greeting.cluster_id != cluster_id:
        raise InvalidArgument(
            f"this host serves cluster {cluster_id!r}, not {shown(greeting.cluster_id)}"
        )
    broker_id = None
    if greeting.HasField("broker_id"):
        broker_id = checked_broker(greeting.broker_id)
    return Guest(peer, broker_id, software, version)
