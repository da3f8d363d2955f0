"""Many seeds on all cores: which fail, what they met, and which mutants they catch."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple, Self, TypeVar

from tierledger.events.errors import InvalidArgument
from tierledger.simulation.checkers.verdict import SeedVerdict
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.lives import steps as lives_steps
from tierledger.simulation.lives import verdict as lives
from tierledger.simulation.lives.cluster import LivingCluster
from tierledger.simulation.machines.environment.clockwork import EndlessRun
from tierledger.simulation.machines.scenario.drawing import is_small
from tierledger.simulation.machines.scenario.scenario import Scenario
from tierledger.simulation.mutants.catalogue import MUTANTS, Mutant, planted
from tierledger.simulation.mutants.door import DOOR_MUTANTS
from tierledger.simulation.mutants.slips import SLIPS
from tierledger.simulation.orphans import end_with_parent
from tierledger.simulation.service import plan as service_plan
from tierledger.simulation.service import verdict as service
from tierledger.simulation.service.world import World
from tierledger.simulation.worlds import LIVES, SERVICE

TASKS_AHEAD = 4
"""Tasks that are queued per worker; when a budget is used up, only these are cancelled."""

Item = TypeVar("Item")
Result = TypeVar("Result")

SAYS_NOTHING = frozenset({"vacuous", "assumptions"})
"""Checkers that judge the run and not the service."""

UNFORESEEN = "unforeseen_failure"
"""The checker's name for a world that ended with an exception of its own."""


class WorldKind(NamedTuple):
    """How seeds of one kind of world are run."""

    drawn: Callable[[int], Scenario]
    judge: Callable[[Scenario], SeedVerdict]
    made: Callable[..., Any]
    """Makes the world of a scenario; with `keeps` it keeps its timeline."""
    run: Callable[[Any], None]
    seeds_per_task: int
    """Seeds that a worker takes at once: one or two seconds of work."""


KINDS = {
    SERVICE: WorldKind(service_plan.drawn, service.judge, World, service.run, 10),
    LIVES: WorldKind(lives_steps.drawn, lives.judge, LivingCluster, lives.run, 2),
}
"""By the name of a world."""


def drawn(seed: int, world: str = SERVICE) -> Scenario:
    """The scenario that the seed gives in that world."""
    return KINDS[world].drawn(seed)


def outcome(seed: int, world: str = SERVICE, mutant: str | None = None) -> SeedVerdict:
    """Run one seed and check it; an exception of the world counts as a violation."""
    began = process_time()
    verdict = judged(drawn(seed, world), mutant, world)
    small = world != LIVES and is_small(seed)
    return verdict._replace(is_small=small, cpu_s=process_time() - began)


def judged(scenario: Scenario, mutant: str | None = None, world: str = SERVICE) -> SeedVerdict:
    """A scenario's verdict; an exception of the run counts as a violation.

    The mutant is planted anew for this run, since some mutants count what they do.
    """
    with with_mistake(mutant):  # A mutant that fails to plant raises.
        try:
            return KINDS[world].judge(scenario)
        except Exception as error:  # noqa: BLE001 - A mistake may show itself as any of them.
            violation = unforeseen(error)
        return SeedVerdict(
            seed=scenario.seed, violations=[violation], trace_hash="", calls=0, ok_calls=0,
            changes=0, steps=0, virtual_s=0.0, marks={}, counts={},
        )  # fmt: skip


@contextmanager
def watched(
    scenario: Scenario, mutant: str | None = None, world: str = SERVICE
) -> Iterator[Any]:
    """The world of a scenario with its full timeline, as far as the run came."""
    kind = KINDS[world]
    watched = kind.made(scenario, keeps=True)
    with with_mistake(mutant):
        try:
            kind.run(watched)
        except Exception as error:  # noqa: BLE001 - `judged` tells of it.
            watched.recording.moment("", "violation", unforeseen(error).message)
    try:
        yield watched
    finally:
        service.discard(watched)


def unforeseen(error: Exception) -> Violation:
    """The violation of a world that ended with `error`: its class, and where it was raised."""
    if isinstance(error, EndlessRun):
        return Violation("endless", None, str(error))
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} in {Path(last.filename).stem}.{last.name}"
    return Violation(UNFORESEEN, None, f"{place}: {error}")


