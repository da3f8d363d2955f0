"""The plan of a world, made from a seed: its size, its faults, and how often each occurs.

Every seed switches a random part of the faults off, so that frequent faults do not hide rare
ones. Each purpose has a named random stream of its own: another draw in one changes no other.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from tierledger.actors.door.limits import DoorLimits
from tierledger.simulation.machines.scenario.drawing import delays_of
from tierledger.simulation.machines.scenario.knobs import KNOBS


def stream(seed: int, name: str) -> Random:
    """The random generator of one purpose; it gives the same numbers in every process."""
    return Random(f"{seed}:{name}")


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """How messages travel."""

    delays: tuple[int, ...] = (400, 200, 500, 300)
    """Delays of messages and of requests to the store, in us, used in turn."""
    loss_chance: float = 0.0
    timeout_s: float = 2.0
    """Timeout of a call. Ray calls have a minute, but no simulated process is that slow."""

    def healed(self) -> NetworkPlan:
        return replace(self, loss_chance=0.0)


@dataclass(frozen=True, slots=True)
class StorePlan:
    """How the store serves."""

    fault_chance: float = 0.0
    slow_step_chance: float = 0.0
    """Chance that an atomic step, such as a checkpoint's, is delayed."""

    def healed(self) -> StorePlan:
        return StorePlan()


@dataclass(frozen=True, slots=True)
class DoorPlan:
    """Faults and limits of the streams to hosts' doors. A chance of 0 means never."""

    limits: DoorLimits = field(default_factory=DoorLimits)
    window: int = 65_536
    """Bytes that may lie unread before the writer has to wait."""
    keepalive_s: float = 1.0
    """Seconds between two keepalives; a connection ends after two unanswered ones."""
    is_proxied: bool = False
    """A proxy between the ends answers keepalives, also for a frozen process."""
    silent_end_chance: float = 0.0
    """Chance that a connection ends without the other side learning of it."""
    slow_reader_chance: float = 0.0
    slow_reader_s: float = 0.3
    """A slow client's pause before each frame that it reads."""
    break_every_s: float = 0.0
    """Mean time between two connections that break; 0: none does."""
    behind_walls: int = 0
    """Each client reaches only one of this many hosts, which forwards calls; 0: all hosts."""
    freezes: bool = False
    """One host is frozen for good, its connections open."""
    closes: bool = False
    """Nobody reaches one host's door any more, for good; pings, and what it sends, go on."""
    shut_out_every_s: float = 0.0
    """Mean time between two faults that break a client's connections in the middle of its work
    and keep it from all doors for longer than a call may take; 0: never."""

    def healed(self) -> DoorPlan:
        return replace(self, silent_end_chance=0.0, slow_reader_s=0.0)


@dataclass(frozen=True, slots=True)
class WorldPlan:
    """One world. A chance or count of 0 switches its fault off."""

    seed: int
    brokers: int
    hosts: int
    partitions: int
    partitions_per_host: int
    one_writer: bool
    """The store is a file: one host writes it for all."""
    network: NetworkPlan
    store: StorePlan
    duration_s: float
    """Virtual time during which anything may fail; then all heals."""
    think_s: float
    """Mean pause of a client between two calls; 0 for none."""
    copiers: int
    """Calls that a leader has outstanding, per partition."""
    calls_max: int
    """Calls after which all clients stop calling, so that seeds cost about the same."""
    fault_every_s: float
    """Mean time between two of the disturbances below."""
    faults: tuple[str, ...]
    """Which disturbances this seed draws from."""
    change_every_s: float
    """Mean time between two changes of leaders."""
    known_epochs: float
    """Share of announcements that carry a leader epoch. Kafka's never carry one."""
    crash_after_create: float
    """Chance that a process dies after its write is durable and before it learns so."""
    clock_spread_s: float
    """By how much a process's clock may be wrong, ahead or behind."""
    clock_off: tuple[str, int] | None
    """The host, or `coordinator`, whose clock is wrong by so many days more; None: all are
    right."""
    knobs: tuple[tuple[str, int], ...]
    """The service's constants, at values that make rare situations common."""
    oracle_answers: float
    """Chance that the leader oracle knows the leader when it is asked."""
    doors: DoorPlan
    """Faults and limits of the streams by which brokers reach the service."""


DOOR_FAULTS = (
    "connection broken",
    "connection ended silently",
    "connection frozen out",
    "frames wait for a slow reader",
    "writer waits for a reader",
    "host frozen for good",
    "door closed for good",
    "client shut out",
)
"""Marks of faults and waits on streams."""

FAULTS = (
    "kill host",
    "pause host",
    "kill coordinator",
    "cut off coordinator",
    "pause coordinator",
    "cut off host",
    "cut message path",
    "kill broker",
    "pause broker",
    "store away",
    "assign twice",
    "fuse host",
)
"""Everything that the world can do to its processes."""

LEADER_MOVED = "leader moved from a host that lives"
"""The mark of a leader that another host takes over, though nothing is wrong with its own."""

CLOCK_OFF_BY_DAYS = "process whose clock is wrong by days"
"""The mark of the start of such a process, a host's or the coordinator's."""

LOG_LINE_FAILED = "log line failed"
"""The mark of a line that a process could not write to its log."""

FURTHER = (
    *DOOR_FAULTS,
    *FAULTS,
    CLOCK_OFF_BY_DAYS,
    LEADER_MOVED,
    LOG_LINE_FAILED,
    "broker fenced",
    "crash after durable, before acknowledged",
    "gave up",
    "message cut off",
    "resumed at the end",
)
"""Marks that only the service's world has."""


