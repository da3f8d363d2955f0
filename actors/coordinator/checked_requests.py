"""Checks of clients' requests to the coordinator, before anything of them is appended.

Clients send plain tuples. What passes here can be encoded, placed and sent to a host. The same
checks set aside items that an older release let into a log.
"""

from __future__ import annotations

from typing import Any, get_args

from tierledger.actors.coordinator.events import (
    ITEMS_MAX,
    Announcement,
    BrokerId,
    Item,
    LeaderItem,
)
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import UUID_BYTES, Uuid
from tierledger.events.typed_fields import checked, exactly, shown

FIELDS = ("topic_id", "partition", "topic", "leader_epoch", "recorded_time_ms")
"""Fields of an item of an announcement; only leaders have the last two."""

_fits_leader, _fits, _is_broker = exactly(LeaderItem), exactly(Item), exactly(BrokerId)


def checked_broker(broker_id: object) -> int:
    """`broker_id`, if it is a broker's id.

    Raises:
        InvalidArgument: It is no integer from 0 to 2147483647.
    """
    broker: Any = broker_id
    known: int = broker if _is_broker(broker) else checked(BrokerId, broker, "broker_id")
    return known


def checked_announcement(given: Announcement) -> Announcement:
    """`given`, if the coordinator can carry out every item of it.

    Raises:
        InvalidArgument: It has too many items, or one that cannot be carried out; the message
            names that.
    """
    if (count := sum(map(len, given[3:6]))) > ITEMS_MAX:
        raise InvalidArgument(
            f"expected an announcement of at most {ITEMS_MAX} partitions, got {count}: "
            "announce in pieces"
        )
    for led in given.leaders:
        check_item(led, leads=True)
    for item in (*given.followers, *given.stopped):
        check_item(item, leads=False)
    known: Announcement = checked(Announcement, given, "announcement")
    return known


def check_item(item: object, *, leads: bool) -> None:
    """Refuse an item of an announcement that no host could carry out.

    Raises:
        InvalidArgument: `item` is such an item; the message names it.
    """
    if (_fits_leader if leads else _fits)(item):
        return
    kinds = dict(zip(FIELDS, get_args(LeaderItem if leads else Item), strict=False))
    if not isinstance(item, tuple) or len(item) != len(kinds):
        raise InvalidArgument(f"expected {len(kinds)} fields of a partition, got {shown(item)}")
    for (name, kind), value in zip(kinds.items(), item, strict=True):
        try:
            taken = checked(kind, value, name)
        except InvalidArgument as error:
            raise InvalidArgument(f"partition {item_name(item)}: {error}") from None
        if type(taken) is not type(value):
            raise InvalidArgument(
                f"partition {item_name(item)}: expected {taken!r} for {name} as a plain "
                f"{type(taken).__name__}, got a {type(value).__name__}"
            )


def item_name(item: object) -> str:
    """The partition of an item, for messages, whatever is wrong with the item."""
    if not isinstance(item, tuple | list) or len(item) < 2:
        return shown(item)
    is_id = isinstance(item[0], bytes) and len(item[0]) == UUID_BYTES
    return f"{Uuid(item[0]) if is_id else shown(item[0])}-{shown(item[1])}"
