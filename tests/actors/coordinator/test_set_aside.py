"""What cannot be carried out is refused at the door, or set aside: it blocks nothing else."""

from collections.abc import Sequence
from typing import Any

import pytest
from typing_extensions import override

from tests.models.actors.coordinated import Coordinated, announcement
from tests.models.actors.deaf_host import (
    DeafHost,
    claims,
    leads,
    registered,
    started,
)
from tests.models.actors.harness import SERDE
from tests.models.actors.local_world import CLUSTER, KEYS, eventually
from tierledger.actors.calls import CloseCall, PartitionKey, Placement
from tierledger.actors.coordinator import decide, evolve
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.checked_requests import checked_announcement, checked_broker
from tierledger.actors.coordinator.events import ITEMS_MAX, Announcement
from tierledger.actors.ports import HostFailed
from tierledger.events.commands import Claim
from tierledger.events.errors import InvalidArgument, RejectedError
from tierledger.events.event_codec import chain, genesis
from tierledger.events.log_events import Event
from tierledger.storage.backends.memory import MemoryBackend

ID = bytes(range(16))
GOOD = (ID, 0, "orders", None, None)

BAD_ITEMS: list[tuple[Any, ...]] = [
    (ID, -1, "orders", None, None),
    (ID, 2**31, "orders", None, None),
    (ID, True, "orders", None, None),
    (ID, 1.0, "orders", None, None),
    (ID, "1", "orders", None, None),
    (b"abc", 1, "orders", None, None),
    (ID.hex(), 1, "orders", None, None),
    (None, 1, "orders", None, None),
    (ID, 1, None, None, None),
    (ID, 1, "x" * 250, None, None),
    (ID, 1, "\ud800", None, None),
    (ID, 1, "orders", 5.0, None),
    (ID, 1, "orders", -1, None),
    (ID, 1, "orders", 2**31, None),
    (ID, 1, "orders", None, 0.5),
    (ID, 1, "orders", None, 2**63),
    (ID, 1, "orders"),
    (),
]


def shown(item: tuple[Any, ...]) -> str:
    return repr(item)[:60]


# The door.


@pytest.mark.parametrize("item", BAD_ITEMS, ids=shown)
def test_an_announcement_with_a_bad_item_is_refused_by_name(item: tuple[Any, ...]) -> None:
    announcements = [Announcement(1, 1, 1, (GOOD, item), (), ())]
    if len(item) == 5 and item[3:] == (None, None):
        announcements.append(Announcement(1, 1, 1, (), (GOOD[:3], item[:3]), ()))
        announcements.append(Announcement(1, 1, 1, (), (), (GOOD[:3], item[:3])))
    for given in announcements:
        with pytest.raises(InvalidArgument, match="partition"):
            checked_announcement(given)


@pytest.mark.parametrize("wrong", [-(2**31) - 1, 2**31, "1", 1.0, None, True])
def test_a_broker_id_that_is_none_is_refused(wrong: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidArgument, match="broker_id"):
        checked_broker(wrong)
    with pytest.raises(InvalidArgument, match="broker_id"):
        checked_announcement(leads(wrong, 1))


