"""A claim that the log refused: the coordinator puts the one in force that the log holds."""

import pytest

from tests.models.actors.coordinated import TOPIC_ID, Coordinated
from tierledger.actors.calls import LEADER, PartitionKey, Refusal
from tierledger.actors.coordinator import decide, evolve
from tierledger.actors.coordinator.events import (
    Announced,
    Announcement,
    ClientRegistered,
    LeadersPlaced,
)
from tierledger.actors.coordinator.refusals import leader_refused
from tierledger.actors.coordinator.state import Leadership
from tierledger.actors.messages import ClaimRefused
from tierledger.events.commands import Claim
from tierledger.events.partition.state import Session

KEY = PartitionKey(TOPIC_ID, 0)
ITEM = (*KEY, "orders")
HOLDER, LOSER = Claim(1, 1, 1), Claim(2, 1, 1)


class World(Coordinated):
    """A coordinator whose partition broker 1 leads, and that put broker 2's claim in force."""

    def __init__(self, *, registered: bool = False) -> None:
        super().__init__()
        for broker_id in (1, 2, 3) if registered else ():
            self.register(broker_id)
        self.start("host-0")
        self.claim(HOLDER, 7)
        self.place(1)
        self.claim(LOSER, None)
        self.place(2)

    def claim(self, claim: Claim, epoch: int | None) -> None:
        self.evolve(Announced(*claim, ((*ITEM, epoch, None),), (), (), None))

    def place(self, assignment: int) -> None:
        self.evolve(LeadersPlaced("host-0", ((*KEY, assignment),)))

    def follow(self, claim: Claim) -> list[evolve.HostWork]:
        return self.evolve(Announced(*claim, (), (ITEM,), (), None))

    def hear(self, refusal: Refusal, host: str = "host-0") -> int:
        """How many events that led to."""
        bodies = leader_refused(self.state, KEY, refusal, host)
        for body in bodies:
            self.evolve(body)
        return len(bodies)

    @property
    def leadership(self) -> Leadership | None:
        return self.entry().leadership


@pytest.fixture
def world() -> World:
    return World()


def refusal(*, is_served: bool, assignment: int = 2, cluster: str | None = None) -> Refusal:
    session = Session(1, *HOLDER, 1, 7, cluster, True)
    return Refusal.of(ClaimRefused(assignment, session, is_served, 500))


def test_where_the_holder_is_served_its_claim_is_in_force_and_nothing_is_placed(
    world: World,
) -> None:
    assert world.hear(refusal(is_served=True)) == 1

    # Under the number that the host was told last, or a later loss there would be overheard.
    assert world.leadership == Leadership(HOLDER, 7, None, None, 2)
    assert world.entry().leader_host == "host-0"
    assert not world.state.unplaced


def test_where_nobody_is_served_the_holder_is_placed_anew(world: World) -> None:
    assert world.hear(refusal(is_served=False)) == 1

    assert world.leadership == Leadership(HOLDER, 7, None, None, 0)
    assert world.entry().leader_host is None
    assert list(world.state.unplaced) == [(KEY, LEADER)]


@pytest.mark.parametrize("is_served", [True, False])
def test_the_same_report_again_changes_nothing(world: World, is_served: bool) -> None:
    refused = refusal(is_served=is_served)

    assert [world.hear(refused), world.hear(refused)] == [1, 0]


def test_a_report_about_an_older_placement_changes_nothing(world: World) -> None:
    assert world.hear(refusal(is_served=True, assignment=1)) == 0
    assert world.leadership is not None
    assert world.leadership.claim == LOSER


def test_a_host_that_leads_nothing_of_it_changes_nothing(world: World) -> None:
    world.hear(refusal(is_served=True))

    assert world.hear(refusal(is_served=False), host="host-1") == 0
    assert decide.leader_lost(world.state, KEY, 2, "host-1") == []


@pytest.mark.parametrize("is_served", [True, False])
def test_a_leader_that_ended_refused_is_gone_though_its_claim_was_given_up(
    world: World, is_served: bool
) -> None:
    world.follow(HOLDER._replace(announcement=2))
    world.follow(LOSER._replace(announcement=2))
    assert world.leadership is None

    assert world.hear(refusal(is_served=is_served)) == (not is_served)

    assert world.entry().leader_host == ("host-0" if is_served else None)
    assert world.hear(refusal(is_served=is_served)) == 0


def test_the_loss_of_the_leader_is_heard_after_a_refusal(world: World) -> None:
    world.hear(refusal(is_served=True))

    (lost,) = decide.leader_lost(world.state, KEY, 2, "host-0")
    world.evolve(lost)
    assert world.leadership == Leadership(HOLDER, 7, None, None, 0)


def test_the_holders_own_claim_refused_under_an_old_number_is_placed_under_a_newer(
    world: World,
) -> None:
    world.claim(HOLDER._replace(announcement=2), 7)
    world.place(3)
    claim = HOLDER._replace(announcement=2)
    session = Session(5, *claim, 9, 7, None, True)

    refused = Refusal.of(ClaimRefused(3, session, is_served=False, log_time_ms=0))
    assert world.hear(refused) == 1
    assert world.leadership == Leadership(claim, 7, None, None, 0)


