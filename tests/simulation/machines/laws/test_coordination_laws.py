"""Laws of who serves what, on a coordinator's log as somebody wrote it."""

from collections.abc import Callable
from typing import Any

import pytest

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator import events as ev
from tierledger.events.commands import NO_CLAIM, Claim, LeaderVerdict
from tierledger.simulation.machines.laws.coordination_laws import (
    AnnouncedTo,
    Coordinated,
    WantedReplica,
    against_kafka,
    beside,
    crowded,
    needless_fence,
    needless_loss,
    needless_move,
    passed_over,
    refusal_repeated,
    together,
    unannounced,
    unfollowed,
    unready,
)

TOPIC = bytes(15) + b"\x09"
MS = 1_000_000


def started(host: str) -> ev.HostStarted:
    return ev.HostStarted(host, 1, f"{host}/1", f"{host}/1")


def led_from(host: str, *partitions: int) -> ev.LeadersPlaced:
    return ev.LeadersPlaced(host, tuple((TOPIC, one, 1 + one) for one in partitions))


def followed_from(host: str, *partitions: int) -> ev.FollowersPlaced:
    return ev.FollowersPlaced(host, tuple((TOPIC, one) for one in partitions))


def log(*batches: tuple[Any, ...]) -> list[Coordinated]:
    """Each batch at a time of its own."""
    return [Coordinated(at * MS, body) for at, batch in enumerate(batches) for body in batch]


@pytest.mark.parametrize(
    ("epoch", "verdicts", "is_wrong"),
    [
        (7, [LeaderVerdict(1, 7)], False),
        (None, [LeaderVerdict(1, 7)], True),
        (6, [LeaderVerdict(1, 7)], True),
        (None, [None], False),
        (None, [LeaderVerdict(2, 7)], True),
        (7, [LeaderVerdict(2, 7)], True),
        (8, [LeaderVerdict(2, 7), LeaderVerdict(1, 8)], False),
    ],
)
def test_an_announcement_is_held_against_kafkas_answer(
    epoch: int | None, verdicts: list[LeaderVerdict | None], is_wrong: bool
) -> None:
    taken = ev.Announced(1, 1, 5, ((TOPIC, 0, "orders", epoch, None),), (), (), None)
    informed = {(Claim(1, 1, 5), PartitionKey(TOPIC, 0)): verdicts}

    found = list(against_kafka(log((taken,)), informed))

    assert [one.checker for one in found] == ["against_kafka"] * is_wrong


TWO_HOSTS = (started("host-0"), started("host-1"))


def test_a_follower_beside_its_leader_is_told_though_it_may_move_later() -> None:
    wrong = log(TWO_HOSTS, (led_from("host-0", 0),), (followed_from("host-0", 0),))

    (found,) = beside([*wrong, Coordinated(9 * MS, followed_from("host-1", 0))], 1, 64)

    assert found.checker == "together"
    assert found.message == "its follower was placed at 2.000 ms on host-0, which leads it"


@pytest.mark.parametrize(
    ("events", "room"),
    [
        (log(TWO_HOSTS, (led_from("host-0", 0),), (followed_from("host-1", 0),)), 64),
        (log((started("host-0"),), (led_from("host-0", 0), followed_from("host-0", 0))), 64),
        (log(TWO_HOSTS, (led_from("host-0", 0),), (followed_from("host-0", 0),)), 1),
        (
            log(TWO_HOSTS, (led_from("host-0", 0),), (ev.HostLost("host-0"),),
                (started("host-0"), followed_from("host-0", 0))),
            64,
        ),
    ],
    ids=["elsewhere", "no other host", "no room for all", "the leader is lost"],
)  # fmt: skip
def test_a_follower_that_has_no_choice_or_the_right_one_is_not(
    events: list[Coordinated], room: int
) -> None:
    assert not list(beside(events, 1, room))


def test_a_host_that_is_given_more_followers_than_it_has_room_for_is_crowded() -> None:
    events = log(TWO_HOSTS, (led_from("host-0", 0, 1),), (followed_from("host-0", 2),))

    (found,) = crowded(events, 2)

    assert "host-0 has room for 2, and was given a follower at 2.000 ms, which makes 3" in (
        found.message
    )
    assert not list(crowded(events, 3))


def test_a_leader_may_crowd_a_host_and_places_change_at_one_time() -> None:
    """Rule 3 of placing; and of what is decided at once the last counts."""
    over = log(TWO_HOSTS, (led_from("host-0", 0, 1, 2),))
    swapped = log(
        TWO_HOSTS,
        (led_from("host-0", 0), led_from("host-1", 1)),
        (followed_from("host-0", 1), followed_from("host-1", 0)),
        (followed_from("host-0", 0), followed_from("host-1", 1)),
    )

    assert not list(crowded(over, 2))
    assert not list(crowded(swapped, 2))


