"""Worlds of state machines: clean without a mistake, in all rare situations, and repeatable."""

import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.models.simulation.mutant_hunts import JOBS
from tierledger.actors import messages as msg
from tierledger.actors.calls import FOLLOWER
from tierledger.simulation.campaign.campaign import (
    UNFORESEEN,
    Workers,
    judged,
    outcome,
)
from tierledger.simulation.campaign.reduction import replay_command
from tierledger.simulation.campaign.summary import CampaignSummary
from tierledger.simulation.checkers.verdict import SeedVerdict
from tierledger.simulation.machines.environment.clockwork import ProcessLife, S
from tierledger.simulation.machines.environment.medium import COORDINATOR
from tierledger.simulation.machines.environment.recording import Slot
from tierledger.simulation.machines.nodes import shell
from tierledger.simulation.machines.nodes.broker import BrokerNode
from tierledger.simulation.machines.record_of import record_of
from tierledger.simulation.machines.run import run
from tierledger.simulation.machines.scenario.drawing import drawn
from tierledger.simulation.machines.scenario.scenario import SeedDecision
from tierledger.simulation.machines.verdict import judge, ran, verdict_of
from tierledger.simulation.machines.world import World
from tierledger.simulation.record.record import judged as judged_again

SEEDS = 1_000
"""Enough for every mark, and three times what a mutant needs."""
LONG_SEEDS = 20_000
SEEDS_PER_TEST = 250

FIRSTS = range(0, SEEDS, SEEDS_PER_TEST)
MORE = range(SEEDS, LONG_SEEDS, SEEDS_PER_TEST)


@cache
def outcomes_from(first: int) -> list[SeedVerdict]:
    with Workers(JOBS) as workers:
        return list(workers.outcomes(range(first, first + SEEDS_PER_TEST)))


@pytest.mark.parametrize(
    "first", [*FIRSTS, *(pytest.param(one, marks=pytest.mark.long) for one in MORE)]
)
def test_whatever_fails_nothing_is_lost_and_all_comes_back(first: int) -> None:
    for one in outcomes_from(first):
        assert one.violations == [], replay_command(one.seed)


@pytest.mark.timeout(1800)  # Alone, it runs all that the tests above have run before.
def test_enough_happened_for_that_to_mean_something() -> None:
    summary = CampaignSummary()
    for first in FIRSTS:
        for one in outcomes_from(first):
            summary.add(one)

    assert summary.shortfalls(requires_marks=True) == []
    assert summary.two_believers_share >= 0.3
    assert (summary.small.median_calls, summary.small.median_changes) >= (40, 3)
    assert (summary.big.median_calls, summary.big.median_changes) >= (200, 8)


def test_a_seed_is_the_same_world_in_every_process() -> None:
    here = [f"{seed} {judge(drawn(seed)).trace_hash}" for seed in range(9, 14)]

    there = [_hashes_elsewhere("9:14", hash_seed) for hash_seed in ("0", "77")]

    assert there == [here, here]


def test_nobody_is_asked_for_a_write_before_brokers_have_said_what_they_were_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then an earlier notification may make another the leader, which is no lockout."""
    scenario = drawn(1)
    late = scenario.duration + 9 * S
    has_unannounced = property(lambda broker: broker.world.clock.now < late)
    monkeypatch.setattr(BrokerNode, "has_unannounced", has_unannounced)
    world = World(scenario)

    run(world)

    assert world.is_well
    assert late <= world.healed_at <= world.well_at


def test_a_follower_that_was_placed_a_moment_ago_is_not_behind() -> None:
    world = ran(drawn(1))
    shell = next(
        shell
        for host in world.hosts.values()
        for (_, role), shell in host.shells.items()
        if role == FOLLOWER and host.life.is_reachable
    )
    assert shell.machine.state is not None
    shell.machine.state.next_position -= 3

    found = [one.checker for one in verdict_of(world).violations]
    shell.began = world.clock.now
    later = [one.checker for one in verdict_of(world).violations]

    assert "liveness" in found
    assert "liveness" not in later


def test_one_look_at_the_end_of_its_log_is_enough_for_all_who_wait_for_a_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else those who ask again come faster than they are answered, and nobody is heard."""
    world = ran(drawn(1))
    looks: list[list[Slot]] = []
    look = world.medium.read_slots

    def looked(life: ProcessLife, slots: list[Slot], *rest: Any) -> None:  # noqa: ANN401
        looks.append(slots)
        look(life, slots, *rest)

    monkeypatch.setattr(world.medium, "read_slots", looked)
    assert world.coordinator is not None

    broker = world.brokers[1]
    asked = [(broker, token, 1, b"late", -1) for token in range(10_000, 10_020)]
    told: list[int] = []
    monkeypatch.setattr(broker, "coordinated", lambda token, _: told.append(token))

    for one in asked:  # None of them is given an incarnation: nothing is appended.
        world.coordinator.take_register(*one)
    world.clock.run(world.clock.now + S // 10)

    assert sorted(told) == [token for _, token, *_ in asked]
    assert sum(slots[0][0] == COORDINATOR for slots in looks) == 1


def test_a_record_of_a_world_in_which_requests_are_forgotten_can_be_judged() -> None:
    """Which requests are forgotten depends on a limit of the world that no record holds."""
    world = ran(next(one for one in map(drawn, range(99)) if ("REQUESTS_KEPT", 8) in one.knobs))

    record = record_of(world, "a world")

    assert (record.seen.states, record.checkpoints) == ([], [])
    assert judged_again(record).violations == []


def test_two_seeds_are_two_worlds() -> None:
    assert judge(drawn(1)).trace_hash != judge(drawn(2)).trace_hash


def test_every_seed_is_judged_once_in_its_order_whoever_does_it() -> None:
    seeds = [*range(11, 131, 2), 4]  # More than one worker takes at once.

    found = []
    for jobs in (1, 3):
        with Workers(jobs) as workers:
            found.append(list(workers.outcomes(seeds)))
    alone, together = found

    assert [one.seed for one in alone] == seeds
    assert [one._replace(cpu_s=0) for one in alone] == [
        one._replace(cpu_s=0) for one in together
    ]


def test_an_exception_in_a_world_is_found_and_says_where_it_came_from() -> None:
    broken = drawn(1)._replace(decisions=(SeedDecision(500_000, "copy", ("nobody", 0)),))

    (violation,) = judged(broken).violations

    assert violation.checker == UNFORESEEN
    assert violation.message.startswith("TypeError in strikes.")


def test_an_outcome_says_which_size_the_world_had() -> None:
    assert [outcome(seed).is_small for seed in (10, 11)] == [False, True]


def _hashes_elsewhere(seeds: str, hash_seed: str) -> list[str]:
    command = [sys.executable, "-m", "tierledger.cli.main", "simulate", "run", "--hash-only"]
    done = subprocess.run(
        [*command, "--seeds", seeds, "--jobs", "1"],
        env={"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


def test_a_mistake_after_a_machine_has_gone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself hears of nothing any more."""

    def fails(*_: object) -> None:
        raise ValueError("as an example")

    monkeypatch.setitem(shell.CARRY, msg.Gone, fails)

    found = [one for one in judge(drawn(4)).violations if one.checker == "unforeseen"]

    assert "ValueError: as an example in fails" in found[0].message