def test_nobody_leads_if_the_log_holds_no_session_or_its_broker_follows(world: World) -> None:
    other = World()
    world.hear(Refusal.of(ClaimRefused(2, None, is_served=False, log_time_ms=0)))
    other.follow(HOLDER._replace(announcement=2))
    other.hear(refusal(is_served=False))

    assert world.leadership is None
    assert other.leadership is None
    assert not world.state.unplaced
    assert (KEY, LEADER) not in other.state.unplaced


def test_a_holder_that_has_stopped_since_leads_anew_once_it_announces_that() -> None:
    world = World(registered=True)
    world.evolve(Announced(1, 1, 2, (), (), (ITEM,), None))

    assert world.hear(refusal(is_served=True)) == 1
    assert not world.entry().is_hosted

    again = HOLDER._replace(announcement=3)
    given = Announcement(*again, ((*ITEM, 7, None),), (), (), None)
    for body in decide.announce(world.state, given):
        world.evolve(body)
    assert world.leadership == Leadership(again, 7, None, None, 0)
    assert list(world.state.unplaced) == [(KEY, LEADER)]


def test_a_holder_that_stopped_and_leads_again_goes_before_its_claim_in_the_log() -> None:
    world = World(registered=True)
    world.evolve(Announced(1, 1, 2, (), (), (ITEM,), None))
    again = HOLDER._replace(announcement=3)
    world.claim(again, 7)
    world.claim(LOSER._replace(announcement=2), None)
    world.place(3)

    assert world.hear(refusal(is_served=False, assignment=3)) == 1
    assert world.leadership == Leadership(again, 7, None, None, 0)


def test_a_claim_that_was_refused_is_in_force_if_the_log_holds_it_after_all(
    world: World,
) -> None:
    world.hear(refusal(is_served=True))
    opened = Session(2, *LOSER, 2, None, None, True)

    assert world.hear(Refusal.of(ClaimRefused(2, opened, is_served=False, log_time_ms=0))) == 1
    assert world.leadership == Leadership(LOSER, None, None, None, 0)


def test_an_import_goes_on_at_the_logs_time(world: World) -> None:
    world.hear(refusal(is_served=False, cluster="recorded"))

    assert world.leadership == Leadership(HOLDER, 7, "recorded", 500, 0)


def test_a_holder_that_resigns_while_another_waits_closes_its_own_session(
    world: World,
) -> None:
    work = world.follow(HOLDER._replace(announcement=2))

    assert [(one.host, [close.claim for close in one.closes]) for one in work] == [
        ("host-0", [HOLDER])
    ]
    assert world.follow(HOLDER._replace(announcement=3)) == []  # It has announced that.
    assert world.leadership is not None
    assert world.leadership.claim == LOSER


# Claims between the holder's and the refused one, of which the log has not heard yet.


def test_the_newer_claim_of_the_holders_own_broker_goes_before_the_one_in_the_log() -> None:
    world = World(registered=True)
    world.follow(HOLDER._replace(announcement=2))
    newer = HOLDER._replace(announcement=3)
    world.claim(newer, 9)
    world.claim(LOSER._replace(announcement=2), None)
    world.place(3)

    assert world.hear(refusal(is_served=False, assignment=3)) == 1
    assert world.leadership == Leadership(newer, 9, None, None, 0)


def test_a_claim_of_a_higher_epoch_that_was_never_placed_goes_before_the_holders() -> None:
    world = World(registered=True)
    elected = Claim(3, 1, 1)
    world.claim(elected, 8)
    world.claim(LOSER._replace(announcement=2), None)
    world.place(3)

    assert world.hear(refusal(is_served=True, assignment=3)) == 1
    assert world.leadership == Leadership(elected, 8, None, None, 0)
    world.place(4)
    assert world.hear(refusal(is_served=True, assignment=4)) == 1, "the log refuses it, too"
    assert world.leadership is not None
    assert world.leadership.claim == HOLDER


@pytest.mark.parametrize(("incarnation", "epoch"), [(2, 8), (1, 7)])
def test_one_of_an_ended_life_or_of_no_higher_epoch_does_not(
    incarnation: int, epoch: int
) -> None:
    world = World(registered=True)
    world.claim(Claim(3, 1, 1), epoch)
    world.evolve(ClientRegistered(3, incarnation))
    world.claim(LOSER._replace(announcement=2), None)
    world.place(3)

    assert world.hear(refusal(is_served=True, assignment=3)) == 1
    assert world.leadership is not None
    assert world.leadership.claim == HOLDER


def test_a_repeated_placement_that_finds_its_own_session_open_gives_nothing_away() -> None:
    world = World(registered=True)
    session = Session(2, *LOSER, 1, None, None, True)

    assert world.hear(Refusal.of(ClaimRefused(2, session, False, 500))) == 1
    assert world.leadership == Leadership(LOSER, None, None, None, 0)


def test_a_claim_that_may_wait_where_the_holder_is_served_cannot_open_unheard() -> None:
    """An import's claim asks the oracle there, and the newest one was refused meanwhile."""
    world = World(registered=True)
    importer = Claim(3, 1, 1)
    world.evolve(Announced(*importer, ((*ITEM, None, 500),), (), (), "recorded"))
    world.place(3)
    world.claim(LOSER._replace(announcement=2), 6)
    world.place(4)

    assert world.hear(refusal(is_served=True, assignment=4)) == 1

    # A newer session of the holder's makes what waits out of date, or is refused and heard of.
    assert world.leadership == Leadership(HOLDER, 7, None, None, 0)
    assert world.entry().leader_host == "host-0"
