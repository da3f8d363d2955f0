"""Every order of a small world in which few deliveries are late, and every crash in it.

Two hosts, two brokers, one partition: leaders come and go, each appends. The machines are the
real ones, and the checkers those of all other worlds. What is tried is all there is within the
bounds, so that silence is a proof of this small world, not a sample.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import nullcontext
from queue import Empty
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.simulation.exhaust.schedule import again_with, repeated
from tierledger.simulation.exhaust.script import VARIANTS, Bounds
from tierledger.simulation.exhaust.search import (
    Found,
    Part,
    Search,
    Searched,
    parts_of,
)
from tierledger.simulation.mutants.catalogue import planted
from tierledger.simulation.orphans import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierledger.simulation.exhaust.script import Variant
    from tierledger.simulation.mutants.catalogue import Mutant

    OnProgress = Callable[["Progress"], None]

POLL_S = 0.2


class Progress(NamedTuple):
    """How far it is: a rough share between 0 and 1, and the states known so far."""

    share: float
    states: int


class Explored(NamedTuple):
    """What was tried, and what was found."""

    bounds: Bounds
    schedules: int
    """Orders that were begun; each ended, or was cut where another had been already."""
    states: int
    """Different ones, of those in which there was something to choose, or all was quiet."""
    pruned: int
    """Schedules that were cut."""
    outcomes: int
    """Different pairs of a history and a log to which they led, each checked; those of two
    parts of the work may be the same."""
    found: Found | None
    """The first that breaks something; nothing is tried behind it."""
    mutant: str | None
    """The name of the mistake that was planted, if one was."""

    @property
    def violations(self) -> list[Any]:
        return [] if self.found is None else self.found.violations


def explore(
    bounds: Bounds = Bounds(),  # noqa: B008 - A tuple.
    on_progress: OnProgress | None = None,
    *,
    jobs: int = 1,
    variants: tuple[Variant, ...] = VARIANTS,
    mutant: Mutant | None = None,
) -> Explored:
    """Try every schedule within `bounds`; the numbers do not depend on `jobs`."""
    parts = parts_of(bounds, variants)
    run = _run_here if jobs == 1 else _run_in_processes
    results = run(parts, on_progress or _nobody_asks, mutant, jobs)
    found = [one.found for one in results if one.found is not None]
    return Explored(
        bounds,
        sum(one.schedules for one in results),
        sum(one.states for one in results),
        sum(one.pruned for one in results),
        sum(one.outcomes for one in results),
        found[0] if found else None,
        None if mutant is None else mutant.name.partition(" ")[0],
    )


def lines_of(explored: Explored, seconds: float) -> list[str]:
    """The result as people read it, and the schedule that breaks something, if one does."""
    bounds = explored.bounds
    limits = (
        f"{bounds.delays} late deliveries, {bounds.crashes} crashes, "
        f"{bounds.appends} appends, {bounds.changes} leadership changes, {bounds.reads} reads"
    )
    lines = [
        f"bounds      {limits}",
        f"schedules   {explored.schedules}",
        f"states      {explored.states}",
        f"cut         {explored.pruned} schedules, at a state that was known",
        f"outcomes    {explored.outcomes}, each held against all checkers",
        f"time        {seconds:.1f} s",
        f"violations  {len(explored.violations)}",
    ]
    if explored.found is not None:
        lines += [f"  {one.checker}: {one.message}" for one in explored.violations]
        lines.append(f"again with  {again_with(bounds, explored.found, explored.mutant)}")
        lines += explored.found.told
    return lines


def _nobody_asks(_: Progress) -> None:
    """How far it is."""


def _run_here(
    parts: list[Part], on_progress: OnProgress, mutant: Mutant | None, _: int
) -> list[Searched]:
    results: list[Searched] = []
    for at, part in enumerate(parts):
        known = sum(one.states for one in results)

        def tell(share: float, states: int, at: int = at, known: int = known) -> bool:
            on_progress(Progress((at + share) / len(parts), known + states))
            return False

        results.append(_searched(part, mutant, tell))
        on_progress(Progress((at + 1) / len(parts), known + results[-1].states))
        if results[-1].found is not None:
            break
    return results


def _run_in_processes(
    parts: list[Part], on_progress: OnProgress, mutant: Mutant | None, jobs: int
) -> list[Searched]:
    # Fork would copy whatever threads and loops the caller has.
    context = multiprocessing.get_context("spawn")
    told, is_over = context.Queue(), context.Event()
    progress = [Progress(0.0, 0)] * len(parts)
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_begin, initargs=(told, is_over)
    ) as workers:
        tasks = [workers.submit(_work, at, one, mutant) for at, one in enumerate(parts)]
        running = set(tasks)
        try:
            while running:
                done, running = wait(running, POLL_S, FIRST_COMPLETED)
                if any(one.result().found is not None for one in done):
                    is_over.set()
                _take_in(told, progress)
                on_progress(_together(tasks, progress))
        finally:
            is_over.set()
            workers.shutdown(cancel_futures=True)
    return [one.result() for one in tasks]


def _take_in(told: Any, progress: list[Progress]) -> None:  # noqa: ANN401 - A queue of processes.
    try:
        while True:
            at, share, states = told.get_nowait()
            progress[at] = Progress(share, states)
    except Empty:
        return


def _together(tasks: list[Future[Searched]], progress: list[Progress]) -> Progress:
    """What is told of parts under way, and known of those that are done."""
    shares = states = 0.0
    for task, told in zip(tasks, progress, strict=True):
        shares += 1.0 if task.done() else told.share
        states += task.result().states if task.done() else told.states
    return Progress(shares / len(tasks), int(states))


_shared: dict[str, Any] = {}
"""Of a worker: where it tells how far it is, and hears that all is over."""


def _begin(told: Any, is_over: Any) -> None:  # noqa: ANN401 - Queue and event of processes.
    end_with_parent()
    _shared.update(told=told, is_over=is_over)


def _work(at: int, part: Part, mutant: Mutant | None) -> Searched:
    def tell(share: float, states: int) -> bool:
        _shared["told"].put((at, share, states))
        return bool(_shared["is_over"].is_set())

    if _shared["is_over"].is_set():
        return Searched(0, 0, 0, 0, None)
    return _searched(part, mutant, tell)


def _searched(
    part: Part, mutant: Mutant | None, tell: Callable[[float, int], bool]
) -> Searched:
    with nullcontext() if mutant is None else planted(mutant):
        result = Search(part).run(tell)
        if result.found is None:
            return result
        told, _ = repeated(part.bounds, part.variant, result.found.choices)
        return result._replace(found=result.found._replace(told=tuple(told)))
