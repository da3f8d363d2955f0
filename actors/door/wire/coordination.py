"""What clients say to the coordinator and hear from it, as messages, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.coordinator.door import checked_announcement, checked_broker
from tierledger.actors.coordinator.events import Announcement, Owner, Registered, Route
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.wire.segments import (
    claim_message,
    claim_of,
    key_message,
)
from tierledger.events.errors import InvalidArgument
from tierledger.events.typed_fields import Count, RequestId, checked, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierledger.actors.calls import PartitionKey
    from tierledger.actors.coordinator.events import Item


class RegisterCall(NamedTuple):
    """A client begins to speak for a broker; see `CoordinatorHandle.register`."""

    broker_id: int
    request: RequestId
    after: Count
    is_plugin: bool = False


def register_of(message: pb.Register) -> RegisterCall:
    """The registration in a message.

    Raises:
        InvalidArgument: A field is not what it should be.
    """
    call: RegisterCall = checked(
        RegisterCall,
        RegisterCall(
            checked_broker(message.broker_id), message.request, message.after, message.is_plugin
        ),
        "register",
    )
    return call


def owner_of(text: str) -> Owner:
    """The owner of that name.

    Raises:
        InvalidArgument: There is none.
    """
    try:
        return Owner(text)
    except ValueError:
        raise InvalidArgument(
            f"expected {' or '.join(Owner)} for an owner, got {shown(text)}"
        ) from None


def announce_message(announcement: Announcement) -> pb.Announce:
    return pb.Announce(
        broker_id=announcement.broker_id,
        incarnation=announcement.incarnation,
        number=announcement.number,
        leaders=[
            pb.LedPartition(
                partition=_item_message(item[:3]),
                leader_epoch=item[3],
                recorded_time_ms=item[4],
            )
            for item in announcement.leaders
        ],
        followers=map(_item_message, announcement.followers),
        stopped=map(_item_message, announcement.stopped),
        import_cluster=announcement.import_cluster,
    )


def announcement_of(message: pb.Announce) -> Announcement:
    """The announcement in a message.

    Raises:
        InvalidArgument: An item cannot be carried out; the message names it.
    """
    leaders = tuple(
        (
            *_item(one.partition),
            one.leader_epoch if one.HasField("leader_epoch") else None,
            one.recorded_time_ms if one.HasField("recorded_time_ms") else None,
        )
        for one in message.leaders
    )
    return checked_announcement(
        Announcement(
            message.broker_id,
            message.incarnation,
            message.number,
            leaders,
            tuple(map(_item, message.followers)),
            tuple(map(_item, message.stopped)),
            message.import_cluster if message.HasField("import_cluster") else None,
        )
    )


def _item_message(item: Item) -> pb.Partition:
    return pb.Partition(topic_id=item[0], partition=item[1], topic=item[2])


def _item(message: pb.Partition) -> Item:
    return message.topic_id, message.partition, message.topic


def registered_message(registered: Registered) -> pb.Registered:
    return pb.Registered(incarnation=registered.incarnation, is_given=registered.is_given)


def registered_of(message: pb.Registered) -> Registered:
    return Registered(message.incarnation, message.is_given)


def host_message(address: str, doors: Mapping[str, str]) -> pb.Host:
    return pb.Host(address=address, door=doors.get(address, ""))


def route_message(route: Route, doors: Mapping[str, str]) -> pb.Route:
    """A route, with where its hosts listen as `doors` says by host address."""
    leader, follower = route.leader_host, route.follower_host
    return pb.Route(
        known=route.known,
        leader=None if leader is None else host_message(leader, doors),
        follower=None if follower is None else host_message(follower, doors),
        leader_claim=None if route.leader is None else claim_message(route.leader),
        follower_claims=map(claim_message, route.followers),
        topic=route.topic,
    )


def route_of(message: pb.Route) -> Route:
    return Route(
        message.known,
        message.leader.address if message.HasField("leader") else None,
        message.follower.address if message.HasField("follower") else None,
        claim_of(message.leader_claim) if message.HasField("leader_claim") else None,
        message.topic,
        tuple(map(claim_of, message.follower_claims)),
    )


def routes_asked(keys: Sequence[PartitionKey]) -> pb.RouteQuestion:
    return pb.RouteQuestion(partitions=map(key_message, keys))
