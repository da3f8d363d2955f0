"""The whole service in a world without a planted mistake is clean, and a seed is a seed."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest

from tests.models.simulation.mutant_hunts import JOBS
from tierledger.simulation.campaign.campaign import Workers, mutant_named
from tierledger.simulation.campaign.reduction import replay_command
from tierledger.simulation.history.calls import FAIL, OK
from tierledger.simulation.machines.environment.clockwork import MS, S
from tierledger.simulation.machines.environment.marks import MARKS
from tierledger.simulation.machines.scenario.drawing import WHOLE_EVERY, is_small
from tierledger.simulation.machines.scenario.scenario import SeedDecision
from tierledger.simulation.machines.scenario.shape import shaped
from tierledger.simulation.machines.scenario.shrink import shrunk
from tierledger.simulation.mutants.catalogue import planted
from tierledger.simulation.service.plan import (
    ENDED_BY_OPERATOR,
    FURTHER,
    LONE_EVERY,
    LONE_FIRST,
    calm,
    drawn,
)
from tierledger.simulation.service.verdict import judge, ran, verdict_of
from tierledger.simulation.worlds import SERVICE

DOOR_CLOSED = 190
TWO_LIVES_OF_ONE_CLOCK = 159
"""A host's two processes have its clock, which is half a year ahead; they are one vote."""
CLOCK_BEHIND_ALONE = 407
"""No two clocks agree, and a host that is half a year behind stamps deletions."""
RARE = (50, 51)
"""A client that is shut out, and a broker that is killed."""
FIRST = range(31)
SEEDS = (*FIRST, *RARE, TWO_LIVES_OF_ONE_CLOCK, DOOR_CLOSED, CLOCK_BEHIND_ALONE)

SEEN = {
    *FURTHER,
    "answer of a write lost",
    "assigned by nobody",
    "broker fenced by its own later life",
    "checkpoint written",
    "coordinator lost a race for its log",
    "crash: durable",
    "cut off host",
    "data deleted",
    "data purged",
    "deletion kept",
    "guard left the data",
    "hold placed",
    "hold released",
    "host given up by the coordinator",
    "host replaced while it lives",
    "Kafka asked about an announcement",
    "Kafka named another broker",
    "kill broker",
    "kill coordinator",
    "kill host",
    "leader placed beside its follower",
    "loaded from a checkpoint",
    "message lost",
    "message lost to a cut",
    "mute host died",
    "pause broker",
    "pause coordinator",
    "pause host",
    "probe failed",
    "read expired",
    "read waited for a position",
    "segments overlap",
    "store away",
    "store away from one",
    "store refused",
    "three sessions without a write between",
    "two coordinators",
    "write ended in doubt",
    "write landed late",
    "write lost",
    "write sent twice",
    "zombie broker wrote",
} - {"gave up", ENDED_BY_OPERATOR}
"""Marks that a few dozen seeds must have; "gave up" is a violation."""

MORE = [range(*one) for one in pairwise((FIRST.stop, 361, 661, 961, 1_261))]


@pytest.mark.parametrize(
    "seeds",
    [SEEDS, *(pytest.param(one, marks=pytest.mark.long) for one in MORE)],
    ids=lambda seeds: f"{seeds[0]}",
)
def test_whatever_fails_nothing_is_lost_and_all_comes_back(seeds: Sequence[int]) -> None:
    seen: Counter[str] = Counter()
    ok_calls = changes = 0
    with Workers(JOBS) as workers:
        found = list(workers.outcomes(seeds, world=SERVICE))
    for verdict in found:
        again = f"tierledger simulate replay --world service --seed {verdict.seed}"
        assert not verdict.violations, again
        seen.update(verdict.marks)
        ok_calls += verdict.ok_calls
        changes += verdict.changes

    # A run in which nothing happened would prove nothing.
    assert not SEEN - seen.keys()
    assert ok_calls > 40 * len(seeds)
    assert changes > 3 * len(seeds)


def test_a_calm_world_serves_every_call() -> None:
    world = ran(calm(2, calls=600))
    operations = world.recorder.history().operations

    assert not verdict_of(world).violations
    assert sum(one.outcome == OK for one in operations) > 500
    refused = {one.error for one in operations if one.outcome == FAIL}
    assert refused <= {"InvalidStateTransition"}  # Two callers of a broker add one segment.
    world.loop.discard()


ASKED = (
    ("M77", "miscoordinated"),
    ("M78", "wrong_table"),
    ("M79", "wrong_memory"),
    ("S121", "early_ready"),
)
"""Mistakes that no call of a calm world meets, and who is asked about them all the same."""


@pytest.mark.parametrize(("number", "checker"), ASKED)
def test_each_seed_is_asked_what_nobody_sent(number: str, checker: str) -> None:
    with planted(mutant_named(number)):
        found = {one.checker for one in judge(calm(2, calls=40)).violations}

    assert found == {checker}


