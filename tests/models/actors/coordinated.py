"""A coordinator without a log: its events are encoded, decoded and applied at once."""

from tierledger.actors.calls import CloseCall, PartitionKey, Placement
from tierledger.actors.coordinator import decide, evolve
from tierledger.actors.coordinator import events as ev
from tierledger.actors.coordinator.evolve import HostWork
from tierledger.actors.coordinator.placement import place
from tierledger.actors.coordinator.state import CoordinatorState, Entry
from tierledger.events.commands import Claim
from tierledger.events.event_codec import chain, genesis
from tierledger.events.log_events import Event

TOPIC_ID = bytes(range(16))
GENESIS = genesis("cluster", b"coordinator", 0)


class Coordinated:
    """The coordinator's rules and state. Methods return the work for hosts that results."""

    def __init__(self, *hosts: str, per_host: int = 4096) -> None:
        self.per_host = per_host
        self.state = CoordinatorState(GENESIS)
        self.events: list[Event] = []
        self.announcements: dict[int, int] = {}
        for host in hosts:
            self.start(host)

    def event(self, body: ev.CoordinatorBody) -> Event:
        return Event(self.state.next_position, 0, 5, -1, None, body)  # type: ignore[arg-type] # A codec of its own.

    def evolve(self, body: ev.CoordinatorBody) -> list[HostWork]:
        """Encode, decode and apply an event of `body`; returns the work for hosts."""
        event = self.event(body)
        stored = ev.COORDINATOR_CODEC.encode(event, self.state.chain_hash)
        (decoded,), _ = ev.COORDINATOR_CODEC.decode(
            [stored], event.position, self.state.chain_hash
        )
        assert decoded == event
        self.state.chain_hash = chain(stored)
        self.events.append(decoded)
        return evolve.evolve(self.state, decoded)

    def apply(self, bodies: list[ev.CoordinatorBody]) -> list[HostWork]:
        """Apply events of `bodies` and of the placements that follow; returns the work."""
        works: list[HostWork] = []
        while bodies:
            for body in bodies:
                works += self.evolve(body)
            bodies = place(self.state, self.per_host)
        return works

    def start(self, host: str, number: int = 1) -> list[HostWork]:
        """Start process `number` of a host; returns the work for hosts."""
        address = f"{host}/{number}"
        return self.apply(decide.host_started(self.state, host, f"{address}/pid", address))

    def register(self, broker: int) -> None:
        newest = self.state.incarnations.get(broker, 0)
        request = self.state.next_position.to_bytes(8, "big")
        self.apply(decide.register(self.state, broker, request, newest))

    def announce(
        self,
        broker: int,
        leads: list[int] | None = None,
        follows: list[int] | None = None,
        stops: list[int] | None = None,
        epoch: int | None = None,
    ) -> list[HostWork]:
        """Announce roles in partitions, given by number; returns the work for hosts."""
        if broker not in self.state.incarnations:
            self.register(broker)
        self.announcements[broker] = self.announcements.get(broker, 0) + 1
        given = announcement(
            broker, self.announcements[broker], leads, follows, stops, epoch,
            self.state.incarnations[broker],
        )  # fmt: skip
        return self.apply(decide.announce(self.state, given))

    def entry(self, number: int = 0) -> Entry:
        return self.state.partitions[key(number)]

    def leader_of(self, number: int = 0) -> Claim | None:
        return self.state.route(key(number)).leader


def announcement(
    broker: int,
    number: int,
    leads: list[int] | None = None,
    follows: list[int] | None = None,
    stops: list[int] | None = None,
    epoch: int | None = None,
    incarnation: int = 1,
) -> ev.Announcement:
    return ev.Announcement(
        broker,
        incarnation,
        number,
        tuple((TOPIC_ID, one, "orders", epoch, None) for one in leads or ()),
        tuple((TOPIC_ID, one, "orders") for one in follows or ()),
        tuple((TOPIC_ID, one, "orders") for one in stops or ()),
    )


def key(number: int = 0) -> PartitionKey:
    return PartitionKey(TOPIC_ID, number)


def placements(works: list[HostWork]) -> list[Placement]:
    return [placement for work in works for placement in work.placements]


def closes(works: list[HostWork]) -> list[CloseCall]:
    return [close for work in works for close in work.closes]
