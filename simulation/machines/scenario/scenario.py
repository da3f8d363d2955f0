"""Scenarios: the size, limits and faults of a seed's world, and each decision with its time.

A run is a function of its scenario. Decisions name what they strike by time and place, not by
the order in which something happens, so any of them can be left out of a failing run.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple, TypeVar

from tierledger.simulation.machines.environment.clockwork import MS, S
from tierledger.simulation.machines.environment.medium import (
    FALSE_EXISTS,
    LATE,
    LOSE_ANSWER,
    REFUSE,
    SLOW,
    SLOW_ANSWER,
    STALE,
)
from tierledger.simulation.machines.environment.medium import LOSE as LOSE_WRITE
from tierledger.simulation.machines.environment.medium import TWICE as WRITE_TWICE
from tierledger.simulation.machines.environment.wires import DELAY, LOSE, TWICE
from tierledger.simulation.machines.scenario.knobs import KNOBS

T = TypeVar("T")

OUTAGES = ("verdict", "verdict", "read", "append", "loaded")
"""Points at which an outage of the store meets a step that is taken only once."""

OPERATIONS: dict[str, int] = {
    "go on": 50,
    "start": 8,
    "retire": 16,
    "add again": 1,
    "add other content": 1,
    "add what was deleted": 1,
    "add what is being deleted": 2,
    "overlap": 3,
    "finish the newest": 4,
    "finish again": 1,
    "finish over limit": 1,
    "finish at limit": 1,
    "finish unknown": 1,
    "finish too early": 1,
    "finish what is deleted": 1,
    "delete unknown": 1,
    "delete again": 1,
    "give a copy up": 1,
    "bury too early": 1,
}
"""What a broker may do to a segment, with weights; without a fitting one it does "go on"."""

POINTS = ("durable", "append", "loaded", "checkpointed", "coordinated")
"""Points at which faults are planned: there, crashes by chance would be rare."""

RETENTIONS_MS = (150, 1500, 7 * 24 * 3600 * 1000)
"""How long ids of deleted segments are remembered: in most worlds they come to be forgotten."""

ROWS_KEPT = (0, 0, 0, 1, 1, 3, 12, 80)
"""Finished segments that a broker keeps in a partition; with more it deletes the oldest."""

REPEATS = 0.5
"""The share of worlds in which Kafka repeats its notifications; in the others one suffices."""


class Decision(NamedTuple):
    """One thing that a seed does to its world."""

    at: int
    """Microseconds."""
    kind: str
    """One of `strikes.STRIKES`."""
    args: tuple[Any, ...]


REPLICAS_EVERY, REPLICAS_FIRST = 8, 2
"""One seed in so many has replicas, beginning with this one; they cost a third of its time."""


MOVES_EVERY, MOVES_FIRST = 16, 5
"""In one seed in so many a cluster moves, beginning with this one."""


class Scenario(NamedTuple):
    """All that determines the run of one world."""

    seed: int
    brokers: int
    hosts: int
    partitions: int
    partitions_per_host: int
    duration: int
    """Microseconds during which anything may fail; then all heals."""
    delays: tuple[int, ...]
    """The delays of messages and requests (us), used in turn."""
    skews_ms: tuple[int, ...]
    """How far the clocks of processes are off."""
    known_epochs: int
    """Percent of announcements that carry a leader epoch, as Kafka's never do."""
    oracle_knows: int
    """Percent of requests that the leader oracle answers."""
    knobs: tuple[tuple[str, int], ...]
    """The service's constants, at values that make rare situations common."""
    upgraded: tuple[str, ...]
    """Hosts that run a newer release."""
    writes_newer: bool
    """Whether the newer release already writes a format that other releases cannot read."""
    decisions: tuple[Decision, ...]
    patience: int = 2 * S
    """How long (us) a client repeats a call before it gives up."""
    attempt: int = 400 * MS
    """How long (us) a client waits for the answer to one attempt before it retries."""
    repeats: bool = True
    """Whether Kafka repeats its notifications of brokers from time to time."""
    outdated: tuple[str, ...] = ()
    """Hosts that run an older release: they write checkpoints in its format."""
    retention_ms: int = RETENTIONS_MS[-1]
    """How long ids of deleted segments are remembered."""
    rows_kept: int = 3
    """Finished segments that a broker keeps in a partition; with more it deletes the oldest."""
    oracle_behind: int = 0
    """How many elections the leader oracle may be behind."""
    oracle_delay: int = 0
    """How long (us) an answer of the oracle takes."""
    asks_kafka: bool = False
    """Whether coordinators ask the oracle about announcements that carry no epoch."""
    has_replicas: bool = False
    """Whether brokers keep replicas that are fed."""
    moves: bool = False
    """Whether brokers have the plugin, and the cluster's metadata is moved back and forth."""
    is_part: bool = False
    """Whether it was made from another one: too little may happen in it for `MINIMUMS`."""

    def kept(self, indices: frozenset[int]) -> Scenario:
        """The same world with only those decisions."""
        decisions = [one for at, one in enumerate(self.decisions) if at in indices]
        return self._replace(decisions=tuple(decisions), is_part=True)


