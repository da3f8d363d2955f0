"""How large a run is, and what its parts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierledger.benchmarks.ledger import Ledger
from tierledger.benchmarks.workload import build_commands

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes and repetitions; medians are taken over the repetitions.

    Attributes:
        segments: Segments of the large partition.
        small: Segments of the partition it is compared with.
        medium: Segments of the one that checkpoints are compared with.
        replayed: Segments whose life cycle is replayed.
        lookups: Lookups of one repetition.
        tail: Events behind the checkpoint at a cold start, and between two checkpoints.
        repetitions: Of each part.
        commits: Commits of each kind and size.
        calls: Calls to the service in one repetition.
    """

    segments: int = 1_000_000
    small: int = 1_000
    medium: int = 10_000
    replayed: int = 50_000
    lookups: int = 200_000
    tail: int = 1_000
    repetitions: int = 5
    commits: int = 300
    calls: int = 2_000


QUICK = Scale(
    segments=100_000, replayed=10_000, lookups=50_000, repetitions=3, commits=60, calls=500
)
"""A look at everything in less than a minute; its figures are not comparable."""

COMMANDS_PER_COMMIT = 256
"""A leader's largest batch."""

SEGMENTS_PER_CHECKPOINT = 250_000
"""Bounds the memory of the one atomic step that a checkpoint is."""


class Bench:
    """One run: its scale, its folder, and the stores that were built in it."""

    def __init__(self, scale: Scale, folder: Path, say: Callable[[str], None]) -> None:
        """`say` shows what is going on, where something takes long."""
        self.scale = scale
        self.say = say
        self._folder = folder
        self._built: dict[int, Path] = {}

    def new_store(self, name: str) -> Path:
        """Where a store of a part's own can be made."""
        return self._folder / f"{name}.sqlite"

    async def store(self, segments: int) -> Path:
        """A store with one partition of so many finished segments, built at its first use."""
        if segments not in self._built:
            path = self.new_store(f"partition-{segments}")
            await self._build(path, segments)
            self._built[segments] = path
        return self._built[segments]

    async def ledger(self, segments: int) -> Ledger:
        """That store's partition, loaded and open for writing; whoever asks closes it."""
        return await Ledger.open(await self.store(segments), segments)

    async def _build(self, path: Path, segments: int) -> None:
        ledger = await Ledger.open(path, segments)
        step = COMMANDS_PER_COMMIT // 2
        for first in range(0, segments, step):
            if first % (step * 200) == 0 and segments > self.scale.medium:
                self.say(f"building {segments:,} segments: {first * 100 // segments} %")
            until = min(first + step, segments)
            await ledger.commit(build_commands(ledger.workload, range(first, until)))
            if first % SEGMENTS_PER_CHECKPOINT < step:
                await ledger.checkpoint()
        await ledger.checkpoint()
        await ledger.close()
