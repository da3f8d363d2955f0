"""When brokers delete too much of the tier, or of a topic, within an hour, a hold is due."""

from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from tests.models.actors.deaf_host import DeafHost, leads, registered, started
from tests.models.actors.local_world import eventually
from tierledger.actors.calls import HostPing
from tierledger.actors.coordinator.breaker import LOOK_MS, Breaker, BreakerShares, name_of
from tierledger.actors.deletion_counts import DeletionCounts
from tierledger.actors.holds import Hold, check_hold
from tierledger.actors.wall_clock import WallClock
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.backends.memory import MemoryBackend

MINUTE_MS = 60_000
TOPICS = {name: bytes([number]) * 16 for number, name in enumerate(("orders", "payments"))}


class DeletingHosts:
    """A coordinator, which may be restarted, and hosts whose leaders let brokers delete."""

    def __init__(self, cluster: int = 50, topic: int = 0, floor: int = 0) -> None:
        self.shares, self.floor = BreakerShares(cluster, topic), floor
        self.breaker = Breaker(self.shares, floor)
        self.named: dict[str, str] = {}
        self.counts: dict[str, DeletionCounts] = {}
        self.tiered: dict[str, dict[str, int]] = {}
        self.processes = 0
        self.now_ms = 1000 * MINUTE_MS
        self.released_ms: dict[str, int] = {}

    def start(self, host: str, **tiered: int) -> None:
        self.processes += 1
        self.named[host] = f"{host}/{self.processes}"
        self.counts[host] = DeletionCounts(self.named[host])
        self.tiered[host] = tiered

    def end(self, host: str) -> None:
        del self.counts[host], self.tiered[host]

    def restart(self) -> None:
        self.breaker = Breaker(self.shares, self.floor)

    def delete(
        self, host: str, size: int, topic: str = "orders", *, is_expired: bool = True
    ) -> None:
        tip = TopicIdPartition(Uuid(TOPICS[topic]), 0, topic)
        self.counts[host].add(tip, size, self.now_ms, is_expired=is_expired)
        self.tiered[host][topic] -= size

    def broken(self, *, is_answered: bool = True) -> dict[str, Hold]:
        """The holds that are due after each host was pinged often enough to know all."""
        found: list[Hold] = []
        for _ in range(2):  # The first tells of which topics others have let go something.
            for host, counts in self.counts.items():
                heard = self.breaker.heard(host)
                tiered = {TOPICS[one]: (one, size) for one, size in self.tiered[host].items()}
                report = counts.report(heard, tiered, self.now_ms)
                if is_answered:
                    size = sum(self.tiered[host].values())
                    ping = HostPing(self.named[host], deleted=report, tiered_bytes=size)
                    self.breaker.know(self.counts)
                    self.breaker.reported(host, ping)
            self.now_ms += LOOK_MS
            found = [*self.breaker.broken(self.counts, self.now_ms, self.released_ms)]
        for one in found:
            check_hold(one)
        return {one.name: one for one in found}


@pytest.mark.parametrize(
    ("percent", "floor", "size", "is_broken"),
    [
        (50, 0, 500, False),
        (50, 0, 501, True),
        (80, 0, 501, False),
        (100, 0, 1000, False),
        (0, 0, 1000, False),
        (50, 700, 700, False),
        (50, 700, 701, True),
    ],
)
def test_it_breaks_above_the_share_and_the_floor(
    percent: int, floor: int, size: int, is_broken: bool
) -> None:
    world = DeletingHosts(percent, floor=floor)
    world.start("a", orders=1000)

    world.delete("a", size)

    assert bool(world.broken()) is is_broken


def test_the_hold_tells_the_arithmetic_and_is_about_everything() -> None:
    world = DeletingHosts()
    world.start("a", orders=1000)
    world.delete("a", 600)

    (hold,) = world.broken().values()

    assert (hold.name, hold.topic, hold.term_ms, hold.until_ms) == ("breaker", "*", None, None)
    assert hold.reason == "brokers deleted 600 of 1000 bytes within an hour, more than 50 %"


def test_after_its_release_as_much_may_go_again_also_with_another_coordinator() -> None:
    world = DeletingHosts()
    world.start("a", orders=1000)
    world.delete("a", 600)
    assert world.broken()

    world.released_ms["breaker"] = world.now_ms

    for _ in range(2):
        assert not world.broken()
        world.restart()
    world.now_ms += MINUTE_MS
    world.delete("a", 200)
    assert not world.broken()
    world.delete("a", 200)
    assert world.broken(), "400 of the 400 that were left"


def test_what_is_older_than_an_hour_does_not_count() -> None:
    for percent, is_broken in ((60, False), (59, True)):
        world = DeletingHosts(percent)
        world.start("a", orders=10_000)
        for minute in range(1000, 1200):
            world.now_ms = minute * MINUTE_MS
            world.delete("a", 100)
            world.tiered["a"]["orders"] += 100  # 1 % a minute, and as much is copied.
            world.broken()

        # What was copied within the hour was in the tier, too.
        assert not world.broken()
        world.tiered["a"]["orders"] -= 5900
        world.breaker = Breaker(world.shares, 0)
        assert bool(world.broken()) is is_broken