def is_small(seed: int) -> bool:
    """Nine of ten seeds are small worlds: most mistakes need few calls in the right order."""
    return seed % 10 != 0


def drawn(seed: int, *, small: bool | None = None) -> Scenario:
    """The scenario of `seed`. Each of its parts has random numbers of its own: see `_Shape`."""
    small = is_small(seed) if small is None else small
    moves = seed % MOVES_EVERY == MOVES_FIRST
    shape = _Shape(
        seed=seed,
        brokers=_pick(seed, "brokers", (2, 3)),
        hosts=_pick(seed, "hosts", (3, 4) if small else (3, 4, 5)),
        partitions=1 if moves else _pick(seed, "partitions", (1, 1, 2) if small else (2, 3, 4)),
        duration=(5 if small else 14) * S,
    )
    decisions = [
        *(_moves(shape) if moves else _work(shape, 52 if small else 250)),
        *_elections(shape, small=small),
        *(one for one in _faults(shape, small=small) if not (moves and one.kind in UNMOVED)),
    ]
    decisions.sort(key=lambda one: one.at)
    upgraded = _some_hosts(shape, "upgraded")
    repeats = _chance(seed, "repeats") < REPEATS and not moves
    room = (1, 2, 64) if shape.partitions < 3 else (64,)
    return Scenario(
        seed=seed,
        brokers=shape.brokers,
        hosts=shape.hosts,
        partitions=shape.partitions,
        partitions_per_host=_pick(seed, "room", room),
        duration=shape.duration,
        delays=delays_of(shape.stream("delays"), _pick(seed, "delay", (300, 800, 5000))),
        skews_ms=_skews(shape.stream("skews")),
        known_epochs=_pick(seed, "epochs", (0, 50, 100, 100)),
        oracle_knows=_pick(seed, "oracle", (0, 50, 100)),
        knobs=tuple((name, _pick(seed, name, values)) for name, values in KNOBS.items()),
        upgraded=upgraded,
        writes_newer=bool(upgraded) and _chance(seed, "newer") < 0.5,
        decisions=tuple(decisions),
        attempt=_pick(seed, "attempt", (400 * MS, 400 * MS, 3 * S)),
        patience=_pick(seed, "patience", (160 * MS, 500 * MS, 2 * S, 2 * S)),
        repeats=repeats,
        outdated=_some_hosts(shape, "outdated"),
        retention_ms=_pick(seed, "retention", RETENTIONS_MS),
        rows_kept=_pick(seed, "rows", ROWS_KEPT),
        # A wrong answer of an oracle that is behind is only mended by Kafka's repeats.
        oracle_behind=_pick(seed, "behind", (0, 1, 2)) if repeats else 0,
        oracle_delay=_pick(seed, "oracle delay", (0, 20 * MS, 900 * MS)),
        asks_kafka=_pick(seed, "asks kafka", (False, True)),
        has_replicas=moves or seed % REPLICAS_EVERY == REPLICAS_FIRST,
        moves=moves,
    )


