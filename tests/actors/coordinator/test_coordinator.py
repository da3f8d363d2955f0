"""The coordinator's rules: what events lead to, and what hosts are told because of them."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.models.actors.coordinated import (
    GENESIS,
    Coordinated,
    announcement,
    closes,
    key,
    placements,
)
from tierledger.actors.calls import FOLLOWER, LEADER, CloseCall
from tierledger.actors.coordinator import decide, evolve
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.events import Owner, OwnerChanged
from tierledger.actors.coordinator.ownership import (
    Handover,
    Ownership,
    PluginMode,
    hand_over,
)
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.events.commands import Claim
from tierledger.events.errors import Fenced, InvalidArgument, NotReady, RejectedError
from tierledger.events.event_codec import EventCodec
from tierledger.events.log_events import Event

GOLDEN = Path(__file__).parents[2] / "golden"


# Who owns the cluster's metadata.


FRESH = Handover(Owner.TIERLEDGER, Owner.NOBODY)
KAFKAS = Handover(Owner.KAFKA, Owner.NOBODY)
FORTH = Handover(Owner.MOVING, Owner.KAFKA, Owner.TIERLEDGER)
BACK = Handover(Owner.MOVING, Owner.TIERLEDGER, Owner.KAFKA)
SHADOW, HANDOVER, TIERLEDGER = PluginMode

LETS_IN = {
    (): (None, None, NotReady),
    (KAFKAS,): (None, None, NotReady),
    (KAFKAS, FORTH): (NotReady, None, NotReady),
    (FRESH, BACK): (NotReady, None, NotReady),
    (FRESH,): (RejectedError, None, None),
}
"""By wishes on the owner: what plugins hear in shadow, handover and tierledger."""


def owned(*wishes: Handover) -> Coordinated:
    """A coordinator that got these wishes, and each again."""
    one = Coordinated("a")
    for wish in wishes:
        say(one, wish)
    return one


def say(one: Coordinated, wish: Handover) -> None:
    epoch = one.state.ownership.epoch
    one.apply([*hand_over(one.state.ownership, wish)])
    assert one.state.ownership.epoch == epoch + 1
    assert hand_over(one.state.ownership, wish) == [], "a repeat"


@pytest.mark.parametrize("wishes", LETS_IN, ids=lambda some: "-".join(one.to for one in some))
def test_a_brokers_plugin_is_let_in_if_all_decide_by_one_manager(
    wishes: tuple[Handover, ...],
) -> None:
    one = owned(*wishes)
    for mode, error in zip(PluginMode, LETS_IN[wishes], strict=True):
        if error is None:
            assert decide.register(one.state, 1, b"a", 0, mode)
        else:
            with pytest.raises(error):
                decide.register(one.state, 1, b"a", 0, mode)
    assert decide.register(one.state, 1, b"a", 0), "a program decides for nobody"
    assert one.state.draft().ownership == one.state.ownership


def test_a_broker_that_is_in_may_repeat_itself_while_tierledger_gives_the_metadata_back() -> (
    None
):
    one = owned(FRESH)
    one.apply(decide.register(one.state, 1, b"a", 0, TIERLEDGER))
    say(one, BACK)

    assert decide.register(one.state, 1, b"a", 0, TIERLEDGER) == []
    with pytest.raises(NotReady, match="moving from tierledger to kafka"):
        decide.register(one.state, 1, b"b", 1, TIERLEDGER)


def test_a_cluster_moves_there_and_back() -> None:
    one = owned(
        KAFKAS,
        FORTH,
        Handover(Owner.KAFKA, Owner.MOVING, owner_epoch=2),
        FORTH,
        Handover(Owner.TIERLEDGER, Owner.MOVING, owner_epoch=4),
        BACK,
        Handover(Owner.MOVING, Owner.MOVING, Owner.KAFKA, owner_epoch=6),
        Handover(Owner.KAFKA, Owner.MOVING, owner_epoch=7),
    )

    assert one.state.ownership == Ownership(8, "kafka")


def test_a_move_that_is_repeated_goes_on_with_all_of_its_time() -> None:
    again = Handover(Owner.MOVING, Owner.MOVING, Owner.TIERLEDGER, 2, give_up_after_ms=5000)

    moves = owned(KAFKAS, FORTH, again).state.ownership
    assert moves == Ownership(3, "moving", "kafka", "tierledger", 5000)


@pytest.mark.parametrize(
    ("wishes", "wish"),
    [
        ((), FORTH),
        ((), Handover(Owner.MOVING, Owner.NOBODY, Owner.KAFKA)),
        ((KAFKAS,), FRESH),
        ((KAFKAS,), BACK),
        ((KAFKAS,), Handover(Owner.TIERLEDGER, Owner.KAFKA)),
        ((KAFKAS,), Handover(Owner.MOVING, Owner.KAFKA, Owner.KAFKA)),
        ((KAFKAS,), Handover(Owner.MOVING, Owner.KAFKA)),
        ((KAFKAS,), Handover(Owner.NOBODY, Owner.KAFKA)),
        ((FRESH,), KAFKAS),
        ((KAFKAS, FORTH), Handover(Owner.TIERLEDGER, Owner.MOVING, owner_epoch=1)),
        ((KAFKAS, FORTH), Handover(Owner.NOBODY, Owner.MOVING, owner_epoch=2)),
        ((KAFKAS, FORTH), BACK),
        (
            (KAFKAS, FORTH),
            Handover(Owner.MOVING, Owner.MOVING, Owner.TIERLEDGER, owner_epoch=3),
        ),
        ((KAFKAS, FORTH), Handover(Owner.MOVING, Owner.MOVING, Owner.KAFKA, owner_epoch=2)),
        ((FRESH,), Handover(Owner.TIERLEDGER, Owner.MOVING, owner_epoch=2)),
    ],
)
def test_a_request_that_does_not_follow_on_the_newest_owner_epoch_changes_nothing(
    wishes: tuple[Handover, ...], wish: Handover
) -> None:
    one = owned(*wishes)

    with pytest.raises(RejectedError):
        hand_over(one.state.ownership, wish)


def test_the_metadata_is_not_taken_from_an_owner_whom_nobody_knows() -> None:
    one = Coordinated()
    one.evolve(OwnerChanged("another"))

    with pytest.raises(RejectedError, match=r"another owns .* expected nobody"):
        hand_over(one.state.ownership, FRESH)


def test_only_imports_lead_while_kafkas_own_manager_owns_the_metadata() -> None:
    one = owned(KAFKAS)
    one.announce(1, follows=[0])
    with pytest.raises(NotReady, match="only imports lead"):
        one.announce(1, leads=[0])
    one.register(2)
    imports = announcement(2, 3, leads=[0])._replace(import_cluster="kafka")
    works = one.apply(decide.announce(one.state, imports))
    assert one.leader_of() == Claim(2, 1, 3)
    (placed,) = [one for one in placements(works) if one.role == LEADER]
    assert placed.assignment is not None
    assert placed.assignment.resigned == (Claim(1, 1, 1),), "it only follows"

    say(one, FORTH)

    with pytest.raises(NotReady, match="no broker may begin to lead"):
        one.announce(1, leads=[1])


def test_who_leads_leads_on_while_tierledger_gives_the_metadata_back() -> None:
    one = owned(FRESH)
    one.announce(1, leads=[0])
    say(one, BACK)

    assert one.announce(1, leads=[0]) == []
    with pytest.raises(NotReady):
        one.announce(2, leads=[0])


# Who speaks for a broker.


def test_each_registration_is_a_new_incarnation() -> None:
    one = Coordinated()
    for expected in (1, 2, 3):
        one.register(7)
        assert one.state.incarnations[7] == expected
    one.register(8)
    assert one.state.incarnations == {7: 3, 8: 1}


def test_a_registration_that_comes_late_fences_nobody() -> None:
    one = Coordinated("a")
    one.register(1)

    assert decide.register(one.state, 1, b"sent before", 0) == []


def test_an_announcement_from_before_the_newest_registration_is_refused() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    one.register(1)

    with pytest.raises(Fenced):
        decide.announce(one.state, announcement(1, 9, leads=[1]))


def test_an_older_announcement_is_refused_and_the_same_one_again_does_nothing() -> None:
    one = Coordinated("a")
    one.register(1)
    first, second = announcement(1, 1, leads=[0]), announcement(1, 2, leads=[1])
    one.apply(decide.announce(one.state, second))

    with pytest.raises(Fenced):
        decide.announce(one.state, first)
    assert decide.announce(one.state, second) == []


def test_an_incarnation_that_nobody_was_given_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        decide.announce(Coordinated().state, announcement(1, 1, leads=[0]))


# Placement.


def test_what_is_announced_before_there_are_hosts_is_placed_with_the_first() -> None:
    one = Coordinated()
    assert one.announce(1, leads=[0]) == []

    works = one.start("a")

    assert [(place.key, place.role) for place in placements(works)] == [(key(), LEADER)]


def test_leaders_are_spread_and_followers_run_away_from_their_leaders() -> None:
    one = Coordinated("a", "b")
    one.announce(1, leads=list(range(10)))
    one.announce(2, follows=list(range(10)))

    entries = [one.entry(number) for number in range(10)]
    assert {host: [e.leader_host for e in entries].count(host) for host in "ab"} == {
        "a": 5,
        "b": 5,
    }
    assert all(entry.leader_host != entry.follower_host for entry in entries)


def test_a_single_host_takes_leader_and_follower() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    one.announce(2, follows=[0])

    assert (one.entry().leader_host, one.entry().follower_host) == ("a", "a")


def test_a_leader_stays_where_it_is_when_another_broker_leads() -> None:
    one = Coordinated("a", "b")
    one.announce(1, leads=[0, 1])
    before = one.entry().leader_host
    works = one.announce(2, leads=[0])

    (placed,) = placements(works)
    assert placed.assignment is not None
    assert (works[0].host, placed.assignment.claim) == (before, Claim(2, 1, 1))
    assert one.leader_of(1) == Claim(1, 1, 1)


def test_each_assignment_has_a_number_of_its_own() -> None:
    one = Coordinated("a")
    works = one.announce(1, leads=[0, 1, 2])
    works += one.announce(2, leads=[1])

    numbers = [place.assignment.number for place in placements(works) if place.assignment]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 4


# Repeats and changes of role.


@pytest.mark.parametrize("epoch", [None, 5])
def test_a_repeated_announcement_costs_nothing(epoch: int | None) -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0], follows=[1], epoch=epoch)
    events = len(one.events)

    assert one.announce(1, leads=[0], follows=[1], epoch=epoch) == []
    assert one.announce(1, follows=[1], stops=[7]) == []
    assert len(one.events) == events
    assert one.leader_of() == Claim(1, 1, 1)


def test_a_late_copy_of_an_announcement_that_changed_nothing_changes_nothing_later() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    again = announcement(1, 2, leads=[0])
    assert decide.announce(one.state, again) == []
    decide.hear(one.state, again)
    one.announce(2, leads=[0])

    assert decide.announce(one.state, again) == []
    assert one.leader_of() == Claim(2, 1, 1)


def test_a_new_leader_epoch_or_incarnation_is_no_repeat() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0], epoch=5)
    assert placements(one.announce(1, leads=[0], epoch=6))

    one.register(1)
    works = one.apply(decide.announce(one.state, announcement(1, 1, [0], incarnation=2)))
    assert placements(works)
    assert one.leader_of() == Claim(1, 2, 1)


def test_a_leader_that_follows_from_now_on_closes_its_own_session_only() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    works = one.announce(1, follows=[0])

    assert closes(works) == [CloseCall(key(), Claim(1, 1, 1))]
    assert one.leader_of() is None
    assert one.entry().followers == {1: Claim(1, 1, 2)}

    one.announce(2, leads=[0])
    assert closes(one.announce(1, stops=[0])) == []
    assert one.leader_of() == Claim(2, 1, 1)


def test_who_follows_as_before_announces_itself_anew_under_a_new_owner() -> None:
    """Its replica is ready with what stood then: what was imported until then is there."""
    one = owned(KAFKAS)
    one.announce(1, follows=[0])
    one.announce(1, follows=[0])
    assert one.entry().followers == {1: Claim(1, 1, 1)}

    say(one, FORTH)
    say(one, Handover(Owner.TIERLEDGER, Owner.MOVING, owner_epoch=2))
    works = one.announce(1, follows=[0])

    assert one.entry().followers == {1: Claim(1, 1, 3)}
    assert [placement.role for placement in placements(works)] == [FOLLOWER]
    assert one.announce(1, follows=[0]) == []


def test_a_follower_that_leads_follows_no_more() -> None:
    one = Coordinated("a")
    one.announce(1, follows=[0])
    one.announce(1, leads=[0])

    assert one.entry().followers == {}
    assert one.leader_of() == Claim(1, 1, 2)


@pytest.mark.parametrize("epoch", [4, 5])
def test_a_leader_epoch_that_is_not_newer_does_not_take_the_place_of_the_leader(
    epoch: int,
) -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0], epoch=5)
    given = announcement(2, 1, leads=[0, 1], epoch=epoch)
    one.register(2)
    works = one.apply(decide.announce(one.state, given))

    assert [place.key for place in placements(works)] == [key(1)]
    assert decide.outranked(one.state, given) == [given.leaders[0]]
    assert one.leader_of() == Claim(1, 1, 1)


@pytest.mark.parametrize(("held", "claimed"), [(5, 6), (5, None), (None, 1), (None, None)])
def test_a_newer_or_unknown_leader_epoch_is_for_the_log_to_judge(
    held: int | None, claimed: int | None
) -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0], epoch=held)
    assert placements(one.announce(2, leads=[0], epoch=claimed))

    assert one.leader_of() == Claim(2, 1, 1)


# Stopping.


def test_a_partition_is_released_when_the_last_broker_stops_it() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    one.announce(2, follows=[0])

    works = one.announce(1, stops=[0])
    assert closes(works) == [CloseCall(key(), Claim(1, 1, 1))]
    assert placements(works) == []

    released = placements(one.announce(2, stops=[0]))
    assert [(place.role, place.assignment) for place in released] == [
        (LEADER, None),
        (FOLLOWER, None),
    ]
    route = one.state.route(key())
    assert (route.known, route.leader_host, route.follower_host) == (True, None, None)


def test_a_stop_by_a_broker_that_hosts_nothing_changes_nothing() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])

    assert one.announce(2, stops=[0]) == []
    assert one.leader_of() == Claim(1, 1, 1)


def test_a_released_partition_that_is_announced_again_is_placed_again() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    one.announce(1, stops=[0])
    works = one.announce(1, leads=[0])

    (placed,) = placements(works)
    assert placed.assignment is not None
    assert placed.assignment.claim == Claim(1, 1, 3)


# Hosts.


def test_a_lost_host_leaves_its_work_to_the_others_under_the_same_claims() -> None:
    one = Coordinated("a", "b")
    one.announce(1, leads=[0, 1])
    one.announce(2, follows=[0, 1])
    works = one.apply(decide.host_lost(one.state, "a"))

    assert {work.host for work in works} == {"b"}
    assert {one.entry(number).leader_host for number in (0, 1)} == {"b"}
    moved = [place.assignment for place in placements(works) if place.role == LEADER]
    assert [assignment.claim for assignment in moved if assignment] == [Claim(1, 1, 1)]


def test_a_leader_moves_to_where_it_is_followed() -> None:
    one = Coordinated("a", "b", "c")
    one.announce(1, leads=[0])
    one.announce(2, follows=[0])
    followed = one.entry().follower_host
    assert one.entry().leader_host is not None
    one.apply(decide.host_lost(one.state, one.entry().leader_host or ""))

    assert one.entry().leader_host == followed


def test_a_host_that_was_restarted_gets_its_work_anew() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    before = one.entry().leadership
    works = one.start("a", 2)

    (placed,) = placements(works)
    assert before is not None
    assert placed.assignment is not None
    assert placed.assignment.number > before.assignment
    assert one.start("a", 2) == []


def test_a_leader_that_ended_is_placed_again_and_an_old_report_of_it_is_ignored() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    led = one.entry().leadership
    assert led is not None
    assert decide.leader_lost(one.state, key(), led.assignment, "b") == []
    works = one.apply(decide.leader_lost(one.state, key(), led.assignment, "a"))

    (placed,) = placements(works)
    assert placed.assignment is not None
    assert placed.assignment.number == led.assignment + 1
    assert decide.leader_lost(one.state, key(), led.assignment, "a") == []
    assert decide.leader_lost(one.state, key(9), 1, "a") == []


def test_a_leader_that_ended_when_nobody_led_any_more_is_not_looked_for_there() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    led = one.entry().leadership
    assert led is not None
    one.announce(1, follows=[0])  # It gives up its claim; the leader stays for the next one.
    assert one.state.route(key()).leader_host == "a/1"
    assert decide.leader_lost(one.state, key(), led.assignment - 1, "a") == []
    assert decide.leader_lost(one.state, key(), led.assignment, "b") == []

    works = one.apply(decide.leader_lost(one.state, key(), led.assignment, "a"))

    assert works == []
    assert one.state.route(key()).leader_host is None
    assert one.state.loads["a"] == 1
    assert decide.leader_lost(one.state, key(), led.assignment, "a") == []
    (placed,) = placements(one.announce(1, leads=[0]))
    assert placed.role == LEADER


def test_a_late_release_ends_no_follower_that_was_placed_after_it() -> None:
    one = Coordinated("a")
    (followed,) = placements(one.announce(1, follows=[0]))
    (released,) = placements(one.announce(1, stops=[0]))
    (again,) = placements(one.announce(1, follows=[0]))

    assert followed.assignment is not None
    assert again.assignment is not None
    assert followed.assignment.number <= released.until < again.assignment.number


def test_standing_work_is_all_that_a_host_serves() -> None:
    one = Coordinated("a")
    placed = placements(one.announce(1, leads=[0, 1]))
    placed += placements(one.announce(2, follows=[0]))
    placed += placements(one.announce(3, follows=[0]))

    standing = evolve.standing_work(one.state, "a")

    assert sorted(standing.placements, key=repr) == sorted(placed, key=repr)
    assert evolve.standing_work(one.state, "b").placements == ()


def test_an_unknown_partition_is_said_to_be_unknown() -> None:
    route = Coordinated().state.route(key())

    assert not route.known
    assert route.followers == ()


# What older versions wrote.


def test_a_log_of_the_first_version_still_says_what_it_said() -> None:
    golden = json.loads((GOLDEN / "coordinator-v1.json").read_text(encoding="utf-8"))
    state = CoordinatorState(bytes.fromhex(golden["genesis"]))
    stored = [bytes.fromhex(one["stored"]) for one in golden["events"]]
    events, last = ev.COORDINATOR_CODEC.decode(stored, 0, state.chain_hash)
    for event in events:
        evolve.evolve(state, event)

    assert last.hex() == golden["events"][-1]["hash"]
    assert state.hosts == golden["hosts"]
    assert state.addresses == {"host-0": "host-0"}
    assert not state.unplaced
    for number, known in golden["partitions"].items():
        entry = state.partitions[key(int(number))]
        led = entry.leadership
        assert led is not None
        assert [*led.claim] == known["claim"]
        assert led.assignment == known["assignment"]
        assert (entry.leader_host, entry.follower_host) == (
            known["leader_host"],
            known["follower_host"],
        )
        assert sorted(entry.followers) == known["followers"]
    assert set(state.partitions) == {key(int(number)) for number in golden["partitions"]}


def read_of_first_version(number: int, body: NamedTuple) -> CoordinatorState:
    """The state after an event that the first version of its type's format has written."""
    older = EventCodec(((number, type(body), 1),), is_strict=False)
    event = Event(0, 0, 5, -1, None, body)  # type: ignore[arg-type] # A codec of its own.
    state = CoordinatorState(GENESIS)
    (read,), _ = ev.COORDINATOR_CODEC.decode([older.encode(event, GENESIS)], 0, GENESIS)
    evolve.evolve(state, read)
    return state


def test_a_log_in_which_the_owner_had_a_name_only_is_read() -> None:
    class OwnerChangedOne(NamedTuple):
        owner: str

    state = read_of_first_version(11, OwnerChangedOne("tierledger"))

    assert state.ownership == Ownership(1, "tierledger")


def test_a_log_in_which_a_hold_excused_nobody_is_read() -> None:
    class DeletionsHeldOne(NamedTuple):
        broker_id: int
        incarnation: int
        since_ms: int
        foreign: int

    state = read_of_first_version(12, DeletionsHeldOne(3, 7, 90, 2))

    assert state.held == {3: ev.DeletionsHeld(3, 7, 90, 2, excused_ms=0)}
