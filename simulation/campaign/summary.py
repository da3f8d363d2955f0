"""The sums of a campaign's seeds, and whether they saw enough to mean anything."""

from __future__ import annotations

from collections import Counter

from tierledger.simulation.checkers.verdict import SeedVerdict
from tierledger.simulation.lives.steps import What
from tierledger.simulation.machines.environment.marks import MARKS
from tierledger.simulation.machines.laws.counts import DELETIONS, SUMMED
from tierledger.simulation.service.plan import FURTHER, GAVE_UP
from tierledger.simulation.worlds import LIVES, SERVICE

OF_SERVICE = {mark: "service" for mark in FURTHER if mark != GAVE_UP}
"""Marks that lives do not count; a process that gives up is a violation."""

OF_LIVES = {one.value: "lives" for one in What}
"""Marks of lives: each kind of step."""

TWO_BELIEVERS = "two believed they lead"

FAULT_GROUPS = frozenset({"store", "processes", "network", "coordinator", "damage"})
"""Groups of marks that are mostly faults which came about."""

ALL_MARKS_SEEDS = 20_000
"""A campaign of so many seeds must have seen every mark; else its worlds are too kind."""

MEANS_SEEDS = 20
"""With at least so many seeds, their means must reach the minimums below."""

OK_CALLS_MIN = 10.0
CHANGES_MIN = 1.0
"""Leadership changes that a seed must have on average."""
DELETIONS_SHARE_MIN = 0.45
FAULTY_SHARE_MIN = 0.5
"""The share of seeds in which some fault must have come about."""


class SizeSummary:
    """The sums of all small worlds, or of all big ones."""

    def __init__(self) -> None:
        self.seeds = 0
        self.cpu_s = 0.0
        self._calls: Counter[int] = Counter()
        self._changes: Counter[int] = Counter()

    def add(self, outcome: SeedVerdict) -> None:
        self.seeds += 1
        self.cpu_s += outcome.cpu_s
        self._calls[outcome.calls] += 1
        self._changes[outcome.changes] += 1

    @property
    def seeds_per_s(self) -> float:
        """Seeds per second of one core."""
        return self.seeds / self.cpu_s if self.cpu_s else 0.0

    @property
    def median_calls(self) -> int:
        return _median(self._calls)

    @property
    def median_changes(self) -> int:
        return _median(self._changes)


class CampaignSummary:
    """The sums of all seeds of a campaign in one world."""

    def __init__(self, world: str = SERVICE) -> None:
        self.known_marks = OF_LIVES if world == LIVES else {**MARKS, **OF_SERVICE}
        """Each situation that may be seen in that world, and its group."""
        self._summed = () if world == LIVES else SUMMED
        self.small = SizeSummary()
        self.big = SizeSummary()
        self.calls = 0
        self.ok_calls = 0
        self.changes = 0
        self.steps = 0
        self.virtual_s = 0.0
        self.faulty = 0
        """Seeds in which some fault came about."""
        self.failed: list[SeedVerdict] = []
        self.marks: Counter[str] = Counter()
        """Faults and rare situations: in how many seeds each came about."""
        self.counts: Counter[str] = Counter()
        """How often rare things happened: sums, or the maximum of all seeds."""
        self.counted: Counter[str] = Counter()
        """In how many seeds each of them happened at all."""

    def add(self, outcome: SeedVerdict) -> None:
        (self.small if outcome.is_small else self.big).add(outcome)
        self.calls += outcome.calls
        self.ok_calls += outcome.ok_calls
        self.changes += outcome.changes
        self.steps += outcome.steps
        self.virtual_s += outcome.virtual_s
        self.faulty += any(MARKS.get(mark, "store") in FAULT_GROUPS for mark in outcome.marks)
        self.marks.update(outcome.marks.keys())
        for name, count in outcome.counts.items():
            self.counted[name] += count > 0
            if name in SUMMED:
                self.counts[name] += count
            else:
                self.counts[name] = max(self.counts[name], count)
        if outcome.violations:
            self.failed.append(outcome)

    @property
    def seeds(self) -> int:
        return self.small.seeds + self.big.seeds

    @property
    def cpu_s(self) -> float:
        return self.small.cpu_s + self.big.cpu_s

    @property
    def two_believers_share(self) -> float:
        """The share of seeds in which two hosts believed at once to lead a partition."""
        return self.marks[TWO_BELIEVERS] / max(1, self.seeds)

    @property
    def unseen_marks(self) -> list[str]:
        """Declared situations that came about in no seed."""
        return [mark for mark in self.known_marks if not self.marks[mark]]

    @property
    def never_counted(self) -> list[str]:
        """Counted things that happened in no seed."""
        return [name for name in self._summed if not self.counts[name]]

    def shortfalls(self, *, requires_marks: bool) -> list[str]:
        """Why finding nothing in these seeds means nothing; empty if it means something."""
        seeds = max(1, self.seeds)
        found = []
        if not self.ok_calls:
            found.append("no call succeeded")
        if self.seeds >= MEANS_SEEDS:
            if self.ok_calls < OK_CALLS_MIN * seeds:
                found.append(f"{self.ok_calls / seeds:.1f} calls per seed succeeded, "
                             f"expected {OK_CALLS_MIN:.0f} at least")  # fmt: skip
            if self.changes < CHANGES_MIN * seeds:
                found.append(f"{self.changes / seeds:.1f} leadership changes per seed, "
                             f"expected {CHANGES_MIN:.0f} at least")  # fmt: skip
            if self.faulty < FAULTY_SHARE_MIN * seeds:
                found.append(f"faults came about in {self.faulty / seeds:.0%} of the seeds, "
                             f"expected {FAULTY_SHARE_MIN:.0%} at least")  # fmt: skip
        if requires_marks:
            found += [f"never seen: {mark}" for mark in self.unseen_marks]
            found += [f"no {name}" for name in self.never_counted]
            if self._summed and self.counted[DELETIONS] < DELETIONS_SHARE_MIN * seeds:
                found.append(f"segments were deleted in {self.counted[DELETIONS] / seeds:.0%} "
                             f"of the seeds, expected {DELETIONS_SHARE_MIN:.0%}")  # fmt: skip
        return found


def _median(counted: Counter[int]) -> int:
    """The median of counted values; 0 if there are none."""
    left = (counted.total() + 1) // 2
    for value in sorted(counted):
        left -= counted[value]
        if left <= 0:
            return value
    return 0
