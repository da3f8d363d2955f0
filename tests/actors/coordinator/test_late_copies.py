"""Requests to the coordinator and to hosts arrive late, and once more: it changes nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.coordinated import Coordinated, announcement, key
from tests.models.local_world import eventually, lone_host
from tierledger.actors.calls import FOLLOWER, LEADER, CloseCall, PartitionKey, Placement
from tierledger.actors.coordinator import rules
from tierledger.actors.coordinator.events import Announcement
from tierledger.actors.messages import Assignment
from tierledger.events.commands import Claim
from tierledger.events.errors import RemoteStorageError
from tierledger.storage.backends.memory import MemoryBackend

BROKERS = st.integers(1, 2)
PARTITION = st.integers(0, 1)
WORDS = st.tuples(
    BROKERS,
    st.sampled_from(["register", "lead", "follow", "stop"]),
    PARTITION,
    st.integers(0, 2**32),
)


class Client:
    """One life of a broker's client at a time, as the coordinator hears it."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.incarnation = 0
        self.number = 0


Request = Callable[[Coordinated], None]


def registration(broker: int, request: bytes, after: int) -> Request:
    def send(one: Coordinated) -> None:
        one.apply(rules.register(one.state, broker, request, after))

    return send


def word(given_word: Announcement) -> Request:
    def send(one: Coordinated) -> None:
        try:
            one.apply(rules.announce(one.state, given_word))
        except RemoteStorageError:
            return
        rules.hear(one.state, given_word)

    return send


def told(words: list[tuple[int, str, int, int]], *, with_copies: bool) -> Coordinated:
    """A coordinator that heard `words`, and perhaps copies of all that was said before."""
    one = Coordinated("a", "b")
    clients = {broker: Client(broker) for broker in (1, 2)}
    sent: list[Request] = []
    for count, (broker, what, partition, seed) in enumerate(words):
        client = clients[broker]
        if what == "register" or not client.incarnation:
            newest = one.state.incarnations.get(broker, 0)
            first = registration(broker, b"%d" % count, 0)
            request = registration(broker, b"%d" % count, newest)
            sent += [first, request]
            first(one)
            request(one)
            client.incarnation, client.number = one.state.incarnations[broker], 0
        if what != "register":
            client.number += 1
            said = announcement(
                broker, client.number,
                leads=[partition] if what == "lead" else [],
                follows=[partition] if what == "follow" else [],
                stops=[partition] if what == "stop" else [],
                incarnation=client.incarnation,
            )  # fmt: skip
            sent.append(word(said))
            sent[-1](one)
        if with_copies:
            random = Random(seed)
            for late in random.sample(sent, min(3, len(sent))):
                late(one)
    return one


@given(st.lists(WORDS, max_size=25))
def test_a_late_copy_of_any_request_to_the_coordinator_changes_nothing(
    words: list[tuple[int, str, int, int]],
) -> None:
    plain, copied = told(words, with_copies=False), told(words, with_copies=True)

    assert copied.state.incarnations == plain.state.incarnations
    assert copied.state.next_position == plain.state.next_position
    for number in (0, 1):
        assert copied.state.route(key(number)) == plain.state.route(key(number))


# Hosts.

PLACES = st.lists(
    st.tuples(
        st.sampled_from(["lead", "follow", "release leader", "release follower", "close"]),
        PARTITION,
        st.integers(0, 2**32),
    ),
    max_size=12,
)


async def served(
    places: list[tuple[str, int, int]], *, with_copies: bool
) -> set[tuple[int, str]]:
    """What runs on a host that was told `places`, and perhaps copies of all before."""
    host = lone_host(MemoryBackend())
    host.start()
    sent: list[Callable[[], Awaitable[None]]] = []
    wanted: dict[tuple[int, str], int] = {}
    for number, (what, partition, seed) in enumerate(places, 1):
        at = PartitionKey(bytes(range(16)), partition)
        claim = Claim(1, 1, number)
        role = LEADER if "lead" in what else FOLLOWER
        seat = (partition, role)
        if what == "close":
            closes = [CloseCall(at, Claim(1, 1, wanted.get((partition, LEADER), 0)))]
            sent.append(lambda closes=closes: host.close_sessions(closes))  # type: ignore[misc]
        elif what.startswith("release"):
            until = wanted.pop(seat, number)
            words = [Placement(at, "orders", role, None, until=until)]
            sent.append(lambda words=words: host.place(words))  # type: ignore[misc]
        else:
            wanted[seat] = number
            words = [Placement(at, "orders", role, Assignment(number, claim, topic="orders"))]
            sent.append(lambda words=words: host.place(words))  # type: ignore[misc]
        await sent[-1]()
        if with_copies:
            for late in Random(seed).sample(sent, min(2, len(sent))):
                await late()

    def seats() -> set[tuple[int, str]]:
        return {(at.partition, role) for at, role in host._shells}

    async with asyncio.timeout(5):
        await eventually(lambda: seats() == set(wanted))
    await asyncio.sleep(0)
    found = seats()
    await host.abandon()
    return found


@settings(max_examples=30)
@given(PLACES)
def test_a_late_copy_of_any_word_to_a_host_neither_stops_nor_starts_anything(
    places: list[tuple[str, int, int]],
) -> None:
    plain = asyncio.run(served(places, with_copies=False))

    assert asyncio.run(served(places, with_copies=True)) == plain
