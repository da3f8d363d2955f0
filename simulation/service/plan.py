"""Draws the scenario of a seed's world of the service."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from tierledger.actors.door.limits import DoorLimits
from tierledger.simulation.machines.environment.clockwork import MS, S
from tierledger.simulation.machines.environment.medium import SLOW
from tierledger.simulation.machines.scenario.doors import DoorPlan
from tierledger.simulation.machines.scenario.drawing import (
    delays_of,
    elections,
    is_small,
    skews,
    some_hosts,
    work,
)
from tierledger.simulation.machines.scenario.faults import (
    FAULTS,
    FAULTS_SMALL,
    Draw,
    Fault,
    faults,
)
from tierledger.simulation.machines.scenario.knobs import KNOBS
from tierledger.simulation.machines.scenario.scenario import (
    RETENTIONS_MS,
    Scenario,
    SeedDecision,
)
from tierledger.simulation.machines.scenario.streams import Size, chance, pick

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

LEADER_MOVED = "leader moved from a host that lives"
"""The mark of a leader that another host takes over, though nothing is wrong with its own."""

CLOCK_OFF_BY_DAYS = "process whose clock is wrong by days"
"""The mark of the start of such a process, a host's or the coordinator's."""

LOG_LINE_FAILED = "log line failed"
"""The mark of a line that a process could not write to its log."""

ENDED_BY_OPERATOR = "service ended by its operator"
"""The mark of the end of all hosts and coordinators, as one refused a damaged store."""

GAVE_UP = "gave up"
"""The mark of a process that ended itself, which none should."""

FURTHER = (
    *DOOR_FAULTS,
    CLOCK_OFF_BY_DAYS,
    ENDED_BY_OPERATOR,
    LEADER_MOVED,
    LOG_LINE_FAILED,
    "crash at any step",
    GAVE_UP,
    "resumed at the end",
)
"""Marks of streams, clocks and processes, besides those in `marks`."""

LONE_EVERY, LONE_FIRST = 8, 2
"""One seed in `LONE_EVERY`, from `LONE_FIRST` on, has a single host, which freezes. Clients can
only learn this from its silence: connections do not break, and keepalives are answered."""

FROZEN_SHARE = 0.3
"""In so many of the other worlds one host freezes."""

CLOSED_SHARE = 0.3
"""In so many of the worlds with several hosts nobody reaches one of them at its door."""

OFF_SHARE = 0.4
"""In so many of the worlds with several hosts one clock is wrong by days."""

DIRECT_SHARE = 0.33
"""In so many of the worlds brokers make calls without a door."""

DAMAGED_SHARE = 0.15
"""In so many of the worlds a log is damaged; few of them show who believes it."""

FAULTS_MEAN = 2.0
"""The average number of faults of a kind that is on, in whole worlds."""

CALLS_SMALL = 52

KNOBS_OF_SERVICE = {
    "REQUESTS_KEPT": (32, 256),
    "WRITES_MAX": (1, 3, 200),
    "SETTLED_S": (0, 1, 60),
    "SPREAD": (1, 4),
    "FRAME_ROWS": (1, 2, 1000),
    "RING_BYTES": (1, 2000, 1 << 20),
    "LINGER_S": (0, 1, 60),
    "SNAPSHOTS_AT_ONCE": (1, 8),
    "PREPARED_S": (0, 1),
    "MOVED_AT_ONCE": (1, 3, 50),
}
"""Knobs beside `KNOBS`: how many writes a client may have begun and not ended; after how
many seconds a host gets others' leaders, and by how many leaders hosts may differ (without
these two no run would be long enough for a leader to move); the bounds of feeds; how long a
process that is to replace another has to start, and how much moves before at a time."""

REPLICAS_EVERY, REPLICAS_FIRST = 4, 3
"""In one seed in so many, beginning with this one, brokers keep replicas."""

DURATION_GUARDED = 6 * S
"""Of a small world with guards: terms are over before it is."""

FAULTS_GUARDED, FAULTS_OF_DELETIONS = 0.4, 1.2
"""There, the average numbers of faults of a kind that is on: of all worlds, and of its own."""

GUARDED = ((True,), (True,), (True, False))
"""Whether brokers have guards: all of them, or every other one."""

GUARDED_EVERY, GUARDED_FIRST = 11, 8
"""In one seed in so many, beginning with this one, brokers have storage managers, mostly behind
guards, and an operator places holds."""

PATIENCES = (500 * MS, 1 * S, 4 * S, 4 * S)
"""How long clients go on with a call (us): after a short time more of them are refused. Through
doors it is the last: a client waits longer than the others for a frozen host to greet."""

OFTEN = {"wire": 8, "store": 6, "kill coordinator": 2}
"""Kinds that strike more often than others, and how many times as often."""


def _client(d: Draw) -> str:
    return d.broker() if d.random() < 0.7 else d.host()


FAULTS_OF_SERVICE = {
    **{kind: fault._replace(times=OFTEN.get(kind, 1)) for kind, fault in FAULTS.items()},
    "burn": Fault(0.4, lambda d: ("burn", d.host(), 1 + d.below(200))),
    "slow store": Fault(
        0.3, lambda d: ("store", d.anybody(), SLOW, d.below(3000) * MS), times=4
    ),
    "damage": FAULTS["damage"]._replace(share=DAMAGED_SHARE, is_sure=True),
    "slow reader": Fault(0.3, lambda d: ("slow reader", _client(d), d.length())),
}
"""By kind; the first word of a decision may be another."""

FAULTS_OF_DOORS = {
    "break connections": Fault(
        0.6, lambda d: ("break connections", _client(d), d.coin(), d.coin()), times=3
    ),
    "shut out": Fault(0.35, lambda d: ("shut out", d.broker_id(), d.coin())),
}
"""Those of worlds whose brokers come through doors."""


def _hold(d: Draw) -> tuple[Any, ...]:
    is_term = d.random() < 0.6
    term = d.one((0, 300, 300, 1200, 2500)) if is_term else -1
    until = -1 if is_term or d.random() < 0.8 else 200 + d.below(1500)
    length = -1 if d.random() < 0.15 else d.length() // 2
    of, cause = d.below(5), d.one((0, 0, 1, 2)) if is_term else 0
    return (
        "hold", d.below(1000), of, d.partition(), 10 * d.below(20), term, cause, until, length,
    )  # fmt: skip


def _hold_in_flight(d: Draw) -> tuple[Any, ...]:
    return (
        "hold in flight", 1000 + d.below(1000), d.partition(), d.below(4), 5 + d.below(40),
        d.one((0, 60, 200, 500)), d.one((0, 0, 3, 3, 4)),
    )  # fmt: skip


FAULTS_OF_GUARDS = {
    "retention": Fault(
        1.0, lambda d: ("retention", d.partition(), 60 + d.below(140), d.below(3)),
        is_sure=True,
        times=2,
    ),
    "hold": Fault(0.8, _hold, is_sure=True, times=2),
    "lower term": Fault(
        0.3,
        lambda d: (
            "lower term", 2000 + 2 * d.below(500), d.partition(), 2000, d.one((0, 100)),
            200 + d.below(600),
        ),
    ),
    "hold in flight": Fault(0.7, _hold_in_flight, is_sure=True, times=2),
    "release kept": Fault(0.4, lambda _: ("release kept",), is_sure=True),
    "delete topic": Fault(
        0.5, lambda d: ("delete topic", d.partition(), d.coin(), 100 + d.below(700))
    ),
    "tier away": Fault(0.2, lambda d: ("tier away", d.length() // 2)),
    "guard dies": Fault(
        0.4,
        lambda d: (
            "guard dies", d.broker_id(), d.one(("erasing", "erased")), 300 + d.below(900)
        ),
        is_sure=True,
    ),
    "guard hangs": Fault(
        0.4,
        lambda d: ("guard hangs", d.broker_id(), d.one(("erasing", "erased")), d.length()),
        is_sure=True,
    ),
}  # fmt: skip
"""Those of worlds whose brokers have storage managers."""

KNOBS_OF_GUARDS = {
    "LEASE_MS": (400, 1500, 600_000),
    "GIVEN_MAX": (1, 2, 16),
    "AGAIN_MS": (100, 600),
    "LOOK_MIN_S": (0, 1),
    "LOOK_SHARE": (1, 10),
    "LOOKED_MAX": (1, 3, 2000),
}
"""Knobs of those worlds: terms are over, and leases time out, before a run is."""


def drawn(seed: int, *, small: bool | None = None) -> Scenario:
    """The scenario that `seed` gives; each part has random numbers of its own.

    A small world costs a fifth of a whole one.
    """
    small = is_small(seed) if small is None else small
    is_lone = not small and seed % LONE_EVERY == LONE_FIRST
    is_guarded = seed % GUARDED_EVERY == GUARDED_FIRST
    shortest = DURATION_GUARDED if is_guarded else 3 * S
    size = Size(
        seed=seed,
        brokers=pick(seed, "brokers", (2, 3) if small else (2, 3, 4)),
        hosts=1 if is_lone else pick(seed, "hosts", (2, 3) if small else (1, 2, 3, 4)),
        partitions=pick(seed, "partitions", (1, 1, 2) if small else (1, 2, 3, 4)),
        duration=shortest if small else (4 + int(chance(seed, "duration") * 9)) * S,
    )
    is_direct = small or (not is_lone and chance(seed, "transport") < DIRECT_SHARE)
    kinds = FAULTS_OF_SERVICE if is_direct else FAULTS_OF_SERVICE | FAULTS_OF_DOORS
    mean = FAULTS_SMALL if small else FAULTS_MEAN
    if is_guarded:
        mean = FAULTS_GUARDED
    decisions = [
        *work(size, CALLS_SMALL if small else pick(seed, "calls", (200, 400, 800))),
        *elections(size, small=small),
        *faults(size, mean, kinds),
        *(faults(size, FAULTS_OF_DELETIONS, FAULTS_OF_GUARDS) if is_guarded else ()),
        *(() if small else _lasting(size, is_lone=is_lone)),
    ]
    decisions.sort(key=lambda one: one.at)
    doors, upgraded = _doors(size, is_lone=is_lone), some_hosts(size, "upgraded")
    if any(one.kind == "close door" for one in decisions):
        doors = doors._replace(behind_walls=0)
    return Scenario(
        seed=seed,
        brokers=size.brokers,
        hosts=size.hosts,
        partitions=size.partitions,
        partitions_per_host=pick(seed, "room", (1, 2, 64)),
        duration=size.duration,
        delays=delays_of(size.stream("delays"), pick(seed, "delay", (200, 500, 5000))),
        skews_ms=(0, 20, -30) if is_guarded else skews(size.stream("skews")),
        known_epochs=pick(seed, "epochs", (0, 50, 100)),
        oracle_knows=pick(seed, "oracle", (0, 50, 100)),
        knobs=_knobs(seed, KNOBS_OF_GUARDS if is_guarded else {}),
        upgraded=upgraded,
        writes_newer=bool(upgraded) and chance(seed, "newer") < 0.5 and not is_guarded,
        outdated=some_hosts(size, "outdated"),
        decisions=tuple(decisions),
        patience=pick(seed, "patience", PATIENCES) if is_direct else PATIENCES[-1],
        rows_kept=pick(seed, "rows", (1, 3, 6)),
        retention_ms=pick(seed, "retention", RETENTIONS_MS),
        oracle_behind=pick(seed, "behind", (0, 0, 1)),
        oracle_delay=pick(seed, "oracle delay", (1 * MS, 20 * MS, 50 * MS)),
        has_replicas=seed % REPLICAS_EVERY == REPLICAS_FIRST,
        one_writer=chance(seed, "one writer") < 0.3,
        is_bucket=chance(seed, "bucket") < 0.5,
        clock_off=None if is_guarded else _clock_off(size),
        is_direct=is_direct,
        doors=doors,
        guarded=pick(seed, "guarded", GUARDED) if is_guarded else (),
        unexplained=pick(seed, "unexplained", (0, 20, 50)),
        spare=int(is_guarded),
    )


def calm(seed: int, *, calls: int = 0) -> Scenario:
    """The scenario of a world without faults, to measure its speed."""
    lanes, partitions = 16, 8
    decisions = [
        SeedDecision(
            1 * S + at // (lanes * partitions) * 5 * MS,
            *(
                ("read", (1 + at % 3, at % partitions, at // partitions % lanes, 1, at, at))
                if at % 3 == 0
                else ("copy", (at % partitions, at // partitions % lanes, "go on", at))
            ),
        )
        for at in range(calls)
    ]
    last = max((one.at for one in decisions), default=0)
    return drawn(seed)._replace(
        brokers=3,
        hosts=3,
        partitions=partitions,
        partitions_per_host=64,
        duration=last + 1 * S,
        delays=(400, 200, 500, 300),
        knobs=(),
        upgraded=(),
        writes_newer=False,
        outdated=(),
        decisions=tuple(decisions),
        one_writer=False,
        clock_off=None,
        is_direct=False,
        doors=DoorPlan(),
    )


def _lasting(size: Size, *, is_lone: bool) -> list[SeedDecision]:
    """Faults for good, which come once: a host freezes, a door is closed."""
    found, random = [], size.stream("lasting")
    for kind, is_on in (
        ("freeze", is_lone or chance(size.seed, "freezes") < FROZEN_SHARE),
        ("close door", size.hosts > 1 and chance(size.seed, "closes") < CLOSED_SHARE),
    ):
        at = int(random.uniform(0.5 * S, size.duration))
        host = f"host-{random.randrange(size.hosts)}"
        if is_on:
            found.append(SeedDecision(at, kind, (host,)))
    return found


def _clock_off(size: Size) -> tuple[str, int] | None:
    random = size.stream("clock off")
    if size.hosts == 1 or random.random() >= OFF_SHARE:
        return None
    names = ["coordinator", *(f"host-{number}" for number in range(size.hosts))]
    return random.choice(names), random.choice((-1, 1)) * random.randint(1, 400)


def _knobs(seed: int, further: Mapping[str, tuple[int, ...]]) -> tuple[tuple[str, int], ...]:
    turned = {**KNOBS, **KNOBS_OF_SERVICE, **further}
    found = {name: pick(seed, name, values) for name, values in turned.items()}
    if found["WRITES_MAX"] >= found["REQUESTS_KEPT"] // 8:
        # A client bounds only its own retries. A zombie of the same broker may retry requests
        # that are older, which a leader with few `REQUESTS_KEPT` would no longer recognize.
        del found["REQUESTS_KEPT"]
    return tuple(found.items())


def _doors(size: Size, *, is_lone: bool) -> DoorPlan:
    random: Random = size.stream("doors")
    plan = DoorPlan(
        limits=DoorLimits(
            calls_max=random.choice((4, 64, 4096)),
            unread_bytes_max=random.choice((2_000, 1_000_000)),
            reading_s=random.choice((1.0, 30.0)),
        ),
        window=random.choice((300, 65_536)),
        keepalive_s=random.choice((1.0, 7.5)),
        is_proxied=random.random() < 0.5,
        silent_ends=random.choice((0, 30)),
        behind_walls=random.choice((0, 0, size.hosts)),
    )
    return plan._replace(is_proxied=True, behind_walls=0) if is_lone else plan