def test_a_broker_is_out_of_date_by_what_stands_in_the_log_alone() -> None:
    registered = [ev.ClientRegistered(1, 1, b"a"), ev.ClientRegistered(2, 2, b"b")]
    events = log((registered[0],), (registered[1],), (ev.ClientRegistered(1, 2, b"c"),))

    assert not list(needless_fence(events, [(2 * MS, 1, (1, 3))]))
    (early,) = needless_fence(events, [(1 * MS, 1, (1, 3))])
    (never,) = needless_fence(events, [(9 * MS, 1, (2, 1))])

    assert early.message.startswith("broker 1 was told at 1.000 ms that it is out of date")
    assert "Claim(broker_id=1, incarnation=1, announcement=3)" in early.message
    assert never.checker == "needless_loss"


def announced(broker_id: int, number: int, *, leads: bool) -> ev.Announced:
    led = ((TOPIC, 0, "orders", None, None),) if leads else ()
    follows = () if leads else ((TOPIC, 0, "orders"),)
    return ev.Announced(broker_id, 1, number, led, follows, (), None)


REGISTERED = tuple(ev.ClientRegistered(broker_id, 1, b"") for broker_id in (1, 2, 3))
THREE_CLAIMS = tuple(announced(broker_id, 1, leads=True) for broker_id in (1, 2, 3))
REFUSED = ev.LeaderRefused(TOPIC, 0, 1, None, None, None, None, False)


@pytest.mark.parametrize(
    ("before", "restored", "message"),
    [
        ((), 2, None),
        ((), 1, "though the claim of broker 2 stands and came last"),
        ((), 3, "though it has given up its claim"),
        ((announced(1, 2, leads=True), announced(3, 2, leads=True)), 1, None),
        ((ev.ClientRegistered(2, 2, b""),), 1, None),
        ((REFUSED,), 1, None),
        ((REFUSED,), 3, "though it has given up its claim"),
    ],
)
def test_of_the_claims_that_stand_the_last_one_is_to_be_in_force_again(
    before: tuple[Any, ...], restored: int, message: str | None
) -> None:
    given_up = (announced(3, 9, leads=False), ev.LeaderRestored(TOPIC, 0, restored))

    found = list(passed_over(log(REGISTERED, THREE_CLAIMS, before, given_up)))

    assert [one.checker for one in found] == ["passed_over"] * (message is not None)
    assert all(message is not None and message in one.message for one in found)


@pytest.mark.parametrize(("host", "is_wrong"), [("host-0", False), ("host-1", True)])
def test_a_claim_is_refused_by_the_host_that_it_runs_on(host: str, *, is_wrong: bool) -> None:
    events = log(TWO_HOSTS, (led_from("host-0", 0),), (REFUSED,))

    found = list(needless_move(events, set(), {(host, 0, 1)}))

    assert [one.checker for one in found] == ["needless_move"] * is_wrong
    assert all("it is on host-0, which has not reported it" in one.message for one in found)


def test_one_refusal_is_recorded_once_and_the_end_of_its_leader_once_more() -> None:
    led_on = ev.LeaderRefused(TOPIC, 0, 1, Claim(1, 1, 1), 0, None, None, is_served=True)
    ended = led_on._replace(is_served=False)

    assert not list(refusal_repeated(log((led_on,), (ended,))))
    for one in (led_on, ended):
        (found,) = refusal_repeated(log((one,), (one,)))
        assert found.key == PartitionKey(TOPIC, 0)


KEY = PartitionKey(TOPIC, 0)
MOVED = log(TWO_HOSTS, (led_from("host-0", 0),), (led_from("host-1", 0),))


def test_a_leader_may_leave_a_host_whose_door_may_be_shut_or_that_leads_too_many() -> None:
    assert [one.checker for one in needless_move(MOVED, set())] == ["needless_move"]

    assert not list(needless_move(MOVED, set(), None, 0))
    shut = [
        one for at in (1, 2) for one in needless_move(MOVED, set(), may_be_emptied=after(at))
    ]
    assert not shut
    assert list(needless_move(MOVED, set(), may_be_emptied=after(3)))


def after(ms: int) -> Callable[[str, int], bool]:
    return lambda host, time: host == "host-0" and time >= ms * MS


def test_a_follower_may_be_beside_its_leader_while_no_other_door_is_known_to_open() -> None:
    beside_it = log(TWO_HOSTS, (led_from("host-0", 0),), (followed_from("host-0", 0),))

    assert not list(beside(beside_it, 1, 64, lambda host, _: host == "host-0"))
    assert list(beside(beside_it, 1, 64, lambda host, _: host == "host-1"))


