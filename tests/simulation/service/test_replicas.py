"""Replicas of brokers in the world of the service: fed through doors, broken off, and asked."""

from collections import Counter

from tierledger.simulation.campaign.campaign import outcome
from tierledger.simulation.service.plan import REPLICAS_EVERY, REPLICAS_FIRST
from tierledger.simulation.worlds import SERVICE

FIRST = 248 + REPLICAS_FIRST
SEEDS = range(FIRST, FIRST + 12 * REPLICAS_EVERY, REPLICAS_EVERY)
SAW = {
    "replica took a snapshot",
    "replica was ready",
    "replica was overtaken",
    "replica went on from where it was",
    "replica hears that it is fenced",
    "feed closed",
}


def test_replicas_see_bad_days_and_answer_as_the_log_does() -> None:
    marks: Counter[str] = Counter()
    for seed in SEEDS:
        found = outcome(seed, SERVICE)
        marks.update(found.marks)
        assert found.violations == []

    assert marks.keys() >= SAW


def test_brokers_keep_replicas_in_some_seeds_only() -> None:
    assert "replica took a snapshot" not in outcome(FIRST + 1, SERVICE).marks