def test_a_coordinator_that_starts_knows_what_was_deleted_before() -> None:
    world = DeletingHosts()
    world.start("a", orders=500)
    world.start("b", orders=500)
    world.delete("a", 260)
    assert not world.broken()

    world.restart()
    world.delete("b", 250)

    assert world.broken()


def test_a_coordinator_that_has_not_heard_all_hosts_does_not_judge() -> None:
    world = DeletingHosts()
    world.start("a", orders=100)
    world.start("b", orders=900)
    world.delete("a", 90)
    world.broken()

    world.restart()
    heard = world.breaker.heard("a")
    report = world.counts["a"].report(heard, {}, world.now_ms)
    world.breaker.reported("a", HostPing("a/1", deleted=report, tiered_bytes=10))

    assert not [*world.breaker.broken(world.counts, world.now_ms, {})]
    assert not world.broken()


def test_what_a_host_told_counts_when_it_has_ended_and_what_it_led_is_led_elsewhere() -> None:
    world = DeletingHosts()
    world.start("a", orders=500)
    world.start("b", orders=500)
    world.delete("a", 400)
    assert not world.broken()

    world.end("a")
    assert not world.broken(), "nothing of its 100 is loaded elsewhere yet"
    world.tiered["b"]["orders"] += 100
    world.delete("b", 101)
    assert world.broken()

    world.now_ms += 61 * MINUTE_MS
    assert not world.broken()


def test_a_host_that_is_replaced_by_another_process_adds_nothing_twice() -> None:
    world = DeletingHosts()
    world.start("a", orders=1000)
    world.delete("a", 400)
    assert not world.broken()

    world.start("a", orders=600)
    assert not world.broken()
    world.delete("a", 101)
    assert world.broken()


def test_what_an_unanswered_ping_told_is_told_again() -> None:
    world = DeletingHosts()
    world.start("a", orders=1000)
    assert not world.broken()
    world.delete("a", 600)

    assert not world.broken(is_answered=False)
    assert world.broken()


def test_a_topic_has_a_share_of_its_own() -> None:
    world = DeletingHosts(50, 60)
    world.start("a", orders=500, payments=9000)
    world.start("b", orders=500, payments=9000)
    world.delete("a", 500)
    assert not world.broken(), "half of it, though all of what that host leads"

    world.delete("b", 101)
    (hold,) = world.broken().values()

    assert (hold.name, hold.topic, hold.topic_id) == (
        "breaker-orders",
        "orders",
        TOPICS["orders"],
    )
    assert hold.reason == (
        "brokers deleted 601 of 1000 bytes of orders within an hour, more than 60 %"
    )
    world.restart()
    assert [*world.broken()] == ["breaker-orders"]
    world.released_ms["breaker-orders"] = world.now_ms
    assert not world.broken()


def test_a_topics_own_deletion_counts_for_the_cluster_only() -> None:
    world = DeletingHosts(50, 60)
    world.start("a", orders=1000, payments=1000)

    world.delete("a", 1000, is_expired=False)
    assert not world.broken()
    world.delete("a", 1, "payments")
    assert [*world.broken()] == ["breaker"]


def test_a_long_topics_hold_is_named_by_its_id() -> None:
    assert name_of("o" * 92, bytes(16)) == "breaker-" + "o" * 92
    assert name_of("o" * 93, bytes(16)) == "breaker-AAAAAAAAAAAAAAAAAAAAAA"


@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300) | st.none()), max_size=20),
)
def test_it_breaks_just_when_more_than_the_share_went_from_all_hosts(
    is_coordinator: bool, steps: list[tuple[int, int | None]]
) -> None:
    """Whatever restarts now and then: the coordinator, or hosts."""
    world, gone = DeletingHosts(), 0
    for host in "abc":
        world.start(host, orders=500)
    for number, size in steps:
        host = "abc"[number]
        left = world.tiered[host]["orders"]
        if size is not None:
            world.delete(host, min(size, left))
            gone += min(size, left)
        elif is_coordinator:
            world.restart()
        else:
            world.start(host, orders=left)

        assert bool(world.broken()) is (gone > 750)


async def test_the_coordinator_looks_by_the_time_of_day_as_hosts_count() -> None:
    looked: list[int] = []

    class WatchedBreaker(Breaker):
        @override
        def broken(
            self, running: Collection[str], now_ms: int, released_ms: Mapping[str, int]
        ) -> Sequence[Hold]:
            looked.append(now_ms)
            return super().broken(running, now_ms, released_ms)

    host, clock = DeafHost(MemoryBackend(), "host-0/1"), WallClock()
    service = await started(host, clock, breaker=WatchedBreaker())
    await service.announce(leads(await registered(service, 1), 1))
    await eventually(lambda: bool(looked))
    await service.close()

    assert abs(looked[-1] - clock.now_ms()) < MINUTE_MS
