"""Before the next commit a host waits for callers with many calls that it just answered."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import pytest
from typing_extensions import override

from tierledger.actors import messages as msg
from tierledger.actors.conditions import STORE_REFUSED, Conditions
from tierledger.actors.host.store_queues import (
    GATHER_S,
    GATHERED_MIN,
    GATHERED_PER_BATCH,
    QUIET_S,
    Committer,
    PendingAppend,
)
from tierledger.simulation.service.virtual_loop import VirtualLoop, VirtualProcess
from tierledger.storage.backend import NO_FORMERS, CreateOutcome, Former
from tierledger.storage.backends.memory import MemoryBackend

COMMIT_S = 0.01


class Commit(NamedTuple):
    began: float
    partitions: list[str]


class SlowStore(MemoryBackend):
    """Takes its time for each commit, and notes it."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Commit] = []

    @override
    async def create_each(
        self, items: Sequence[tuple[str, bytes]], formers: Mapping[str, Former] = NO_FORMERS
    ) -> list[CreateOutcome]:
        began = asyncio.get_running_loop().time()
        self.commits.append(Commit(began, [value.decode() for _, value in items]))
        await asyncio.sleep(COMMIT_S)
        return await super().create_each(items, formers)


class Partition:
    """Holds commands as a shell does; what it is told it passes on."""

    def __init__(self, committer: Committer, name: str) -> None:
        self._committer = committer
        self._name = name
        self._batches = 0
        self.then: Callable[[], None] = lambda: None

    def want(self, commands: int) -> None:
        for number in range(commands):
            self._committer.expect(self, is_first=number == 0)

    def hand_over(self) -> None:
        self._batches += 1
        key = f"{self._name}{self._batches}"
        self._committer.add(PendingAppend(self, self._batches, key, self._name.encode()))

    def feed(self, _stimulus: msg.Stimulus) -> None:
        self.then()


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()  # type: ignore[abstract]  # What it lacks nobody calls.
    yield made
    made.close()
    made.discard()


def second_commit(
    loop: VirtualLoop, commands: int, *, back_s: float | None, others: int = 1
) -> Commit:
    """That of a partition which had to wait for another's, whose callers ask again.

    They do so `back_s` after they were answered, or never. It began so long after the first.
    """
    store = SlowStore()

    def later(seconds: float, work: Callable[[], None]) -> None:
        loop.call_later(seconds, work)

    async def run() -> None:
        committer = Committer(store, Conditions(lambda: 0))
        first, other = Partition(committer, "first"), Partition(committer, "other")
        running = asyncio.ensure_future(committer.run())
        if back_s is not None:
            first.then = partial(later, back_s, partial(first.want, commands))
        first.want(commands)
        await asyncio.sleep(COMMIT_S / 2)
        other.want(others)
        await running

    loop.spawn(VirtualProcess("host"), run())
    loop.run(until=COMMIT_S + 2 * GATHER_S)
    began, second = store.commits
    return Commit(second.began - began.began - COMMIT_S, second.partitions)


def test_many_who_come_again_at_once_are_in_the_next_commit(loop: VirtualLoop) -> None:
    second = second_commit(loop, GATHERED_MIN, back_s=QUIET_S / 2)

    assert sorted(second.partitions) == ["first", "other"]
    assert second.began == pytest.approx(QUIET_S / 2)  # And no longer than for them.


def test_who_does_not_come_again_is_waited_for_only_a_moment(loop: VirtualLoop) -> None:
    second = second_commit(loop, GATHERED_MIN, back_s=None)

    assert second.partitions == ["other"]
    assert second.began == pytest.approx(QUIET_S)


def test_few_are_not_waited_for(loop: VirtualLoop) -> None:
    second = second_commit(loop, GATHERED_MIN - 1, back_s=QUIET_S / 2)

    assert second.partitions == ["other"]
    assert second.began == 0


def test_nobody_is_waited_for_where_batches_are_large_as_it_is(loop: VirtualLoop) -> None:
    many = GATHERED_PER_BATCH
    second = second_commit(loop, many, back_s=QUIET_S / 2, others=many)

    assert second.partitions == ["other"]
    assert second.began == 0


def test_a_store_that_takes_no_commit_is_a_condition_until_it_takes_one(
    loop: VirtualLoop,
) -> None:
    conditions = Conditions(lambda: 7)

    def commit_to(store: MemoryBackend) -> list[tuple[str, int]]:
        async def run() -> None:
            committer = Committer(store, conditions)
            partition = Partition(committer, "only")
            running = asyncio.ensure_future(committer.run())

            def stop() -> None:
                running.cancel()

            partition.then = stop
            partition.want(1)
            await asyncio.wait([running])

        loop.spawn(VirtualProcess("host"), run())
        loop.run(until=loop.time() + 1)
        return [(one["code"], one["since_ms"]) for one in conditions.plain()]

    assert commit_to(MemoryBackend(read_only=True)) == [(STORE_REFUSED, 7)]
    assert commit_to(MemoryBackend()) == []