CLAIM = Claim(1, 1, 5)


def test_a_claim_for_which_no_replica_is_ready_is_unready() -> None:
    (found,) = unready([WantedReplica(KEY, "follower", CLAIM, is_ready=False)], 7 * MS)

    assert found.message == (
        f"broker 1 asks its follower whether it is ready for {CLAIM} since 7.000 ms, and "
        "is not told so"
    )
    assert not list(unready([WantedReplica(KEY, "follower", CLAIM, is_ready=True)], 7 * MS))


def test_a_broker_that_follows_what_no_host_does_is_unfollowed() -> None:
    taken = ev.Announced(1, 1, 5, (), ((TOPIC, 0, "orders"),), (), None)
    events = log((taken,), (followed_from("host-0", 0),))

    (found,) = unfollowed({KEY: [CLAIM]}, set(), events)

    assert found.message == (
        "broker 1 follows it since 0.000 ms, and no host that can be reached does: its "
        "follower is on host-0 since 1.000 ms"
    )
    assert not list(unfollowed({KEY: [CLAIM]}, {KEY}, events))
    assert not list(unfollowed({KEY: []}, set(), events))


@pytest.mark.parametrize(
    ("loads", "until", "is_wrong"),
    [
        ({"host-0": 2, "host-1": 0}, 9, True),
        ({"host-0": 2, "host-1": 2}, 9, False),
        ({"host-0": 2}, 9, False),
        ({"host-0": 2, "host-1": 0}, 1, False),
    ],
    ids=["room elsewhere", "no room", "nobody else", "just placed"],
)
def test_leader_and_follower_do_not_stay_together(
    loads: dict[str, int], until: int, *, is_wrong: bool
) -> None:
    events = log(TWO_HOSTS, (led_from("host-0", 0),), (followed_from("host-0", 0),))

    found = list(together(events, [KEY], loads, 2, until * MS))

    assert [one.checker for one in found] == ["together"] * is_wrong


def test_a_process_that_is_well_is_not_given_up() -> None:
    events = log(TWO_HOSTS, (ev.HostLost("host-0"),))

    (found,) = needless_loss(events, {"host-0/1"})

    assert found.message == "host-0/1 was given up at 1.000 ms, and lives and answers"
    assert not list(needless_loss(events, {"host-1/1"}))


def refused(holder: Claim | None) -> ev.LeaderRefused:
    return ev.LeaderRefused(TOPIC, 0, 1, holder, None, None, None, is_served=False)


def told(*claims: Claim, leads: bool = True, stops: bool = False, ms: int = 9) -> AnnouncedTo:
    led = ((TOPIC, 0, "orders", None, None),) if leads else ()
    item = ((TOPIC, 0, "orders"),)
    follows, stopped = () if leads or stops else item, item if stops else ()
    return AnnouncedTo(ms * MS, ev.Announcement(1, 1, 5, led, follows, stopped), claims)


@pytest.mark.parametrize(
    ("events", "accepted", "is_wrong"),
    [
        (log((announced(1, 5, leads=True),)), told(CLAIM), False),
        (log((announced(1, 5, leads=True),)), told(CLAIM, ms=-1), True),
        (log((announced(1, 5, leads=False),)), told(CLAIM), True),
        (log((announced(1, 5, leads=False),)), told(CLAIM, leads=False), False),
        (log((announced(1, 4, leads=True),)), told(Claim(1, 1, 4)), False),
        (log((announced(2, 5, leads=True),)), told(CLAIM), True),
        (log(()), told(CLAIM), True),
        (log(()), told(NO_CLAIM), False),
        (log((announced(1, 4, leads=True),)), told(leads=False, stops=True), True),
        (log((announced(1, 6, leads=True),)), told(leads=False, stops=True), False),
        (log(()), told(leads=False, stops=True), False),
        (
            log((announced(1, 4, leads=True),), (refused(None),)),
            told(leads=False, stops=True),
            False,
        ),
        (
            log((announced(1, 4, leads=True),), (refused(Claim(1, 1, 4)),)),
            told(leads=False, stops=True),
            True,
        ),
    ],
    ids=[
        "it is there", "only later", "in another role", "as a follower", "a repeat",
        "another broker's", "nothing is there", "it was refused", "not stopped",
        "announced again since", "there was nothing to stop", "refused since",
        "another one was refused",
    ],
)  # fmt: skip
def test_what_a_broker_was_told_is_in_the_log(
    events: list[Coordinated], accepted: AnnouncedTo, *, is_wrong: bool
) -> None:
    found = list(unannounced(events, [accepted]))

    assert [one.checker for one in found] == ["unannounced"] * is_wrong
