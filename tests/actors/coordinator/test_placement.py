"""Placing of leaders and followers, and which hosts are started."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.actors.coordinated import Coordinated, announcement, key, placements
from tierledger.actors.calls import FOLLOWER, LEADER, HostLoad, PartitionKey
from tierledger.actors.coordinator import decide, evolve
from tierledger.actors.coordinator.events import ITEMS_MAX, FollowersPlaced, LeadersPlaced
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.actors.coordinator.placement import (
    CALLS_SPREAD,
    HOSTS_MAX,
    SPREAD,
    ClosedHosts,
    Move,
    awaiting,
    balanced,
    emptiest_node,
    hosts_wanted,
    move,
    next_address,
    place,
    relieve,
    spread_allowed,
)


def load(one: Coordinated) -> dict[str, int]:
    """How much each host serves, counted the slow way."""
    found = dict.fromkeys(one.state.hosts, 0)
    for entry in one.state.partitions.values():
        for host in (entry.leader_host, entry.follower_host):
            if host is not None:
                found[host] += 1
    assert found == {host: one.state.loads[host] for host in found}
    return found


def wanted(one: Coordinated, hosts: int = 1, *starting: str) -> list[str]:
    return hosts_wanted(one.state, hosts, one.per_host, starting)


def test_a_full_host_takes_no_more_and_further_ones_are_called_for() -> None:
    one = Coordinated("host-0", per_host=3)
    one.announce(1, leads=list(range(10)))

    assert load(one) == {"host-0": 3}
    assert len(one.state.unplaced) == 7
    assert wanted(one) == ["host-1", "host-2", "host-3"]
    assert wanted(one, 1, "host-1", "host-2") == ["host-3"]
    for name in ("host-1", "host-2", "host-3"):
        one.start(name)
    assert load(one) == {"host-0": 3, "host-1": 3, "host-2": 3, "host-3": 1}
    assert not one.state.unplaced
    assert wanted(one) == []


def test_with_one_partition_per_host_leaders_and_followers_are_alone() -> None:
    one = Coordinated(*(f"host-{number}" for number in range(6)), per_host=1)
    one.announce(1, leads=[0, 1, 2])
    one.announce(2, follows=[0, 1, 2])

    assert set(load(one).values()) == {1}
    assert wanted(one) == []


def test_the_wanted_hosts_are_started_whatever_they_serve() -> None:
    one = Coordinated("host-1")

    assert wanted(one, 3) == ["host-0", "host-2"]
    assert wanted(one, 3, "host-0") == ["host-2"]


def test_a_host_that_has_too_much_calls_for_no_further_one_while_another_has_room() -> None:
    one = Coordinated("host-0", per_host=2)
    one.announce(1, leads=[0, 1, 2])
    one.evolve(LeadersPlaced("host-0", ((*key(2), one.state.assignment + 1),)))
    assert load(one) == {"host-0": 3}

    assert wanted(one) == ["host-1"]
    one.start("host-1")
    assert wanted(one) == []


def test_there_is_a_bound_on_hosts() -> None:
    one = Coordinated("host-0", per_host=1)
    one.announce(1, leads=list(range(HOSTS_MAX + 5)))

    called = wanted(one)
    assert len(called) == len(set(called)) == HOSTS_MAX - 1
    assert wanted(one, 1, *called) == []


def test_a_stopped_partition_makes_room() -> None:
    one = Coordinated("host-0", per_host=2)
    one.announce(1, leads=[0, 1, 2])
    assert list(one.state.unplaced) == [(key(2), LEADER)]

    one.announce(1, stops=[0])
    assert not one.state.unplaced
    assert load(one) == {"host-0": 2}


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_lost_leader_goes_where_a_follower_has_caught_up(is_behind: bool) -> None:
    one = Coordinated("a", "b", "c")
    one.announce(1, leads=[0])
    one.announce(2, follows=[0])
    leader, follower = one.entry().leader_host, one.entry().follower_host
    for body in decide.host_lost(one.state, leader or ""):
        one.evolve(body)
    (third,) = {"a", "b", "c"} - {leader, follower}

    for body in place(one.state, one.per_host, [key()] if is_behind else []):
        one.evolve(body)

    assert one.entry().leader_host == (third if is_behind else follower)
    assert one.entry().follower_host == (follower if is_behind else third)


def test_a_lost_leader_may_crowd_its_followers_host_until_there_is_another() -> None:
    one = Coordinated("host-0", "host-1", per_host=1)
    one.announce(1, leads=[0])
    one.announce(2, follows=[0])
    lost, kept = one.entry().leader_host, one.entry().follower_host
    one.apply(decide.host_lost(one.state, lost or ""))

    assert (one.entry().leader_host, one.entry().follower_host) == (kept, kept)
    assert wanted(one) == ([lost] if lost == "host-0" else ["host-1"])
    works = one.start(lost or "", 2)
    assert (one.entry().leader_host, one.entry().follower_host) == (kept, lost)
    released, followed = placements(works)
    assert (released.role, released.assignment) == (FOLLOWER, None)
    assert followed.role == FOLLOWER


def test_only_followers_that_share_a_host_with_their_leader_move_to_a_new_one() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0, 1, 2])
    one.announce(2, follows=[0, 1])
    works = one.start("b")

    assert {(done.key, done.role) for done in placements(works)} == {
        (key(0), FOLLOWER),
        (key(1), FOLLOWER),
    }
    assert load(one) == {"a": 3, "b": 2}
    assert one.start("c") == []


def test_a_follower_moves_once_though_its_leader_is_placed_anew_beside_it() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    one.announce(2, follows=[0])
    one.register(3)
    for host in ("b", "c"):
        (started,) = decide.host_started(one.state, host, f"{host}/pid", f"{host}/1")
        one.evolve(started)
    claimed, *_ = decide.announce(one.state, announcement(3, 1, leads=[0]))
    one.evolve(claimed)

    followed = [body for body in place(one.state) if isinstance(body, FollowersPlaced)]

    assert [(body.host, body.partitions) for body in followed] == [("b", (key(0),))]


def test_a_follower_goes_to_another_host_than_its_leader_though_it_has_no_less() -> None:
    one = Coordinated("a", "b")
    one.announce(1, leads=[0, 1])

    works = one.announce(2, follows=[0])

    assert one.state.partitions[key(0)].leader_host == "a"
    assert [work.host for work in works if work.placements] == ["b"]


def led(one: Coordinated) -> dict[str | None, int]:
    """How many leaders each host has."""
    return Counter(entry.leader_host for entry in one.state.partitions.values())


def closing(one: Coordinated, *hosts: str, emptied: bool = True) -> list[HostWork]:
    """Place what there is to be placed while `hosts` are closed."""
    closed = ClosedHosts(frozenset(hosts), frozenset(hosts if emptied else ()))
    works: list[HostWork] = []
    while bodies := place(one.state, one.per_host, (), closed):
        for body in bodies:
            works += one.evolve(body)
    return works


def test_what_runs_where_clients_do_not_come_moves_to_others_at_once() -> None:
    one = Coordinated("a", "b", "c")
    one.announce(1, leads=list(range(9)))
    one.announce(2, follows=list(range(9)))

    works = closing(one, "a")

    assert load(one) == {"a": 0, "b": 9, "c": 9}
    released = [done for work in works if work.host == "a" for done in work.placements]
    assert {(done.role, done.assignment) for done in released} == {
        (LEADER, None),
        (FOLLOWER, None),
    }
    assert all(done.is_moved for done in released if done.role == LEADER)
    routes = [one.state.partitions[key(number)] for number in range(9)]
    assert all(entry.leader_host != entry.follower_host for entry in routes)
    assert closing(one, "a") == []


def test_a_host_that_is_only_closed_keeps_what_it_has_and_gets_nothing() -> None:
    one = Coordinated("a", "b")
    one.announce(1, leads=[0, 1])
    one.start("c")
    before = load(one)

    assert closing(one, "b", "c", emptied=False) == []
    one.register(2)
    (claimed,) = decide.announce(one.state, announcement(2, 1, leads=[2, 3, 4]))
    one.evolve(claimed)
    closing(one, "b", "c", emptied=False)

    assert load(one) == {**before, "a": before["a"] + 3}


def test_with_one_host_that_clients_reach_it_leads_and_follows() -> None:
    one = Coordinated("a", "b")
    one.announce(1, leads=[0, 1])
    one.announce(2, follows=[0, 1])

    closing(one, "a")
    assert load(one) == {"a": 0, "b": 4}

    closing(one)  # It is reached again.
    assert load(one) == {"a": 2, "b": 2}
    assert led(one) == {"b": 2}


def test_what_finds_no_room_stays_where_clients_do_not_come_and_calls_for_a_host() -> None:
    one = Coordinated("host-0", "host-1", per_host=2)
    one.announce(1, leads=list(range(4)))

    assert closing(one, "host-1") == []

    closed = ClosedHosts(frozenset({"host-1"}), frozenset({"host-1"}))
    assert hosts_wanted(one.state, 2, 2, [], closed) == ["host-2"]
    # One that comes, or that nobody has reached yet, may be it.
    assert hosts_wanted(one.state, 2, 2, ["host-2"], closed) == []


def test_a_new_claim_to_lead_is_placed_though_its_host_is_not_reached_and_others_are_full() -> (
    None
):
    one = Coordinated("a", "b", per_host=1)
    one.announce(1, leads=[0, 1])
    one.register(2)
    (claimed,) = decide.announce(one.state, announcement(2, 1, leads=[0, 1]))
    one.evolve(claimed)

    closing(one, "a")

    assert led(one) == {"a": 1, "b": 1}
    assert not one.state.unplaced


def relieved(one: Coordinated, host: str, most: int) -> int:
    """Move up to `most` seats of `host`; how many events that took."""
    bodies = relieve(one.state, host, most, one.per_host)
    for body in bodies:
        one.evolve(body)
    return len(bodies)


def test_a_host_is_relieved_bit_by_bit() -> None:
    one = Coordinated("a", "b", "c")
    one.announce(1, leads=list(range(6)))
    one.announce(2, follows=list(range(6)))
    before = load(one)["a"]

    assert relieved(one, "a", 3)
    assert load(one)["a"] == before - 3
    while relieved(one, "a", 3):
        pass

    assert load(one)["a"] == 0
    entries = one.state.partitions.values()
    assert all(entry.leader_host and entry.follower_host for entry in entries)


def test_a_leader_goes_from_a_relieved_host_to_its_follower() -> None:
    one = Coordinated("a", "b", "c")
    one.announce(1, leads=[0])
    one.announce(2, follows=[0])
    entry = one.state.partitions[key(0)]
    former, follower = entry.leader_host, entry.follower_host
    assert former is not None

    relieved(one, former, 10)

    assert entry.leader_host == follower


def test_a_leader_stays_on_a_relieved_host_while_its_follower_is_behind() -> None:
    one = Coordinated("a", "b", "c")
    one.announce(1, leads=[0, 1, 2])
    one.announce(2, follows=[0, 1])
    former = one.entry().leader_host
    assert former is not None
    assert one.entry().follower_host is not None
    follower, others = str(one.entry().follower_host), one.state.hosts.keys() - {former}
    staying = awaiting(one.state, former, {key(0)}, set())

    assert staying == awaiting(one.state, former, set(), {follower}) == {key(0)}
    assert not awaiting(one.state, former, set(), {former}), "all has caught up"
    unfollowed = one.entry(2).leader_host
    assert unfollowed is not None
    hosts = one.state.hosts.keys()
    assert not awaiting(one.state, unfollowed, {key(2)}, hosts), "nobody follows it"
    shut = ClosedHosts(frozenset(others), frozenset())
    assert not awaiting(one.state, former, {key(0)}, set(), shut), "it goes nowhere"
    for body in relieve(one.state, former, 10, one.per_host, staying=staying):
        one.evolve(body)
    assert one.entry().leader_host == former
    assert load(one)[former] == 1


def test_a_leader_waits_for_a_follower_beside_it_to_move_away() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0])
    one.announce(2, follows=[0])
    assert not awaiting(one.state, "a", set(), set()), "there is no other host"

    for body in decide.host_started(one.state, "b", "b/1/pid", "b/1"):
        one.evolve(body)  # It gets the follower in the next round.

    assert awaiting(one.state, "a", set(), set()) == {key(0)}


def test_what_finds_no_room_stays_on_a_relieved_host() -> None:
    one = Coordinated("a", "b", per_host=3)
    one.announce(1, leads=list(range(5)))
    full = max(load(one), key=lambda host: load(one)[host])

    while relieved(one, full, 10):
        pass

    assert load(one)[full] == 2
    assert relieve(Coordinated("a").state, "a", 10) == []


def test_each_process_has_an_address_that_no_other_had() -> None:
    one = Coordinated()
    seen = set()
    for _ in range(3):
        address = next_address(one.state, "host-3")
        seen.add(address)
        one.apply(decide.host_started(one.state, "host-3", f"{address}/pid", address))
        one.apply(decide.host_lost(one.state, "host-3"))

    assert seen == {"host-3/1", "host-3/2", "host-3/3"}
    assert next_address(one.state, "host-3", skipped=2) == "host-3/6"


def test_a_report_about_an_earlier_process_changes_nothing() -> None:
    one = Coordinated("a")
    one.start("a", 2)

    assert decide.host_lost(one.state, "a", "a/1/pid") == []
    assert decide.host_lost(one.state, "a", "a/2/pid") != []


def test_a_draft_decides_like_the_state_and_leaves_it_alone() -> None:
    one = Coordinated("a")
    one.announce(1, leads=[0], follows=[1])
    before = {number: one.state.route(key(number)) for number in range(3)}
    draft = one.state.draft()

    given = announcement(1, 2, leads=[1, 2], stops=[0])
    decided = decide.announce(draft, given)
    assert decided == decide.announce(one.state, given)
    for body in decided:
        evolve.evolve(draft, one.event(body))

    assert decide.announce(draft, announcement(1, 3, leads=[1, 2])) == []
    assert {number: one.state.route(key(number)) for number in range(3)} == before
    assert one.state.loads["a"] == 2


# Nodes.


def test_hosts_are_spread_over_the_nodes() -> None:
    hosts: Counter[str] = Counter()
    for _ in range(6):
        hosts[emptiest_node("abc", hosts, {})] += 1
    assert hosts == {"a": 2, "b": 2, "c": 2}


def test_a_node_on_which_a_start_failed_comes_after_its_equals() -> None:
    assert emptiest_node("ab", {"a": 0, "b": 0}, {"a": 1}) == "b"
    assert emptiest_node("ab", {"a": 0, "b": 1}, {"a": 1}) == "b"


def test_a_node_on_which_a_start_failed_is_not_shunned_for_ever() -> None:
    assert emptiest_node("ab", {"a": 0, "b": 2}, {"a": 1}) == "a"


def test_a_node_that_is_gone_is_asked_ever_less() -> None:
    hosts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    while hosts["b"] < 8:
        node = emptiest_node(["b", "gone"], hosts, failures)
        (failures if node == "gone" else hosts)[node] += 1
    assert failures["gone"] < hosts["b"]


def test_a_host_that_failed_on_an_empty_node_tries_another_next() -> None:
    hosts = {"a": 9, "b": 8, "gone": 0}
    assert emptiest_node(hosts, hosts, {}) == "gone"
    assert emptiest_node(hosts, hosts, {"gone": 1}) == "gone"
    assert emptiest_node(hosts, hosts, {"gone": 1}, "gone") == "b"
    assert emptiest_node(["gone"], hosts, {"gone": 1}, "gone") == "gone"


def test_a_host_that_led_thousands_is_replaced_in_pieces() -> None:
    one = Coordinated("a", "b")
    one.announce(1, leads=list(range(3 * ITEMS_MAX)))
    for body in decide.host_lost(one.state, "a"):
        one.evolve(body)
    waiting = [len(one.state.unplaced)]

    while bodies := place(one.state, one.per_host):
        assert sum(len(getattr(body, "partitions", ())) for body in bodies) <= ITEMS_MAX
        for body in bodies:
            one.evolve(body)
        waiting.append(len(one.state.unplaced))

    assert waiting == list(range(waiting[0], -1, -ITEMS_MAX)) + [0] * (
        waiting[0] % ITEMS_MAX > 0
    )


def leaders(one: Coordinated) -> dict[str, int]:
    found = Counter(entry.leader_host for entry in one.state.partitions.values())
    return {host: found[host] for host in one.state.hosts}


def with_leaders(counts: list[int]) -> Coordinated:
    """Hosts that lead so many partitions each, of which half are followed."""
    one = Coordinated()
    first = 0
    for number, count in enumerate(counts):
        one.start(f"host-{number}")
        one.announce(1, leads=list(range(first, first + count)))
        # Until all are started, no other host has fewer.
        for at in range(first, first + count):
            led = one.entry(at)
            if led.leader_host != f"host-{number}":
                number_after = one.state.assignment + 1
                placed = LeadersPlaced(f"host-{number}", ((*key(at), number_after),))
                one.evolve(placed)
        first += count
    one.announce(2, follows=list(range(0, first, 2)))
    return one


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_leaders_move_until_hosts_are_equal_enough_and_none_moves_twice(
    counts: list[int],
) -> None:
    one = with_leaders(counts)
    before, total = leaders(one), sum(counts)
    moved = []

    while (found := balanced(one.state, list(one.state.hosts))) is not None:
        works = one.apply(move(one.state, found))
        (released,) = [
            (work.host, placed.key, placed.is_moved)
            for work in works
            for placed in work.placements
            if placed.role == LEADER and placed.assignment is None
        ]
        assert released == (found.former, found.key, True)
        assert one.state.partitions[found.key].leader_host == found.host
        moved.append(found.key)
        assert len(moved) <= total

    after = leaders(one).values()
    assert max(after) - min(after) <= spread_allowed(total, len(counts))
    assert len(set(moved)) == len(moved)
    surplus = sum(max(0, count - total // len(counts)) for count in before.values())
    assert len(moved) <= surplus
    assert not one.state.unplaced
    assert not one.state.together or len(counts) == 1


def test_a_leader_goes_to_its_follower_and_that_moves_on() -> None:
    one = with_leaders([SPREAD + 1, 0])
    followed = [at for at in range(SPREAD + 1) if one.entry(at).followers]

    found = balanced(one.state, ["host-1"])
    cold = balanced(one.state, ["host-1"], behind=[key(at) for at in followed])
    assert found is not None
    assert cold is not None
    one.apply(move(one.state, found))

    entry = one.state.partitions[found.key]
    assert (entry.leader_host, entry.follower_host) == ("host-1", "host-0")
    assert balanced(one.state, ["host-1"]) is None


def test_nothing_moves_to_a_host_that_is_full_new_or_almost_as_loaded() -> None:
    one = with_leaders([SPREAD + 1, 0])

    assert balanced(one.state, []) is None
    assert balanced(one.state, ["host-0", "gone"]) is None
    assert balanced(one.state, ["host-1"], 1) is None
    assert balanced(with_leaders([SPREAD, 0]).state, ["host-1"]) is None


def test_a_move_that_was_overtaken_does_not_happen() -> None:
    one = with_leaders([SPREAD + 1, 0])
    found = balanced(one.state, ["host-1"])
    assert found is not None
    (placed,) = move(one.state, found)
    one.evolve(placed)

    assert move(one.state, found) == []


def led_by(one: Coordinated, host: str) -> list[PartitionKey]:
    return [found for found, role in one.state.seats[host] if role == LEADER]


def asked(one: Coordinated, **calls: float) -> dict[str, HostLoad]:
    """Loads by which each leader of a host is asked as often as the others there."""
    return {
        host: HostLoad(
            rate,
            tuple((led, rate / leaders(one)[host]) for led in led_by(one, host)),
        )
        for name, rate in calls.items()
        for host in [name.replace("_", "-")]
    }


def evened(one: Coordinated, loads: dict[str, HostLoad]) -> Move | None:
    return balanced(one.state, list(one.state.hosts), loads=loads)


def test_a_leader_moves_from_a_host_that_is_asked_much_more_than_another() -> None:
    one = with_leaders([4, 4])
    quiet, busy = asked(one, host_0=2 * CALLS_SPREAD, host_1=8 * CALLS_SPREAD).values()

    found = evened(one, {"host-0": quiet, "host-1": busy})
    assert found is not None
    assert (found.former, found.host) == ("host-1", "host-0")
    one.apply(move(one.state, found))
    assert leaders(one) == {"host-0": 5, "host-1": 3}
    assert evened(one, asked(one, host_0=4 * CALLS_SPREAD, host_1=5 * CALLS_SPREAD)) is None


def test_the_leader_moves_that_makes_both_hosts_most_equal() -> None:
    one = with_leaders([2, 2])
    first, second = led_by(one, "host-1")
    idle = HostLoad(0.0)

    def moved(*rates: float) -> PartitionKey | None:
        busy = tuple(zip((first, second), rates, strict=True))
        found = evened(one, {"host-0": idle, "host-1": HostLoad(sum(rates), busy)})
        return None if found is None else found.key

    assert moved(300.0, 500.0) == first
    assert moved(20.0, 400.0) is None  # One partition is nearly all that is asked.
    assert moved(20.0, 20.0) is None


def test_no_leader_moves_by_load_if_it_would_come_back_by_count_or_a_host_has_not_told() -> (
    None
):
    one = with_leaders([4 + SPREAD, 4])
    loads = asked(one, host_0=0.0, host_1=10 * CALLS_SPREAD)

    assert evened(one, loads) is None
    even = with_leaders([4, 4])
    assert evened(even, asked(even, host_0=0.0, host_1=10 * CALLS_SPREAD)) is not None
    assert evened(even, {}) is None