@pytest.mark.parametrize(
    ("number", "checker", "seed"),
    [("M30", "CorruptCheckpoint", 9), ("M31", "wrong_answer", 58)],
)
def test_what_one_release_does_to_another_is_found(
    number: str, checker: str, seed: int
) -> None:
    plan = drawn(seed)
    with planted(mutant_named(number)):
        found = {one.checker for one in judge(plan).violations}

    assert checker in found
    assert (bool(plan.outdated), plan.writes_newer) == (number == "M30", number == "M31")


def test_damage_is_noticed_and_costs_its_partition_alone() -> None:
    newest = -1
    damage = [
        SeedDecision(1_020 * MS, "rot", (0, newest, 3)),
        SeedDecision(1_030 * MS, "stray", (1, 2)),
        SeedDecision(1_030 * MS, "tear", (3, 1, 40)),
        SeedDecision(1_035 * MS, "rot checkpoint", (4, 1, 77)),
    ]
    whole = calm(2, calls=1200)._replace(knobs=(("CHECKPOINT_EVENTS", 5),))
    decisions = sorted([*whole.decisions, *damage], key=lambda one: one.at)
    verdict = judge(whole._replace(decisions=tuple(decisions)))

    assert not verdict.violations
    named = {"bit rot in the log", "misdirected write", "torn batch", "bit rot in a checkpoint"}
    assert named | {"partition quarantined", ENDED_BY_OPERATOR} <= verdict.marks.keys()
    assert verdict.ok_calls > 200


def test_a_coordinator_that_lies_and_clocks_that_step_cost_nothing() -> None:
    strikes = [
        SeedDecision(1_020 * MS, "lie", (0,)),
        SeedDecision(1_021 * MS, "clock steps", ("host-0", -9_000)),
        SeedDecision(1_022 * MS, "clock steps", ("host-1", 9_000)),
        SeedDecision(1_023 * MS, "contend", (0, 1, 8)),
        SeedDecision(1_024 * MS, "import", (2, 7, 12)),
        SeedDecision(1_025 * MS, "import, then delete", (3, 8, 12, 200)),
    ]
    whole = calm(2, calls=1200)
    decisions = sorted([*whole.decisions, *strikes], key=lambda one: one.at)
    whole = whole._replace(duration=3 * S, oracle_knows=0)  # Kafka knows no importer.
    verdict = judge(whole._replace(decisions=tuple(decisions)))

    assert not verdict.violations
    assert {
        "coordinator lied", "clock stepped", "clock stepped back", "history imported",
        "leader made beside the one in office", "partition deleted",
    } <= verdict.marks.keys()  # fmt: skip


def test_what_is_needed_of_a_scenario_is_left() -> None:
    whole = drawn(20)
    needed = {whole.decisions[at] for at in (7, 31, 40)}

    small = shrunk(whole, lambda one: needed <= set(one.decisions))

    assert set(small.scenario.decisions) == needed
    assert "transport=direct" in small.settings
    command = replay_command(20, keep=small.kept)
    assert command == "tierledger simulate replay --seed 20 --keep 7,31,40"


@pytest.mark.parametrize("seed", [20, 30])
def test_what_is_left_out_of_a_scenario_does_not_strike(seed: int) -> None:
    whole = drawn(seed)
    mild = {"copy", "zombie copy", "read", "elect", "tell all", "move replica"}
    kept = frozenset(at for at, one in enumerate(whole.decisions) if one.kind in mild)

    verdict = judge(shaped(whole.kept(kept), ["doors=plain", "writers=all"]))

    assert not verdict.violations
    assert verdict.changes > 3
    assert not {one for one in verdict.marks if MARKS.get(one) == "processes"}


def test_a_seed_draws_its_transport_and_small_worlds_have_no_doors() -> None:
    small = {drawn(seed).is_direct for seed in range(60) if is_small(seed)}
    whole = {seed: drawn(seed) for seed in range(0, 2500, WHOLE_EVERY)}

    assert small == {True}
    assert 50 < sum(one.is_direct for one in whole.values()) < 100
    lone = [one for seed, one in whole.items() if seed % LONE_EVERY == LONE_FIRST]
    assert len(lone) > 50
    assert {(one.hosts, one.is_direct) for one in lone} == {(1, False)}


@pytest.mark.parametrize("seed", [20, 21])
def test_a_seed_is_the_same_world_in_every_process(seed: int) -> None:
    here = judge(drawn(seed)).trace_hash

    assert _trace_hash_elsewhere(seed) == here


def test_a_seed_is_the_same_world_whatever_pid_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = set()
    for pid in (5, 70_000):  # In a message they take one byte, and five.
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        hashes.add(judge(drawn(1)).trace_hash)

    assert len(hashes) == 1


def test_two_seeds_are_two_worlds() -> None:
    assert judge(drawn(1)).trace_hash != judge(drawn(2)).trace_hash


def _trace_hash_elsewhere(seed: int) -> str:
    command = [sys.executable, "-m", "tierledger.cli.main", "simulate", "replay", "--json"]
    done = subprocess.run(
        [*command, "--world", "service", "--seed", str(seed)],
        env={"PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    trace_hash: str = json.loads(done.stdout)["trace_hash"]
    return trace_hash
