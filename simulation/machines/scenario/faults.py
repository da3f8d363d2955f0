"""Faults: how often each kind is on, and what its decisions strike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tierledger.simulation.machines.environment.clockwork import MS
from tierledger.simulation.machines.environment.medium import (
    FALSE_EXISTS,
    LATE,
    LOSE_ANSWER,
    REFUSE,
    SLOW,
    SLOW_ANSWER,
)
from tierledger.simulation.machines.environment.medium import LOSE as LOSE_WRITE
from tierledger.simulation.machines.environment.medium import TWICE as WRITE_TWICE
from tierledger.simulation.machines.environment.wires import DELAY, LOSE, TWICE
from tierledger.simulation.machines.scenario.scenario import SeedDecision
from tierledger.simulation.machines.scenario.streams import Size, chance

T = TypeVar("T")

OUTAGES = ("verdict", "verdict", "read", "append", "loaded")
"""Points at which an outage of the store meets a step that is taken only once."""

POINTS = ("durable", "append", "loaded", "checkpointed", "coordinated")
"""Points at which faults are planned: there, crashes by chance would be rare."""

FAULTS_SMALL = 0.8
"""The average number of faults of a kind that is on; a small world has half a dozen in all."""


class Draw(NamedTuple):
    """Draws the arguments of one kind's decisions."""

    size: Size
    random: Callable[[], float]

    def below(self, end: int) -> int:
        return int(self.random() * end)

    def coin(self) -> int:
        return int(self.random() < 0.5)

    def partition(self) -> int:
        return self.below(self.size.partitions)

    def host(self) -> str:
        return f"host-{self.below(self.size.hosts)}"

    def broker_id(self) -> int:
        return 1 + self.below(self.size.brokers)

    def broker(self) -> str:
        return f"broker-{self.broker_id()}"

    def anybody(self) -> str:
        drawn = self.random()
        if drawn < 0.45:
            return self.host()
        return self.broker() if drawn < 0.8 else "coordinator"

    def length(self) -> int:
        """A duration (ms): short, long enough to be missed, or very long."""
        return int((200, 1000, 3000)[self.below(3)] * (0.5 + self.random()))

    def soon(self) -> int:
        """A delay (ms): hardly any, or a while."""
        return int(self.random() * (15 if self.random() < 0.5 else 900))

    def one(self, of: Sequence[T]) -> T:
        return of[self.below(len(of))]


class Fault(NamedTuple):
    """A kind of fault."""

    share: float
    """The share of seeds in which it is on."""
    draw: Callable[[Draw], tuple[Any, ...]]
    """Draws the kind of a decision, and its arguments."""
    is_sure: bool = False
    """Whether it strikes at least once in each seed in which it is on."""
    times: int = 1
    """How many times as often as others it strikes where it is on."""


def faults(
    size: Size, mean: float, kinds: Mapping[str, Fault] | None = None
) -> list[SeedDecision]:
    """Faults of the kinds that are on in this seed, each with random numbers of its own.

    `mean`: how many there are, on average, of a kind that is on.
    """
    decisions = []
    for kind, fault in (FAULTS if kinds is None else kinds).items():
        if chance(size.seed, kind) >= fault.share:
            continue
        random = size.stream(kind)
        draw = Draw(size, random.random)
        for _ in range(round(random.expovariate(1 / (mean * fault.times))) or fault.is_sure):
            at = 450 * MS + int((size.duration - 1000 * MS) * random.random())
            strike, *args = fault.draw(draw)
            decisions.append(SeedDecision(at, strike, tuple(args)))
    return decisions


def _wire(d: Draw) -> tuple[Any, ...]:
    return "wire", d.anybody(), d.anybody(), d.one((LOSE, DELAY, TWICE)), d.below(900) * MS


STORE_FATES = (
    REFUSE, LOSE_WRITE, LOSE_ANSWER, LOSE_ANSWER, LATE, LATE, WRITE_TWICE, FALSE_EXISTS,
    SLOW, SLOW_ANSWER, SLOW_ANSWER, SLOW,
)  # fmt: skip


def _store(d: Draw) -> tuple[Any, ...]:
    site = "coordinator" if d.random() < 0.2 else d.host()
    return "store", site, d.one(STORE_FATES), d.below(2500) * MS


def _two_fates(d: Draw) -> tuple[Any, ...]:
    first = d.one((LATE, LOSE_ANSWER, LOSE_WRITE, FALSE_EXISTS))
    second = d.one((REFUSE, FALSE_EXISTS, LOSE_ANSWER))
    by = d.below(1200) * MS
    count = 1 if chance(d.size.seed, "one write") < 0.5 else 12
    return "two fates", d.partition(), first, second, by, count


def _fuse(d: Draw) -> tuple[Any, ...]:
    point = d.one(POINTS)
    return "fuse", "coordinator" if point == "coordinated" else d.host(), point


