"""A coordinator at work, with hosts that hear, or do not hear, what they are told."""

import asyncio

import pytest
from typing_extensions import override

from tests.models.actors.deaf_host import DeafHost, Launched, claims, leads, registered, started
from tests.models.actors.local_world import KEYS, eventually
from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator import machine
from tierledger.actors.coordinator.events import ITEMS_MAX, Announcement
from tierledger.actors.coordinator.hosts import patience
from tierledger.actors.coordinator.log import BATCHES_PER_READ
from tierledger.actors.coordinator.machine import REQUESTS_PER_BATCH
from tierledger.events.commands import Claim
from tierledger.events.errors import CorruptLog
from tierledger.storage.backends.memory import MemoryBackend

KEY = PartitionKey(bytes(16), 0)


async def test_a_successor_begins_to_start_before_the_end_of_its_predecessor_is_sure(
    host: DeafHost,
) -> None:
    launcher = Launched(host)
    await started(host, launcher=launcher)
    launcher.asked.clear()
    host.is_gone = True

    await eventually(lambda: len(launcher.asked) == 3)
    assert launcher.asked == ["prepare host-0/2", "end host-0/1", "launch host-0/2"]


async def test_a_process_whose_first_message_is_lost_does_not_stay(host: DeafHost) -> None:
    launcher = Launched(host)
    await started(host, launcher=launcher)
    launcher.asked.clear()
    launcher.is_deaf = True
    host.is_gone = True

    await eventually(lambda: len(launcher.asked) >= 4)
    assert launcher.asked[2:4] == ["launch host-0/2", "end host-0/2"]


async def test_a_coordinator_that_cannot_start_its_only_host_says_so_meanwhile(
    host: DeafHost,
) -> None:
    launcher = Launched(host)
    service = await started(host, launcher=launcher)
    assert service.hindrance() is None
    launcher.is_deaf = True
    host.is_gone = True

    await eventually(lambda: service.hindrance() is not None)
    (condition,) = (await service.status())["conditions"]
    assert (condition["code"], condition["subject"]) == ("host-not-started", "host-0")
    assert condition["text"] == "host-0 does not start: the answer was lost"
    launcher.is_deaf = False
    await eventually(lambda: service.hindrance() is None)
    assert (await service.status())["conditions"] == []


@pytest.mark.parametrize(("took", "patience_s"), [(0.005, 0.6), (0.5, 2.0), (30.0, 4.0)])
def test_a_host_may_take_longer_where_everything_is_slow(
    took: float, patience_s: float
) -> None:
    assert patience(took) == patience_s


async def test_a_host_that_did_not_hear_is_told_again(host: DeafHost) -> None:
    service = await started(host)
    await registered(service, 1)
    host.deaf = 1
    await service.announce(leads(1, 1))
    assert host.placed == []

    await eventually(lambda: bool(host.placed))
    assert claims(host) == [Claim(1, 1, 1)]
    assert (await service.status())["set_aside"] == 0
    host.deaf = 1
    await service.announce(Announcement(1, 1, 2, (), ((bytes(16), 0, "orders"),), ()))
    await eventually(lambda: bool(host.closed))


async def test_a_leader_that_is_reported_lost_is_placed_once(host: DeafHost) -> None:
    service = await started(host)
    await registered(service, 1)
    await service.announce(leads(1, 1))
    host.lost = [(KEY, 1)]  # So each ping reports it.

    await eventually(lambda: len(host.placed) > 1)
    looks = host.pinged
    await eventually(lambda: host.pinged > looks + 2)

    assert [placed.assignment.number for placed in host.placed if placed.assignment] == [1, 2]


async def test_what_another_coordinator_decided_and_could_not_tell_is_told(
    host: DeafHost,
) -> None:
    one, other = await started(host), await started(host)
    await registered(one, 1)
    host.deaf = 1
    await one.announce(leads(1, 1))
    await one.close()
    assert host.placed == []

    await registered(other, 2)
    await other.close()
    assert claims(host) == [Claim(1, 1, 1)]