def _chance(seed: int, name: str) -> float:
    """A number from 0 to 1 that depends on `seed` and `name` alone."""
    drawn = blake2b(f"{seed}:{name}".encode(), digest_size=7).digest()
    return int.from_bytes(drawn, "big") / (1 << 56)


def _pick(seed: int, name: str, values: Sequence[T]) -> T:
    return values[int(_chance(seed, name) * len(values))]


class _Shape(NamedTuple):
    seed: int
    brokers: int
    hosts: int
    partitions: int
    duration: int

    def stream(self, name: str) -> Random:
        """The random numbers of one purpose: draws for another purpose do not change them."""
        return Random(f"{self.seed}:{name}")


def _some_hosts(shape: _Shape, name: str) -> tuple[str, ...]:
    """The names of some hosts in a tenth of the worlds; in the others none."""
    chance = _chance(shape.seed, name) * 10
    count = 1 + int(chance * shape.hosts) if chance < 1 else 0
    return tuple(f"host-{at}" for at in range(count))


def delays_of(random: Random, base: int) -> tuple[int, ...]:
    has_stragglers = random.random() < 0.5
    delays = []
    for _ in range(101):
        delay = int(base * (0.2 + random.random()))
        if has_stragglers and random.random() < 0.02:
            delay += int(300 * MS * random.random())
        delays.append(delay)
    return tuple(delays)


def _skews(random: Random) -> tuple[int, ...]:
    spread = random.choice((0, 50, 3_600_000))
    return tuple(random.randint(-spread, spread) if spread else 0 for _ in range(5))


def _work(shape: _Shape, count: int) -> list[Decision]:
    """Calls of brokers, often several at a time; only brokers that believe they lead write."""
    random, operation = shape.stream("work"), _operations(shape)
    draw, decisions = random.random, []
    begin, length = 400 * MS, shape.duration - 900 * MS
    burst_at = 0
    for at in range(count):
        if at % 4 == 0:
            burst_at = begin + int(length * draw())
        when = burst_at + int(draw() * (2 * MS if at % 8 < 4 else 60 * MS))
        partition = int(draw() * shape.partitions)
        broker = 1 + int(draw() * shape.brokers)
        chosen, named, number = draw(), draw(), int(draw() * 1000)
        if chosen < 0.06:
            # Half of them ask for what holds already: a stale leader may not confirm even that.
            what = "delete unknown" if named < 0.5 else operation(2 * named - 1)
            args: tuple[Any, ...] = (int(draw() * 8), partition, what, number)
            decisions.append(Decision(when, "zombie copy", args))
        elif chosen < 0.56:
            args = (partition, int(draw() * 2), operation(named), number)
            decisions.append(Decision(when, "copy", args))
        else:
            role = draw() < 0.45
            args = (broker, partition, int(draw() * 2), int(role), int(named * 7), number)
            decisions.append(Decision(when, "read", args))
    return decisions


def _operations(shape: _Shape) -> Callable[[float], str]:
    """Draws an operation of this world by its weight; about half of the rare ones are off."""
    on = {
        name: weight
        for name, weight in OPERATIONS.items()
        if weight > 1 or _chance(shape.seed, f"may {name}") < 0.5
    }
    names, ends = list(on), list(accumulate(on.values()))
    return lambda chance: names[bisect(ends, chance * ends[-1])]