def _damage(d: Draw) -> tuple[Any, ...]:
    partition, kind, number, bit = d.partition(), d.below(3), d.below(1000), d.below(4000)
    if kind == 2 and d.size.partitions > 1:
        return "stray", partition, (partition + 1) % d.size.partitions
    return ("rot", "tear")[kind % 2], partition, number, bit


def _rival_elections(d: Draw) -> tuple[Any, ...]:
    partition, choice = d.partition(), d.below(4)
    apart = 1 + int(d.random() * (10 if d.random() < 0.4 else 300))
    return "rival elections", partition, choice, apart, *(d.below(500) for _ in range(3))


FAULTS: dict[str, Fault] = {
    "depose": Fault(0.75, lambda d: ("depose", d.partition(), d.below(4))),
    "kill host": Fault(0.3, lambda d: ("kill", d.host())),
    "pause host": Fault(0.3, lambda d: ("pause", d.host(), d.length())),
    "cut off host": Fault(0.2, lambda d: ("cut off", d.host())),
    "mute host": Fault(0.45, lambda d: ("mute", d.partition(), 100 + d.below(900))),
    "fuse": Fault(0.5, _fuse),
    "doze": Fault(0.3, lambda d: ("doze", d.partition(), 1600 + d.below(2000))),
    "kill coordinator": Fault(0.3, lambda _: ("kill", "coordinator")),
    "pause coordinator": Fault(0.2, lambda d: ("pause", "coordinator", d.length())),
    "second coordinator": Fault(0.2, lambda _: ("second coordinator",)),
    "restart broker": Fault(0.3, lambda d: ("restart broker", d.broker_id(), d.coin())),
    "zombie announces": Fault(
        0.15, lambda d: ("zombie announces", d.broker_id(), d.partition(), d.below(500))
    ),
    "pause broker": Fault(0.2, lambda d: ("pause", d.broker(), d.length())),
    "power cut": Fault(0.1, lambda d: ("power cut", d.below(65536))),
    "clock steps": Fault(
        0.2, lambda d: ("clock steps", d.host(), int((d.random() - 0.5) * 20_000))
    ),
    "wire": Fault(0.5, _wire),
    "cut": Fault(0.3, lambda d: ("cut", d.anybody(), d.anybody(), d.length())),
    "clog": Fault(0.2, lambda d: ("clog", d.anybody(), d.anybody(), d.length() // 2)),
    "store": Fault(0.6, _store),
    "store away": Fault(0.2, lambda d: ("store away", d.length() // 2)),
    "bad spell": Fault(0.25, lambda d: ("bad spell", d.host(), d.length(), d.coin())),
    "two fates": Fault(0.2, _two_fates),
    "troubled election": Fault(
        0.2,
        lambda d: ("troubled election", d.partition(), d.below(4), 10 + d.below(400), d.coin()),
    ),
    "lie": Fault(0.15, lambda d: ("lie", d.below(100))),
    "assign": Fault(0.2, lambda d: ("assign", d.below(8), d.below(200))),
    "contend": Fault(0.12, lambda d: ("contend", d.partition(), d.below(4), 5 + d.below(30))),
    "tell all": Fault(0.3, lambda d: ("tell all", d.broker_id(), d.below(1000))),
    "delete partition": Fault(
        0.06, lambda d: ("delete partition", d.partition()), is_sure=True
    ),
    "damage": Fault(0.08, _damage),
    "rot checkpoint": Fault(
        0.06, lambda d: ("rot checkpoint", d.partition(), d.below(100), d.below(4000))
    ),
    "copy run": Fault(
        0.2, lambda d: ("copy run", d.partition(), 10 + d.below(60)), is_sure=True
    ),
    "import": Fault(
        0.2, lambda d: ("import", d.partition(), d.below(1000), 4 + d.below(20)), is_sure=True
    ),
    "slow follower": Fault(
        0.15,
        lambda d: ("slow follower", d.partition(), 80 + d.below(600), d.broker_id()),
        is_sure=True,
    ),
    "release": Fault(0.15, lambda d: ("release", d.partition(), d.soon()), is_sure=True),
    "close host": Fault(0.15, lambda d: ("close host", d.host()), is_sure=True),
    "replace": Fault(0.15, lambda d: ("replace", d.host()), is_sure=True),
    "outage": Fault(0.2, lambda d: ("outage", d.one(OUTAGES), 20 + d.below(400)), is_sure=True),
    "rival elections": Fault(0.12, _rival_elections, is_sure=True),
    "bury": Fault(0.05, lambda d: ("bury", d.partition(), 20 + d.below(60)), is_sure=True),
    "import, then delete": Fault(
        0.04,
        lambda d: (
            "import, then delete",
            d.partition(),
            d.below(1000),
            4 + d.below(20),
            300 + d.below(600),
        ),
        is_sure=True,
    ),
}
"""By kind."""