# Workers.


class Workers:
    """Processes that run seeds while the block lasts; one job is this process itself."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self.jobs > 1:
            # Fork would copy the caller's threads and loops.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.jobs, context, _settle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The result of `work` for each item, in order; only `TASKS_AHEAD` run ahead."""
        if self._pool is None:
            yield from map(work, items)
            return
        rest = iter(items)
        first = islice(rest, self.jobs * TASKS_AHEAD)
        tasks: deque[Future[Result]] = deque(self._pool.submit(work, one) for one in first)
        try:
            while tasks:
                result = tasks.popleft().result()
                tasks.extend(self._pool.submit(work, one) for one in islice(rest, 1))
                yield result
        finally:
            for task in tasks:
                task.cancel()

    def outcomes(
        self, seeds: Iterable[int], *, mutant: str | None = None, world: str = SERVICE
    ) -> Iterator[SeedVerdict]:
        """Each seed's outcome, in the order of the seeds."""
        work = partial(_outcomes, mutant=mutant, world=world)
        for done in self.each(work, _chunks(seeds, KINDS[world].seeds_per_task)):
            yield from done


def _settle() -> None:
    """Prepare a worker: its parent handles Ctrl-C, and it ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    gc.freeze()  # Worlds come and go; older objects need no collection.


def _chunks(seeds: Iterable[int], size: int) -> Iterator[list[int]]:
    rest = iter(seeds)
    while chunk := list(islice(rest, size)):
        yield chunk


def _outcomes(seeds: Sequence[int], *, mutant: str | None, world: str) -> list[SeedVerdict]:
    found = [outcome(seed, world, mutant) for seed in seeds]
    gc.collect()  # Worlds run without collections.
    return found


def with_mistake(mutant: str | None) -> AbstractContextManager[None]:
    """The service with the mutant planted, or as it is."""
    return nullcontext() if mutant is None else planted(mutant_named(mutant))


def mutant_named(name: str) -> Mutant:
    """The mutant of that name; its number, "M05", is enough.

    Raises:
        InvalidArgument: There is no such mutant.
    """
    for mutant in (*MUTANTS, *DOOR_MUTANTS, *SLIPS):
        if name in {mutant.name, mutant.name.partition(" ")[0]}:
            return mutant
    known = [[one.name.partition(" ")[0] for one in kind] for kind in (MUTANTS, DOOR_MUTANTS)]
    spans = " and ".join(f"{numbers[0]} to {numbers[-1]}" for numbers in known)
    raise InvalidArgument(
        f"no mutant {name!r:.80}; there are {spans}, which docs/simulation-reference.md lists"
    )


# Mutants.


class Hunt(NamedTuple):
    """The result of the search for a mutant."""

    mutant: Mutant
    caught_at: int | None
    """The first seed in which a checker that must find the mutant did."""
    caught: int
    """How many seeds caught it."""
    seeds: int
    checkers: Counter[str]
    """In how many seeds each checker found something."""
    cpu_s: float
    """CPU time of all seeds (s)."""

    @property
    def per_thousand(self) -> float:
        """How many of a thousand seeds catch the mutant."""
        return 1000 * self.caught / max(1, self.seeds)


def hunt(
    mutant: Mutant, seeds: Iterable[int], workers: Workers, *, to_the_end: bool = False
) -> Hunt:
    """Look for `mutant`, in the world that shows it, until a seed catches it.

    With `to_the_end` all seeds run, and those that catch it are counted.
    """
    checkers: Counter[str] = Counter()
    caught_at: int | None = None
    looked, caught, cpu_s = 0, 0, 0.0
    for one in workers.outcomes(seeds, mutant=mutant.name, world=mutant.world):
        looked += 1
        cpu_s += one.cpu_s
        names = {violation.checker for violation in one.violations}
        checkers.update(names)
        if names & mutant.caught_by or (names - SAYS_NOTHING and not mutant.caught_by):
            caught += 1
            caught_at = one.seed if caught_at is None else caught_at
            if not to_the_end:
                break
    return Hunt(mutant, caught_at, caught, looked, checkers, cpu_s)