async def test_a_coordinator_that_was_overtaken_says_neither_done_nor_refused(
    host: DeafHost,
) -> None:
    old, new = await started(host), await started(host)
    await registered(old, 1)
    await old.announce(leads(1, 1))
    await new.announce(Announcement(1, 1, 2, (), (), ((bytes(16), 0, "orders"),)))

    await old.announce(leads(1, 3))  # No repeat: it was stopped meanwhile.
    await registered(new, 2)
    (route,) = await new.route([KEY])
    assert route.leader == Claim(1, 1, 3)


async def test_a_new_coordinator_reads_a_log_of_any_length(host: DeafHost) -> None:
    service = await started(host)
    registrations = 2 * BATCHES_PER_READ + 3
    for _ in range(registrations):
        await registered(service, 1)
    await service.announce(Announcement(*leads(1, 1)._replace(incarnation=registrations)))
    await service.close()
    host.placed.clear()

    again = await started(host)
    assert await registered(again, 1) == registrations + 1
    assert claims(host) == [Claim(1, registrations, 1)]  # Its standing work.
    await again.close()


async def test_a_log_with_a_hole_is_refused(host: DeafHost) -> None:
    service = await started(host)
    for _ in range(3):
        await registered(service, 1)
    await service.close()
    del host.backend.values[KEYS.coordinator_batch(1)]

    with pytest.raises(CorruptLog):
        await started(host)


# Many at once.


async def test_ten_thousand_announcements_at_once_take_a_few_steps(host: DeafHost) -> None:
    service = await started(host)
    brokers = range(1, 5)
    for broker in brokers:
        await registered(service, broker)
    before = host.appends
    announcements = [
        leads(broker, number, partition=number * len(brokers) + broker)
        for number in range(1, 2501)
        for broker in brokers
    ]

    told = await asyncio.gather(*map(service.announce, announcements))
    keys = [PartitionKey(bytes(16), one.leaders[0][1]) for one in announcements]
    routes = await service.route(keys)
    await eventually(lambda: len(claims(host)) == len(announcements))
    await service.close()

    batches = -(-len(announcements) // REQUESTS_PER_BATCH)
    assert host.appends - before <= batches + -(-len(announcements) // ITEMS_MAX) + 2
    assert [one.leader for one in routes] == [one.claim for one in announcements]
    assert told == [[one.claim] for one in announcements]


async def test_two_coordinators_that_say_the_same_at_once_do_not_share_an_incarnation(
    host: DeafHost,
) -> None:
    class Stopped:
        def now_ms(self) -> int:
            return 5

    one, other = await started(host, Stopped()), await started(host, Stopped())
    given = await asyncio.gather(registered(one, 1), registered(other, 1))

    assert sorted(given) == [1, 2]


async def test_a_coordinator_that_has_nothing_to_say_hears_what_another_has_decided(
    host: DeafHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LOG_INTERVAL_S", 0.01)
    quiet, busy = await started(host), await started(host)
    await registered(busy, 1)
    await busy.announce(leads(1, 1))

    async def has_heard() -> bool:
        return (await quiet.route([KEY]))[0].leader is not None

    await eventually(has_heard)


class BehindTheTimes(MemoryBackend):
    """A store whose lists do not show the last key yet, on request."""

    is_behind = False

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        found = await super().get_like(prefix, after=after, limit=limit)
        return found[:-1] if self.is_behind else found


async def test_a_list_that_is_behind_does_not_show_that_nothing_is_new() -> None:
    store = BehindTheTimes()
    host = DeafHost(store, "host-0/1")
    former = await started(host)
    await registered(former, 1)
    await former.announce(leads(1, 1))
    successor = await started(host)
    store.is_behind = True
    follows = Announcement(1, 1, 2, (), ((bytes(16), 0, "orders"),), ())
    await former.announce(follows)

    await successor.announce(leads(1, 3))
    (route,) = await successor.route([KEY])
    assert route.leader == Claim(1, 1, 3)
    await host.close()
