"""Judges the life of a cluster."""

from __future__ import annotations

import gc

from tierledger.simulation.checkers.verdict import SeedVerdict
from tierledger.simulation.checkers.violation import Violation, bounded
from tierledger.simulation.lives.cluster import LivingCluster
from tierledger.simulation.machines.environment.collector import uncollected
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.service.verdict import discard, logging_in


def judge(scenario: Scenario) -> SeedVerdict:
    """Live a cluster's life, and check it."""
    cluster = LivingCluster(scenario)
    try:
        run(cluster)
        verdict = verdict_of(cluster)
    finally:
        discard(cluster)
    gc.collect()  # The collector was off during the run.
    return verdict


def run(cluster: LivingCluster) -> None:
    """Live a cluster's life to its end."""
    with logging_in(cluster), uncollected():
        cluster.live()


def verdict_of(cluster: LivingCluster) -> SeedVerdict:
    """What was found in a cluster's life."""
    failures = [
        Violation("unforeseen_failure", None, f"{type(error).__name__}: {error}")
        for error in cluster.loop.failures
    ]
    return SeedVerdict(
        seed=cluster.scenario.seed,
        violations=[*bounded(failures), *bounded(cluster.violations)],
        trace_hash=cluster.recording.digest(),
        calls=cluster.written,
        ok_calls=cluster.written,
        changes=cluster.moves,
        steps=cluster.clock.steps,
        virtual_s=cluster.loop.time(),
        marks=cluster.recording.marks,
        counts={},
    )
