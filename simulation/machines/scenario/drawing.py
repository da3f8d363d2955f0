"""Draws the parts of a seed's scenario: calls of brokers, elections, delays, clocks."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from itertools import accumulate
from random import Random
from typing import Any

from tierledger.simulation.machines.environment.clockwork import MS
from tierledger.simulation.machines.scenario.scenario import SeedDecision
from tierledger.simulation.machines.scenario.streams import Size, chance

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

WHOLE_EVERY = 10
"""One seed in so many, from 0 on, is a whole world; the others are small ones."""


def is_small(seed: int) -> bool:
    """Whether it is a small world: most mistakes need few calls in the right order."""
    return seed % WHOLE_EVERY != 0


def some_hosts(size: Size, name: str) -> tuple[str, ...]:
    """The names of some hosts in a tenth of the worlds; in the others none."""
    drawn = chance(size.seed, name) * 10
    count = 1 + int(drawn * size.hosts) if drawn < 1 else 0
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


def skews(random: Random) -> tuple[int, ...]:
    spread = random.choice((0, 50, 3_600_000))
    return tuple(random.randint(-spread, spread) if spread else 0 for _ in range(5))


def work(size: Size, count: int) -> list[SeedDecision]:
    """Calls of brokers, often several at a time; only brokers that believe they lead write."""
    random, operation = size.stream("work"), _operations(size)
    draw, decisions = random.random, []
    begin, length = 400 * MS, size.duration - 900 * MS
    burst_at = 0
    for at in range(count):
        if at % 4 == 0:
            burst_at = begin + int(length * draw())
        when = burst_at + int(draw() * (2 * MS if at % 8 < 4 else 60 * MS))
        partition = int(draw() * size.partitions)
        broker = 1 + int(draw() * size.brokers)
        chosen, named, number = draw(), draw(), int(draw() * 1000)
        if chosen < 0.06:
            # Half of them ask for what holds already: a stale leader may not confirm even that.
            what = "delete unknown" if named < 0.5 else operation(2 * named - 1)
            args: tuple[Any, ...] = (int(draw() * 8), partition, what, number)
            decisions.append(SeedDecision(when, "zombie copy", args))
        elif chosen < 0.56:
            args = (partition, int(draw() * 2), operation(named), number)
            decisions.append(SeedDecision(when, "copy", args))
        else:
            role = draw() < 0.45
            args = (broker, partition, int(draw() * 2), int(role), int(named * 7), number)
            decisions.append(SeedDecision(when, "read", args))
    return decisions


def _operations(size: Size) -> Callable[[float], str]:
    """Draws an operation of this world by its weight; about half of the rare ones are off."""
    on = {
        name: weight
        for name, weight in OPERATIONS.items()
        if weight > 1 or chance(size.seed, f"may {name}") < 0.5
    }
    names, ends = list(on), list(accumulate(on.values()))
    return lambda chance: names[bisect(ends, chance * ends[-1])]


def elections(size: Size, *, small: bool) -> list[SeedDecision]:
    random = size.stream("elections")
    draw, decisions = random.random, []
    for _ in range(random.randint(3, 5) if small else random.randint(8, 14)):
        at = 500 * MS + int((size.duration - 1200 * MS) * draw())
        partition = int(draw() * size.partitions)
        kind = draw()
        if kind < 0.1:
            decisions.append(
                SeedDecision(
                    at, "move replica", (partition, int(draw() * 4), int(draw() * 2000))
                )
            )
            continue
        delays = [int(draw() * 20) if draw() < 0.7 else int(draw() * 1500) for _ in range(2)]
        args = (partition, int(draw() * 4), *delays, int(draw() < 0.9))
        decisions.append(SeedDecision(at, "elect", args))
    return decisions