LONE_EVERY, LONE_FIRST = 8, 2
"""One seed in `LONE_EVERY`, from `LONE_FIRST` on, has a single host, which freezes. Clients can
only learn this from its silence: connections do not break, and keepalives are answered."""


CLOSED_SHARE = 0.3
"""In so many of the worlds with several hosts nobody reaches one of them at its door."""


OFF_SHARE = 0.4
"""In so many of the worlds with several hosts one clock is wrong by days."""


def drawn(seed: int, *, calls_max: int = 400) -> WorldPlan:
    """The plan that `seed` gives."""
    random = stream(seed, "plan")
    on = [fault for fault in FAULTS if random.random() < 0.5]
    stormy = random.random()
    plan = WorldPlan(
        seed=seed,
        brokers=random.randint(2, 4),
        hosts=random.randint(1, 4),
        partitions=random.randint(1, 4),
        partitions_per_host=random.choice((1, 2, 64)),
        one_writer=random.random() < 0.3,
        network=_network(random, stormy),
        store=_store(random, stormy),
        duration_s=random.uniform(4, 12),
        think_s=random.choice((0.02, 0.1, 0.3)),
        copiers=random.choice((1, 1, 3)),
        calls_max=calls_max,
        fault_every_s=random.choice((0.3, 1.0, 2.5)),
        faults=tuple(on),
        change_every_s=random.choice((0.3, 1.0, 3.0)),
        known_epochs=random.choice((0.0, 0.5, 1.0)),
        crash_after_create=random.choice((0.0, 0.0, 0.002, 0.02)),
        clock_spread_s=random.choice((0.0, 0.05, 3600.0)),
        clock_off=None,
        knobs=_knobs(stream(seed, "knobs")),
        oracle_answers=random.choice((0.0, 0.5, 1.0)),
        doors=DoorPlan(),
    )
    shut_outs = stream(seed, "shut outs").choice((0.0, 0.0, 2.0))
    doors = replace(_doors(stream(seed, "doors"), plan.hosts), shut_out_every_s=shut_outs)
    if seed % LONE_EVERY == LONE_FIRST:
        lone = replace(doors, freezes=True, is_proxied=True, behind_walls=0, break_every_s=0.0)
        return replace(plan, hosts=1, doors=lone)
    if plan.hosts > 1 and stream(seed, "closed door").random() < CLOSED_SHARE:
        doors = replace(doors, closes=True, behind_walls=0)
    off = _clock_off(stream(seed, "clock off"), plan.hosts) if plan.hosts > 1 else None
    return replace(plan, doors=doors, clock_off=off)


def calm(seed: int, *, calls_max: int) -> WorldPlan:
    """The plan of a world without faults, to measure its speed."""
    return replace(
        drawn(seed, calls_max=calls_max),
        brokers=3,
        hosts=3,
        partitions=8,
        partitions_per_host=64,
        one_writer=False,
        network=NetworkPlan(),
        store=StorePlan(),
        duration_s=1e9,
        think_s=0.0,
        copiers=16,
        faults=(),
        change_every_s=1e9,
        crash_after_create=0.0,
        knobs=(),
        clock_off=None,
        doors=DoorPlan(),
    )


def _clock_off(random: Random, hosts: int) -> tuple[str, int] | None:
    if random.random() >= OFF_SHARE:
        return None
    names = ["coordinator", *(f"host-{number}" for number in range(hosts))]
    return random.choice(names), random.choice((-1, 1)) * random.randint(1, 400)


KNOBS_OF_SERVICE = {
    "WRITES_MAX": (1, 3, 200),
    "SETTLED_S": (0, 1, 60),
    "SPREAD": (1, 4),
}
"""Knobs of this world alone: how many writes a client may have begun and not ended; after how
many seconds a host gets others' leaders, and by how many leaders hosts may differ. Without the
last two no run would be long enough for a leader to move."""


def _knobs(random: Random) -> tuple[tuple[str, int], ...]:
    # A client bounds only its own retries. A zombie of the same broker may retry requests that
    # are older, which a leader with fewer `REQUESTS_KEPT` would no longer recognize.
    turned = {**KNOBS, **KNOBS_OF_SERVICE}
    del turned["REQUESTS_KEPT"]
    return tuple((name, random.choice(values)) for name, values in turned.items())


def _network(random: Random, stormy: float) -> NetworkPlan:
    return NetworkPlan(
        delays=delays_of(random, random.choice((200, 500, 5000))),
        loss_chance=random.choice((0.0, 0.002, 0.02)) * stormy,
    )


def _doors(random: Random, hosts: int) -> DoorPlan:
    random.random()  # No longer used, but without this draw every seed would give another plan.
    return DoorPlan(
        limits=DoorLimits(
            calls_max=random.choice((4, 64, 4096)),
            unread_bytes_max=random.choice((2_000, 1_000_000)),
            reading_s=random.choice((1.0, 30.0)),
        ),
        window=random.choice((300, 65_536)),
        keepalive_s=random.choice((1.0, 7.5)),
        is_proxied=random.random() < 0.5,
        silent_end_chance=random.choice((0.0, 0.3)),
        slow_reader_chance=random.choice((0.0, 0.0, 0.2)),
        break_every_s=random.choice((0.0, 0.3, 2.0)),
        behind_walls=random.choice((0, 0, hosts)),
        freezes=random.random() < 0.3,
    )


def _store(random: Random, stormy: float) -> StorePlan:
    return StorePlan(
        fault_chance=random.choice((0.0, 0.01, 0.1)) * stormy,
        slow_step_chance=random.choice((0.0, 0.0, 0.3)),
    )
