"""Holds are placed and released by the coordinator's log."""

import json
from pathlib import Path

import pytest

from tests.models.actors.coordinated import Coordinated
from tierledger.actors.coordinator.events import (
    COORDINATOR_CODEC,
    CoordinatorBody,
    HoldPlaced,
    HoldReleased,
    Owner,
    OwnerChanged,
)
from tierledger.actors.coordinator.holding import (
    PlaceHold,
    ReleaseHold,
    deletions,
)
from tierledger.actors.coordinator.messages import ChangeHold, HandOver
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.report import coordinator_report
from tierledger.actors.holds import HOLDS_MAX, Hold
from tierledger.events.errors import InvalidArgument, RejectedError

GOLDEN = Path(__file__).parents[2] / "golden"
NOW_MS = 1_000
HOLD = Hold("audit", "orders-*", reason="the audit reads it", by="somebody")
RELEASE = ReleaseHold("audit", "somebody else", "it is over")


def owned(owner: Owner = Owner.TIERLEDGER) -> Coordinated:
    one = Coordinated()
    one.apply([OwnerChanged(owner)])
    return one


def decided(one: Coordinated, wish: PlaceHold | ReleaseHold) -> list[CoordinatorBody]:
    return ChangeHold(wish, NOW_MS).decide(one.state)


def test_a_hold_is_in_the_log_with_who_and_why_until_it_is_released() -> None:
    one = owned()
    one.apply(decided(one, PlaceHold(HOLD)))

    assert decided(one, PlaceHold(HOLD)) == [], "a repeat"
    assert deletions(one.state) == (one.state.next_position - 1, "", (HOLD,))
    (shown,) = coordinator_report(one.state, {}, NOW_MS)["holds"]
    assert (shown["name"], shown["by"], shown["since_ms"]) == ("audit", "somebody", 5)

    one.apply(decided(one, RELEASE))

    assert deletions(one.state) == (one.state.next_position - 1, "", ())
    assert [*map(type, (event.body for event in one.events))][-2:] == [HoldPlaced, HoldReleased]
    with pytest.raises(RejectedError, match="there is no hold audit: no hold is placed"):
        decided(one, RELEASE)


def test_a_draft_knows_the_holds_of_the_state() -> None:
    one = owned()
    one.apply(decided(one, PlaceHold(HOLD)))

    assert one.state.draft().holds == one.state.holds


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (HOLD._replace(reason="another"), "hold audit: somebody has placed another one"),
        (Hold("late", until_ms=NOW_MS, reason="r"), "expected an end after now"),
        (Hold("new", "__consumer_offsets", reason="r"), "internal to Kafka and never tiered"),
        (Hold("new", "", reason="r"), "expected a name or a pattern"),
        (Hold("a/b", reason="r"), "expected letters, digits and any of"),
        (Hold("new", reason=" "), "expected why nothing may be deleted"),
        (
            Hold("new", reason="r", first_offset=2, last_offset=1),
            "lower one first, got 2 and 1",
        ),
        (
            Hold("new", reason="r", after_ms=9, before_ms=8),
            "after and before: expected the lower one first, got 1970",
        ),
    ],
)
def test_a_hold_that_cannot_be_is_refused(given: Hold, message: str) -> None:
    one = owned()
    one.apply(decided(one, PlaceHold(HOLD)))

    with pytest.raises((RejectedError, InvalidArgument), match=message):
        decided(one, PlaceHold(given))


def test_there_are_not_more_holds_than_hosts_can_heed() -> None:
    one = owned()
    for number in range(HOLDS_MAX):
        one.apply(decided(one, PlaceHold(HOLD._replace(name=f"hold-{number}"))))

    with pytest.raises(RejectedError, match="there are 200 holds"):
        decided(one, PlaceHold(HOLD))


def test_kafkas_own_manager_gets_no_metadata_that_is_under_a_hold() -> None:
    with pytest.raises(RejectedError, match="kafka owns the remote log metadata"):
        decided(owned(Owner.KAFKA), PlaceHold(HOLD))
    one = owned()
    one.apply(decided(one, PlaceHold(HOLD)))
    leaving = HandOver(Handover(Owner.MOVING, Owner.TIERLEDGER, Owner.KAFKA))
    with pytest.raises(RejectedError, match="under a hold; release first: audit"):
        leaving.decide(one.state)

    one.apply(decided(one, RELEASE))

    assert leaving.decide(one.state)


def test_the_events_of_holds_are_stored_as_ever() -> None:
    """What a release has written is read by all later ones."""
    one = owned()
    whole = Hold("a", "o*", bytes(16), 1, 2, 3, 4, 5, 6, "why", "who", 7, 2)
    one.apply([HoldPlaced(*whole)])
    one.apply([HoldReleased("a", "who", "over")])

    stored = [COORDINATOR_CODEC.encode(event, bytes(32)).hex() for event in one.events[-2:]]
    assert stored == golden("coordinator-holds-v2")


def test_a_hold_from_before_there_were_terms_has_none() -> None:
    stored = bytes.fromhex(golden("coordinator-holds-v1")[0])

    (event,), _ = COORDINATOR_CODEC.decode([stored], 1, bytes(32))
    body: object = event.body
    assert body == Hold("a", "o*", bytes(16), 1, 2, 3, 4, 5, 6, "why", "who")


def golden(name: str) -> list[str]:
    found = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return [event["stored"] for event in found["events"]]
