"""What a cluster goes through: the steps of a life, drawn from a seed.

A life knows topics by name; a name that was deleted may be made again. Who carries a step out
keeps the cluster: `LivingCluster` on virtual time, or a real broker in tests/kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from random import Random
from typing import NamedTuple

from tierledger.simulation.machines.environment.clockwork import S
from tierledger.simulation.machines.scenario.scenario import Scenario, SeedDecision
from tierledger.simulation.service.plan import calm


class What(Enum):
    """A kind of step."""

    MAKE = "a topic is made"
    TIER = "segments are copied"
    RETAIN = "retention removes the oldest segments"
    TRASH = "the oldest segments go to the trash"
    DELETE_RECORDS = "all records so far are deleted"
    REASSIGN = "another broker leads"
    TIERING_OFF = "tiering is turned off, and the tier emptied"
    TIERING_ON = "tiering is turned on again"
    DELETE = "a topic is deleted"
    DELETE_WHILE_MOVING = "a topic is deleted while the metadata moves"
    BESIDE = "a broker without the plugin tiers and deletes beside a mirror"
    FORGET = "logs that hold nothing are forgotten, and what deleted topics left"
    UNOWNED = "a broker runs without the plugin, which then comes back"
    REPLACE = "a broker is replaced by a new one"
    RESTART = "serve is restarted"
    MOVE = "the metadata moves"
    KILL_HOST = "a host is killed while the metadata moves"
    KILL_COORDINATOR = "the coordinator is killed while the metadata moves"
    KILL_SERVE = "serve is killed while the metadata moves"
    KILL_COMMAND = "the command is killed while it moves the metadata"
    KILL_BROKER = "a broker is killed while the metadata moves"
    CUT_OFF_BROKER = "a broker is cut off while the metadata moves"
    REST = "the metadata moves both ways, twice"


class LifeStep(NamedTuple):
    """A step; `topic` is empty if it concerns the whole cluster."""

    what: What
    topic: str = ""


NAMES = ("orders", "payments", "views")

OF_TOPICS = {
    What.TIER: 8,
    What.RETAIN: 3,
    What.DELETE_RECORDS: 2,
    What.REASSIGN: 2,
    What.TIERING_OFF: 2,
    What.DELETE: 4,
    What.DELETE_WHILE_MOVING: 1,
    What.BESIDE: 1,
}
"""Steps of a topic that tiers, with weights."""

OF_MOVES = (
    What.KILL_HOST,
    What.KILL_COORDINATOR,
    What.KILL_SERVE,
    What.KILL_COMMAND,
    What.KILL_BROKER,
    What.CUT_OFF_BROKER,
)
"""What may go wrong during a move; afterwards the next one has to succeed."""

OF_CLUSTERS = {
    What.FORGET: 3,
    What.UNOWNED: 1,
    What.REPLACE: 1,
    What.RESTART: 2,
    What.MOVE: 3,
    What.REST: 1,
}


def life(
    seed: int, length: int = 24, *, without: frozenset[What] = frozenset()
) -> list[LifeStep]:
    """The steps of a seed's life, which ends at rest; none of the kinds in `without`."""
    drawn = _drawn(Random(f"life {seed}"), length)
    wrong = Random(f"what goes wrong in life {seed}")
    trash = Random(f"what goes to the trash in life {seed}")
    disturbed = (_disturbed(_kept(one, trash), wrong) for one in drawn)
    steps = [one for one in disturbed if one.what not in without]
    return [*steps, LifeStep(What.REST)]


def _kept(step: LifeStep, random: Random) -> LifeStep:
    """One of three removals only goes to the trash."""
    is_so = step.what is What.RETAIN and random.random() < 1 / 3
    return step._replace(what=What.TRASH) if is_so else step


def _disturbed(step: LifeStep, random: Random) -> LifeStep:
    """One of two moves goes wrong."""
    is_so = step.what is What.MOVE and random.random() < 0.5
    return LifeStep(random.choice(OF_MOVES)) if is_so else step


def _drawn(random: Random, length: int) -> Iterator[LifeStep]:
    tiers: dict[str, bool] = {}
    """By the name of each topic there is, whether it tiers."""
    for _ in range(length):
        if random.random() < 0.3:
            (what,) = random.choices([*OF_CLUSTERS], [*OF_CLUSTERS.values()])
            yield LifeStep(what)
            continue
        topic = random.choice(NAMES)
        if topic not in tiers:
            what = What.MAKE
        elif not tiers[topic]:
            what = random.choice((What.TIERING_ON, What.DELETE))
        else:
            (what,) = random.choices([*OF_TOPICS], [*OF_TOPICS.values()])
        yield LifeStep(what, topic)
        if what in {What.DELETE, What.DELETE_WHILE_MOVING}:
            del tiers[topic]
        elif what in {What.MAKE, What.TIERING_OFF, What.TIERING_ON}:
            tiers[topic] = what is not What.TIERING_OFF


def drawn(seed: int) -> Scenario:
    """The scenario of a seed's life."""
    return scenario_of(seed, life(seed))


def scenario_of(seed: int, steps: Iterable[LifeStep]) -> Scenario:
    """The scenario of a life with those steps, each of which is a decision.

    They come one after the other; the times of the decisions only number them. In one of three
    seeds the clocks of the service's processes are up to an hour wrong.
    """
    return calm(seed)._replace(
        brokers=1,  # Brokers and topics come with the steps.
        partitions=1,
        duration=0,
        decisions=tuple(
            SeedDecision(at * S, what.name.lower().replace("_", " "), (topic,) if topic else ())
            for at, (what, topic) in enumerate(steps)
        ),
    )


def step_of(decision: SeedDecision) -> LifeStep:
    return LifeStep(What[decision.kind.upper().replace(" ", "_")], *decision.args)