async def test_a_request_that_nobody_foresaw_is_answered_and_ends_nothing(
    host: DeafHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = await started(host)
    await registered(service, 1)

    def odd(*_: object) -> list[ev.CoordinatorBody]:
        raise KeyError("odd")

    def unwritable(*_: object) -> list[ev.CoordinatorBody]:
        return [ev.HostLost(object())]  # type: ignore[arg-type]

    def inapplicable(*_: object) -> list[ev.CoordinatorBody]:
        return [ev.LeadersPlaced("host-0", ((ID,),))]  # type: ignore[arg-type]

    for bad in (odd, unwritable, inapplicable):
        monkeypatch.setattr(decide, "register", bad)
        with pytest.raises(RejectedError, match="cannot do this"):
            await service.register(2, b"request", 0)
    assert await service.announce(leads(1, 1)) == [Claim(1, 1, 1)]


# Hosts that fail at what they are told.


class Choosy(DeafHost):
    """A host that fails at partition 1, and takes all else."""

    error: Exception = KeyError("one of them")
    is_choosy = True

    def _take(self, items: Sequence[Placement] | Sequence[CloseCall]) -> None:
        if self.is_choosy and any(item.key.partition == 1 for item in items):
            raise self.error

    @override
    async def place(self, placements: Sequence[Placement]) -> None:
        self._take(placements)
        await super().place(placements)

    @override
    async def close_sessions(self, closes: Sequence[CloseCall]) -> None:
        self._take(closes)
        await super().close_sessions(closes)


@pytest.mark.parametrize(
    "error",
    [KeyError("one of them"), InvalidArgument("one of them"), HostFailed("one of them")],
    ids=lambda one: type(one).__name__,
)
async def test_what_a_host_fails_at_is_set_aside_alone_until_it_can(error: Exception) -> None:
    host = Choosy(MemoryBackend(), "host-0/1")
    host.error = error
    service = await started(host)
    await registered(service, 1)
    items = tuple((ID, number, "orders", None, None) for number in range(4))
    await service.announce(Announcement(1, 1, 1, items, (), ()))
    await service.announce(Announcement(1, 1, 2, (), tuple(item[:3] for item in items), ()))
    await eventually(lambda: len(host.closed) == 3)
    await service.announce(Announcement(1, 1, 3, ((ID, 9, "orders", None, None),), (), ()))
    await eventually(lambda: any(one.key.partition == 9 for one in host.placed))

    status = await service.status()
    assert 1 not in {one.key.partition for one in host.placed}
    assert {0, 2, 3, 9} <= {one.key.partition for one in host.placed}
    assert [one.key.partition for one in host.closed] == [0, 2, 3]
    assert status["set_aside"] == 3  # To lead, to close the session, to follow.
    assert all("one of them" in one["reason"] for one in status["set_aside_items"])
    assert all(one["since_ms"] > 0 for one in status["set_aside_items"])

    host.is_choosy = False
    await service.announce(Announcement(1, 1, 4, (items[1],), (), ()))
    await service.announce(Announcement(1, 1, 5, (), (items[1][:3],), ()))

    async def has_cured() -> bool:
        return not (await service.status())["set_aside"]

    await eventually(has_cured)
    await host.close()


# What stands in a log already.


def written(bodies: Sequence[ev.CoordinatorBody]) -> list[Event]:
    return [
        Event(position, 0, 5 + position, -1, None, body)  # type: ignore[arg-type]
        for position, body in enumerate(bodies)
    ]


@pytest.mark.parametrize("item", BAD_ITEMS, ids=shown)
def test_what_an_older_coordinator_let_into_its_log_is_set_aside_and_curable(
    item: tuple[Any, ...],
) -> None:
    one = Coordinated("a")
    one.register(1)
    placed = [(*item[:2], 2)] if len(item) > 1 else []
    for body in (
        ev.Announced(1, 1, 1, ((ID, 0, "orders", None, None), item), (), (), None),
        ev.LeadersPlaced("a", ((ID, 0, 1), *placed)),
        ev.FollowersPlaced("a", tuple(one[:2] for one in placed)),
    ):
        evolve.evolve(one.state, one.event(body))

    assert one.leader_of(0) == Claim(1, 1, 1)
    assert len(one.state.partitions) == 1
    (aside,) = [one for one in one.state.set_aside.values() if one.broker_id == 1]
    assert aside.reason
    one.register(1)
    assert not any(one.broker_id == 1 for one in one.state.set_aside.values())


def test_a_valid_announcement_of_the_same_partition_clears_what_was_set_aside() -> None:
    one = Coordinated("a")
    one.register(1)
    bad = ev.Announced(1, 1, 1, ((ID, 3, "orders", 5.0, None),), (), (), None)  # type: ignore[arg-type]
    evolve.evolve(one.state, one.event(bad))
    assert len(one.state.set_aside) == 1

    one.apply(decide.announce(one.state, announcement(1, 2, leads=[3])))

    assert not one.state.set_aside
    assert one.leader_of(3) == Claim(1, 1, 2)


async def test_a_coordinator_starts_on_a_log_with_events_that_it_cannot_apply(
    host: DeafHost,
) -> None:
    bodies: list[Any] = [
        ev.ClientRegistered("one", 1),  # type: ignore[arg-type]
        ev.Announced(1, 1, 1, (GOOD, (b"abc", -1, "orders", None, None)), (), (), None),
        ev.LeaderLost(b"abc", -1, 1),
        ev.Announced(1, 1, 2, 5, (), (), None),  # type: ignore[arg-type]
    ]
    previous, stored = genesis(CLUSTER, b"coordinator", 0), []
    for event in written(bodies):
        stored.append(ev.COORDINATOR_CODEC.encode(event, previous))
        previous = chain(stored[-1])
    value = SERDE.serialize("batch", [0, len(stored), stored])
    host.backend.values[KEYS.coordinator_batch(0)] = value

    service = await started(host)
    await eventually(lambda: bool(claims(host)))
    status = await service.status()
    await registered(service, 1)
    (route,) = await service.route([PartitionKey(ID, 0)])

    assert status["set_aside"] == 3
    assert route.leader == Claim(1, 1, 1)


def test_an_announcement_of_more_than_is_decided_at_once_is_refused() -> None:
    items = tuple((bytes(16), number, "orders") for number in range(ITEMS_MAX + 1))
    given = Announcement(1, 1, 1, (), items[:-1], (), None)

    assert checked_announcement(given) == given
    with pytest.raises(InvalidArgument, match="at most 500 partitions, got 501"):
        checked_announcement(given._replace(stopped=items[-1:]))
