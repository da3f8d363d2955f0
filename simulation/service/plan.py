"""What one seed makes of a world: its size, its faults, and how often each strikes.

Every seed switches a random part of the faults off, so that rare ones are not drowned by the
rest. Separate streams are drawn by name: one more draw in one does not reshuffle the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from tierledger.actors.door.limits import DoorLimits
from tierledger.simulation.machines.knobs import KNOBS
from tierledger.simulation.machines.scenario import delays_of


def stream(seed: int, name: str) -> Random:
    """The random numbers of one purpose; the same in every process."""
    return Random(f"{seed}:{name}")


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """How messages travel."""

    delays: tuple[int, ...] = (400, 200, 500, 300)
    """Of messages, and requests to the store, in us, used in turn."""
    loss_chance: float = 0.0
    timeout_s: float = 2.0
    """After which a caller gives up on an answer (one minute on Ray; nothing here is slow)."""

    def healed(self) -> NetworkPlan:
        return replace(self, loss_chance=0.0)


@dataclass(frozen=True, slots=True)
class StorePlan:
    """How the store serves."""

    fault_chance: float = 0.0
    slow_step_chance: float = 0.0
    """Of an atomic step, as checkpoints are."""

    def healed(self) -> StorePlan:
        return StorePlan()


@dataclass(frozen=True, slots=True)
class DoorPlan:
    """How streams between clients' and hosts' doors fare. A chance of 0 is never."""

    limits: DoorLimits = field(default_factory=DoorLimits)
    window: int = 65_536
    """Bytes that may lie unread before the writer has to wait."""
    keepalive_s: float = 1.0
    """How often each end is asked for a sign of life; a connection ends after two without."""
    is_proxied: bool = False
    """Something between them answers that, also for a process that is frozen."""
    silent_end_chance: float = 0.0
    """Of an end of which the other side hears nothing."""
    slow_reader_chance: float = 0.0
    slow_reader_s: float = 0.3
    """Such a client's pause before each frame that it reads."""
    break_every_s: float = 0.0
    """Mean time between two connections that break; 0: none does."""
    behind_walls: int = 0
    """Each client reaches one of so many hosts alone, which passes calls on; 0: all."""
    freezes: bool = False
    """One host is frozen for good, its connections open."""
    shut_out_every_s: float = 0.0
    """Mean time between two clients that lose their connections, in the middle of whatever they
    do, and reach no door for longer than a call may take; 0: none does."""

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
    """Calls after which clients rest, so that seeds cost about the same."""
    fault_every_s: float
    """Mean time between two of the disturbances below."""
    faults: tuple[str, ...]
    """Which disturbances this seed draws from."""
    change_every_s: float
    """Mean time between two changes of leaders."""
    known_epochs: float
    """Share of announcements that carry a leader epoch, as Kafka's never do."""
    crash_after_create: float
    """Chance that a process dies between the durable write and the word of it."""
    clock_spread_s: float
    """How far processes' clocks are apart."""
    knobs: tuple[tuple[str, int], ...]
    """The service's constants, at values that make rare situations common."""
    oracle_answers: float
    """Chance that the leader oracle knows."""
    doors: DoorPlan
    """How the streams fare by which brokers come in."""


DOOR_FAULTS = (
    "connection broken",
    "connection ended silently",
    "connection frozen out",
    "frames wait for a slow reader",
    "writer waits for a reader",
    "host frozen for good",
    "client shut out",
)
"""What befalls streams."""

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

FURTHER = (
    *DOOR_FAULTS,
    *FAULTS,
    "broker fenced",
    "crash after durable, before acknowledged",
    "gave up",
    "message cut off",
    "resumed at the end",
)
"""Marks of this world alone."""


LONE_EVERY, LONE_FIRST = 8, 2
"""In one seed of so many, from the first on, the only host freezes, and nothing but its silence
tells clients: their connections neither break nor lack signs of life."""


def drawn(seed: int, *, calls_max: int = 400) -> WorldPlan:
    """The world that `seed` makes."""
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
        knobs=_knobs(stream(seed, "knobs")),
        oracle_answers=random.choice((0.0, 0.5, 1.0)),
        doors=DoorPlan(),
    )
    shut_outs = stream(seed, "shut outs").choice((0.0, 0.0, 2.0))
    doors = replace(_doors(stream(seed, "doors"), plan.hosts), shut_out_every_s=shut_outs)
    if seed % LONE_EVERY == LONE_FIRST:
        lone = replace(doors, freezes=True, is_proxied=True, behind_walls=0, break_every_s=0.0)
        return replace(plan, hosts=1, doors=lone)
    return replace(plan, doors=doors)


def calm(seed: int, *, calls_max: int) -> WorldPlan:
    """A world in which nothing fails, for its speed to be measured."""
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
        doors=DoorPlan(),
    )


WRITES_MAX = (1, 3, 200)
"""As few as may begin, and as few as are remembered beyond them."""


def _knobs(random: Random) -> tuple[tuple[str, int], ...]:
    # How far another life's repeats may be behind is nobody's to bound here.
    turned = {**KNOBS, "WRITES_MAX": WRITES_MAX}
    del turned["REQUESTS_KEPT"]
    return tuple((name, random.choice(values)) for name, values in turned.items())


def _network(random: Random, stormy: float) -> NetworkPlan:
    return NetworkPlan(
        delays=delays_of(random, random.choice((200, 500, 5000))),
        loss_chance=random.choice((0.0, 0.002, 0.02)) * stormy,
    )


def _doors(random: Random, hosts: int) -> DoorPlan:
    random.random()  # Without it every seed would be another world: it was once of use.
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
