"""How operators' holds are placed and released; see `actors.holds` for what they forbid.

While Kafka's own manager decides, a hold would bind nobody. So none is placed then, and the
metadata does not go to Kafka's manager while there are holds.

Pure: the coordinator's service says what time it is.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol

from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.coordinator.events import HoldPlaced, HoldReleased, Owner
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.coordinator.unowned import text_of
from tierledger.actors.holds import HOLDS_MAX, Deletions, Hold, HoldName, check_hold
from tierledger.events.errors import RejectedError
from tierledger.events.typed_fields import Text, time_text


class PlaceHold(NamedTuple):
    """An operator's request to hold segments. A repeat changes nothing."""

    hold: Hold

    def put_to(self, asked: PlacesHolds) -> Coroutine[Any, Any, list[PartitionKey]]:
        """The partitions for which it is not in force yet; for all others it is."""
        return asked.hold(self)


class ReleaseHold(NamedTuple):
    """An operator's request to release a hold."""

    name: HoldName
    by: Text
    reason: Text

    def put_to(self, asked: PlacesHolds) -> Coroutine[Any, Any, list[PartitionKey]]:
        """The partitions whose leaders may not know it yet."""
        return asked.hold(self)


class PlacesHolds(Protocol):
    """Places and releases holds."""

    async def hold(self, wish: PlaceHold | ReleaseHold) -> list[PartitionKey]: ...


def place(state: CoordinatorState, hold: Hold, now_ms: int) -> list[HoldPlaced]:
    """The event that places `hold`; none if it is placed already.

    Raises:
        RejectedError: Another hold has its name, there are too many, its time is over, or
            tierledger's leaders do not decide about deletions.
        InvalidArgument: Its fields do not fit each other.
    """
    check_hold(hold)
    owner = state.ownership.owner
    if owner not in {Owner.TIERLEDGER, Owner.NOBODY}:
        raise RejectedError(
            f"{owner} owns the remote log metadata, so its manager would delete in spite of a "
            "hold; expected tierledger to own it"
        )
    if (placed := state.holds.get(hold.name)) is not None:
        if placed.hold == hold:
            return []
        raise RejectedError(
            f"hold {hold.name}: {placed.hold.by} has placed another one of that name; release "
            "it first, or choose another name"
        )
    if hold.is_over(now_ms):
        raise RejectedError(
            f"hold {hold.name}: expected an end after now, {time_text(now_ms)}, such as +1h; "
            f"got {time_text(hold.until_ms or 0)}"
        )
    if len(state.holds) >= HOLDS_MAX:
        raise RejectedError(f"there are {HOLDS_MAX} holds, the most there may be: release one")
    return [HoldPlaced(*hold)]


def release(state: CoordinatorState, wish: ReleaseHold) -> list[HoldReleased]:
    """The event that releases a hold.

    Raises:
        RejectedError: There is no hold of that name.
    """
    if wish.name not in state.holds:
        known = ", ".join(sorted(state.holds))
        there = f"expected one of: {known}" if known else "no hold is placed"
        raise RejectedError(f"there is no hold {wish.name}: {there}")
    return [HoldReleased(*wish)]


def refuse_leaving(state: CoordinatorState, wish: Handover) -> None:
    """Refuse to give the metadata to Kafka's own manager while there are holds.

    Raises:
        RejectedError: There are; the message names them.
    """
    if state.holds and Owner.KAFKA in {wish.to, wish.heading}:
        raise RejectedError(
            "Kafka's own manager would delete what is under a hold; release first: "
            + ", ".join(sorted(state.holds))
        )


def deletions(state: CoordinatorState) -> Deletions:
    """What hosts have to know about deletions."""
    holds = sorted((one.hold for one in state.holds.values()), key=lambda one: one.breadth)
    return Deletions(state.held_at, text_of(state.held.values()), tuple(holds))


def led_under(state: CoordinatorState, hold: Hold, host: str | None) -> list[PartitionKey]:
    """The partitions that `hold` may be about and `host` leads; None: that nobody leads yet."""
    seats = state.unplaced if host is None else state.seats.get(host, {})
    return [
        key
        for key, role in seats
        if role == LEADER and hold.covers(key.named(state.partitions[key].topic))
    ]
