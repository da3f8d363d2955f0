"""A claim that is given up leaves the one that it replaced: Kafka does not say it again."""

import pytest

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator import placement, rules
from tierledger.actors.coordinator.events import (
    COORDINATOR_CODEC,
    Announcement,
    ClientRegistered,
    CoordinatorBody,
    HostStarted,
    LeaderItem,
)
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.events.commands import NO_CLAIM, Claim
from tierledger.events.log_events import Event

KEY = PartitionKey(bytes(range(16)), 0)
ITEM = (*KEY, "orders")


class World:
    """A coordinator with three brokers that announce themselves, each in its own order."""

    def __init__(self) -> None:
        self.state = CoordinatorState(b"")
        self.numbers = dict.fromkeys((1, 2, 3), 0)
        self.works: list[rules.HostWork] = []
        self.note(HostStarted("host-0", 1, "p", "host-0/1"))
        for broker_id in self.numbers:
            self.note(ClientRegistered(broker_id, 1))

    def note(self, body: CoordinatorBody) -> None:
        """Through bytes, as in the log."""
        event = Event(self.state.next_position, 0, 0, -1, None, body)  # type: ignore[arg-type]
        stored = COORDINATOR_CODEC.encode(event, b"")
        (read,), _ = COORDINATOR_CODEC.decode([stored], event.position, b"")
        self.works += rules.evolve(self.state, read)

    def announce(
        self,
        broker_id: int,
        *,
        leads: bool = False,
        epoch: int | None = None,
        stops: bool = False,
    ) -> Claim:
        self.numbers[broker_id] += 1
        leaders: tuple[LeaderItem, ...] = ((*ITEM, epoch, None),) if leads else ()
        given = Announcement(
            broker_id, self.state.incarnations[broker_id], self.numbers[broker_id], leaders,
            () if leads or stops else (ITEM,), (ITEM,) if stops else (),
        )  # fmt: skip
        for body in (*rules.announce(self.state, given), *placement.place(self.state)):
            self.note(body)
        for body in placement.place(self.state):
            self.note(body)
        return given.claim

    @property
    def leader(self) -> Claim | None:
        led = self.state.partitions[KEY].leadership
        return None if led is None else led.claim


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("stops", [False, True])
def test_a_late_word_that_is_taken_back_leaves_the_true_leader(
    world: World, stops: bool
) -> None:
    true = world.announce(1, leads=True)
    world.announce(2, leads=True)  # Of an election before that one.
    before = world.state.assignment
    world.announce(2, stops=stops)

    assert world.leader == true
    led = world.state.partitions[KEY].leadership
    assert led is not None
    assert led.assignment > before, "placed anew: the log may hold the other's session"


def test_of_several_the_last_that_was_replaced_stands(world: World) -> None:
    world.announce(1, leads=True)
    last = world.announce(2, leads=True)
    world.announce(3, leads=True)
    world.announce(3)

    assert world.leader == last


def test_who_has_said_that_it_leads_no_more_does_not(world: World) -> None:
    world.announce(1, leads=True)
    world.announce(2, leads=True)
    world.announce(1)
    world.announce(2)

    assert world.leader is None


def test_who_was_replaced_in_a_later_epoch_has_only_not_heard_of_it(world: World) -> None:
    world.announce(1, leads=True, epoch=4)
    world.announce(2, leads=True, epoch=5)
    world.announce(2)

    assert world.leader is None


def test_a_life_that_has_ended_leads_no_more(world: World) -> None:
    world.announce(1, leads=True)
    world.announce(2, leads=True)
    world.note(ClientRegistered(1, 2))
    world.announce(2)

    assert world.leader is None


def test_who_follows_anyway_changes_nothing(world: World) -> None:
    world.announce(1, leads=True)
    true = world.announce(2, leads=True)
    world.announce(3)

    assert world.leader == true


def test_of_two_known_epochs_the_higher_stands_though_it_was_replaced(world: World) -> None:
    world.announce(3, leads=True, epoch=0)
    true = world.announce(2, leads=True, epoch=2)
    world.announce(1, leads=True)  # A late word, without an epoch.
    world.announce(1, leads=True, epoch=1)  # The same, said again with one.
    world.announce(1)

    assert world.leader == true


def in_force(world: World, announced: Claim, *, leads: bool) -> Claim:
    """Under which claim a broker is to write that has just said so."""
    given = Announcement(
        *announced, ((*ITEM, None, None),) if leads else (), () if leads else (ITEM,), ()
    )
    (claim,) = rules.in_force(world.state, given)
    return claim


def test_a_repeat_counts_for_the_claim_that_is_in_force(world: World) -> None:
    true = world.announce(1, leads=True)
    repeated = world.announce(1, leads=True)

    assert in_force(world, repeated, leads=True) == true
    follows = world.announce(2)
    assert in_force(world, world.announce(2), leads=False) == follows


def test_a_repeat_counts_for_the_claim_that_stands_again_though_another_came_since(
    world: World,
) -> None:
    true = world.announce(1, leads=True)
    repeated = world.announce(1, leads=True)
    world.announce(2, leads=True)

    assert in_force(world, repeated, leads=True) == true
    world.announce(2)
    assert world.leader == true


def test_a_word_of_a_new_life_is_no_repeat_of_the_former_ones(world: World) -> None:
    world.announce(1, leads=True)
    world.note(ClientRegistered(1, 2))
    announced = world.announce(1, leads=True)

    assert in_force(world, announced, leads=True) == announced == world.leader


def test_a_claim_below_the_epoch_in_force_is_nobody_elses(world: World) -> None:
    world.announce(1, leads=True, epoch=4)
    refused = world.announce(2, leads=True, epoch=3)

    assert in_force(world, refused, leads=True) == NO_CLAIM


def test_a_partition_is_not_let_go_while_another_s_claim_stands_again() -> None:
    """Its session would be closed, and the true leader refused under its own claim."""
    world = World()
    world.announce(1, leads=True)
    world.announce(2, leads=True)
    world.works.clear()

    world.announce(2, stops=True)

    told = [one.assignment for work in world.works for one in work.placements]
    assert [None if one is None else one.claim.broker_id for one in told] == [1]
    world.announce(1, stops=True)
    (released,) = world.works[-1].placements
    assert released.assignment is None


def test_who_stops_hosting_after_it_was_replaced_does_not_stand_again(world: World) -> None:
    world.announce(1, leads=True)
    world.announce(2, leads=True)
    world.announce(1, stops=True)
    world.announce(2)

    assert world.leader is None