def _moves(shape: _Shape) -> list[Decision]:
    """Moves of the cluster, and events that may disturb them."""
    random, decisions = shape.stream("moves"), []
    for _ in range(2 * shape.duration // S):
        at = 300 * MS + int((shape.duration - 300 * MS) * random.random())
        kind = random.random()
        if kind < 0.75:
            decisions.append(Decision(at, "move the cluster", ()))
        elif kind < 0.8:
            decisions.append(Decision(at, "interrupt the move", ()))
        elif kind < 0.9:
            decisions.append(Decision(at, "stock broker comes late", ()))
        else:
            broker_id = 1 + int(random.random() * shape.brokers)
            decisions.append(Decision(at, "restart broker", (broker_id, 1)))
    return decisions


UNMOVED = frozenset(
    {
        "power cut",
        "zombie announces",
        "lie",
        "delete partition",
        "rot",
        "tear",
        "stray",
        "rot checkpoint",
        "copy run",
        "import",
        "bury",
        "import, then delete",
        "release",
    }
)
"""Kinds of decisions that do not strike a cluster that moves: those that damage logs, or write
by other means than the plugin."""


def _elections(shape: _Shape, *, small: bool) -> list[Decision]:
    random = shape.stream("elections")
    draw, decisions = random.random, []
    for _ in range(random.randint(3, 5) if small else random.randint(8, 14)):
        at = 500 * MS + int((shape.duration - 1200 * MS) * draw())
        partition = int(draw() * shape.partitions)
        kind = draw()
        if kind < 0.1:
            decisions.append(
                Decision(at, "move replica", (partition, int(draw() * 4), int(draw() * 2000)))
            )
            continue
        delays = [int(draw() * 20) if draw() < 0.7 else int(draw() * 1500) for _ in range(2)]
        args = (partition, int(draw() * 4), *delays, int(draw() < 0.9))
        decisions.append(Decision(at, "elect", args))
    return decisions


def _faults(shape: _Shape, *, small: bool) -> list[Decision]:
    """Faults of the kinds that are on in this seed, each with random numbers of its own."""
    decisions = []
    mean = FAULTS_SMALL if small else FAULTS_LARGE
    for kind, share in FAULTS.items():
        if _chance(shape.seed, kind) >= share:
            continue
        random = shape.stream(kind)
        draw = random.random
        for _ in range(round(random.expovariate(1 / mean)) or kind in HABITS):
            at = 450 * MS + int((shape.duration - 1000 * MS) * draw())
            name, args = _MADE[kind](shape, random)
            decisions.append(Decision(at, name, args))
    return decisions


FAULTS_SMALL, FAULTS_LARGE = 0.8, 3.0
"""The average number of faults of a kind that is on; a small world has half a dozen in all."""

HABITS = frozenset(
    {
        "copy run",
        "import",
        "release",
        "close host",
        "delete partition",
        "slow follower",
        "outage",
        "rival elections",
        "bury",
        "import, then delete",
    }
)
"""Kinds of faults that strike at least once in each seed in which they are on."""

FAULTS: dict[str, float] = {
    "depose": 0.75,
    "kill host": 0.3,
    "pause host": 0.3,
    "cut off host": 0.2,
    "mute host": 0.45,
    "fuse": 0.5,
    "doze": 0.3,
    "kill coordinator": 0.3,
    "pause coordinator": 0.2,
    "second coordinator": 0.2,
    "restart broker": 0.3,
    "zombie announces": 0.15,
    "pause broker": 0.2,
    "power cut": 0.1,
    "clock steps": 0.2,
    "wire": 0.5,
    "cut": 0.3,
    "clog": 0.2,
    "store": 0.6,
    "store away": 0.2,
    "bad spell": 0.25,
    "two fates": 0.2,
    "troubled election": 0.2,
    "lie": 0.15,
    "assign": 0.2,
    "contend": 0.12,
    "tell all": 0.3,
    "delete partition": 0.06,
    "damage": 0.08,
    "rot checkpoint": 0.06,
    "copy run": 0.2,
    "import": 0.2,
    "slow follower": 0.15,
    "release": 0.15,
    "close host": 0.15,
    "outage": 0.2,
    "rival elections": 0.12,
    "bury": 0.05,
    "import, then delete": 0.04,
}
"""Each kind of fault, and the share of seeds in which it is on."""


def _host(shape: _Shape, random: Random) -> str:
    return f"host-{int(random.random() * shape.hosts)}"


def _partition(shape: _Shape, random: Random) -> int:
    return int(random.random() * shape.partitions)


def _broker(shape: _Shape, random: Random) -> str:
    return f"broker-{1 + int(random.random() * shape.brokers)}"


def _anybody(shape: _Shape, random: Random) -> str:
    drawn = random.random()
    if drawn < 0.45:
        return _host(shape, random)
    return _broker(shape, random) if drawn < 0.8 else "coordinator"


def _length(random: Random) -> int:
    """A duration (ms): short, long enough to be missed, or very long."""
    return int((200, 1000, 3000)[int(random.random() * 3)] * (0.5 + random.random()))


def _soon(random: Random) -> int:
    """A delay (ms): hardly any, or a while."""
    return int(random.random() * (15 if random.random() < 0.5 else 900))


def _wire(shape: _Shape, random: Random) -> tuple[str, tuple[Any, ...]]:
    source, target = _anybody(shape, random), _anybody(shape, random)
    fate = (LOSE, DELAY, TWICE)[int(random.random() * 3)]
    return "wire", (source, target, fate, int(random.random() * 900) * MS)


def _store(shape: _Shape, random: Random) -> tuple[str, tuple[Any, ...]]:
    site = "coordinator" if random.random() < 0.2 else _host(shape, random)
    fates = (
        REFUSE, LOSE_WRITE, LOSE_ANSWER, LOSE_ANSWER, LATE, LATE, WRITE_TWICE, FALSE_EXISTS,
        SLOW, SLOW_ANSWER, SLOW_ANSWER, STALE,
    )  # fmt: skip
    fate = fates[int(random.random() * len(fates))]
    return "store", (site, fate, int(random.random() * 2500) * MS)


def _two_fates(shape: _Shape, random: Random) -> tuple[str, tuple[Any, ...]]:
    first = (LATE, LOSE_ANSWER, LOSE_WRITE, FALSE_EXISTS)[int(random.random() * 4)]
    second = (REFUSE, FALSE_EXISTS, LOSE_ANSWER)[int(random.random() * 3)]
    by = int(random.random() * 1200) * MS
    count = 1 if _chance(shape.seed, "one write") < 0.5 else 12
    return "two fates", (_partition(shape, random), first, second, by, count)


def _fuse(shape: _Shape, random: Random) -> tuple[str, tuple[Any, ...]]:
    point = POINTS[int(random.random() * len(POINTS))]
    site = "coordinator" if point == "coordinated" else _host(shape, random)
    return "fuse", (site, point)


def _damage(shape: _Shape, random: Random) -> tuple[str, tuple[Any, ...]]:
    partition = int(random.random() * shape.partitions)
    kind = int(random.random() * 3)
    number, bit = int(random.random() * 1000), int(random.random() * 4000)
    if kind == 2 and shape.partitions > 1:
        return "stray", (partition, (partition + 1) % shape.partitions)
    return ("rot", "tear")[kind % 2], (partition, number, bit)


_MADE: dict[str, Any] = {
    "contend": lambda s, r: (
        "contend",
        (int(r.random() * s.partitions), int(r.random() * 4), 5 + int(r.random() * 30)),
    ),
    "depose": lambda s, r: ("depose", (int(r.random() * s.partitions), int(r.random() * 4))),
    "kill host": lambda s, r: ("kill", (_host(s, r),)),
    "pause host": lambda s, r: ("pause", (_host(s, r), _length(r))),
    "cut off host": lambda s, r: ("cut off", (_host(s, r),)),
    "mute host": lambda s, r: ("mute", (_partition(s, r), 100 + int(r.random() * 900))),
    "fuse": _fuse,
    "doze": lambda s, r: ("doze", (_partition(s, r), 1600 + int(r.random() * 2000))),
    "kill coordinator": lambda s, r: ("kill", ("coordinator",)),
    "pause coordinator": lambda s, r: ("pause", ("coordinator", _length(r))),
    "second coordinator": lambda s, r: ("second coordinator", ()),
    "restart broker": lambda s, r: (
        "restart broker",
        (1 + int(r.random() * s.brokers), int(r.random() < 0.5)),
    ),
    "zombie announces": lambda s, r: (
        "zombie announces",
        (
            1 + int(r.random() * s.brokers),
            int(r.random() * s.partitions),
            int(r.random() * 500),
        ),
    ),
    "pause broker": lambda s, r: ("pause", (_broker(s, r), _length(r))),
    "power cut": lambda s, r: ("power cut", (int(r.random() * 65536),)),
    "clock steps": lambda s, r: (
        "clock steps",
        (_host(s, r), int((r.random() - 0.5) * 20_000)),
    ),
    "wire": _wire,
    "cut": lambda s, r: ("cut", (_anybody(s, r), _anybody(s, r), _length(r))),
    "clog": lambda s, r: ("clog", (_anybody(s, r), _anybody(s, r), _length(r) // 2)),
    "store": _store,
    "store away": lambda s, r: ("store away", (_length(r) // 2,)),
    "bad spell": lambda s, r: (
        "bad spell",
        (_host(s, r), _length(r), int(r.random() < 0.5)),
    ),
    "two fates": _two_fates,
    "troubled election": lambda s, r: (
        "troubled election",
        (
            _partition(s, r),
            int(r.random() * 4),
            10 + int(r.random() * 400),
            int(r.random() < 0.5),
        ),
    ),
    "copy run": lambda s, r: ("copy run", (_partition(s, r), 10 + int(r.random() * 60))),
    "import": lambda s, r: (
        "import",
        (_partition(s, r), int(r.random() * 1000), 4 + int(r.random() * 20)),
    ),
    "slow follower": lambda s, r: (
        "slow follower",
        (_partition(s, r), 80 + int(r.random() * 600), 1 + int(r.random() * s.brokers)),
    ),
    "outage": lambda s, r: (
        "outage",
        (OUTAGES[int(r.random() * len(OUTAGES))], 20 + int(r.random() * 400)),
    ),
    "rival elections": lambda s, r: (
        "rival elections",
        (
            _partition(s, r),
            int(r.random() * 4),
            1 + int(r.random() * (10 if r.random() < 0.4 else 300)),
            *(int(r.random() * 500) for _ in range(3)),
        ),
    ),
    "bury": lambda s, r: ("bury", (_partition(s, r), 20 + int(r.random() * 60))),
    "import, then delete": lambda s, r: (
        "import, then delete",
        (
            _partition(s, r),
            int(r.random() * 1000),
            4 + int(r.random() * 20),
            300 + int(r.random() * 600),
        ),
    ),
    "release": lambda s, r: ("release", (_partition(s, r), _soon(r))),
    "close host": lambda s, r: ("close host", (_host(s, r),)),
    "lie": lambda s, r: ("lie", (int(r.random() * 100),)),
    "assign": lambda s, r: ("assign", (int(r.random() * 8), int(r.random() * 200))),
    "tell all": lambda s, r: (
        "tell all",
        (1 + int(r.random() * s.brokers), int(r.random() * 1000)),
    ),
    "delete partition": lambda s, r: ("delete partition", (int(r.random() * s.partitions),)),
    "damage": _damage,
    "rot checkpoint": lambda s, r: (
        "rot checkpoint",
        (int(r.random() * s.partitions), int(r.random() * 100), int(r.random() * 4000)),
    ),
}
"""By the kind of a fault, the function that draws its decision's kind and arguments."""
