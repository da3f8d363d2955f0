"""How much memory the processes of a live service take, and whether that grows."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tierledger.simulation.live.ray_faults import LiveService

SAMPLE_S = 5.0
WARM_UP_SHARE = 0.1
"""Share of the run before memory counts: caches and logs fill first."""

WINDOW_SHARE = 0.2
"""Share of the run at both ends of the rest, whose medians are compared."""

SAMPLES_MIN = 5
"""With fewer in a window the median says nothing."""

MEMORY_PARTS = ("Pss_Anon:", "Pss_Shmem:")
"""What the kernel counts as a process's own; pages of programs are shared and come and go."""


class MemoryGrowth(NamedTuple):
    """Memory (bytes) of one host in the median, behind the warm-up and at the end."""

    before: int
    after: int

    @property
    def share(self) -> float:
        """By how much it has grown; 0.05 is 5 percent."""
        return self.after / self.before - 1


class MemoryWatch:
    """Looks at the memory of a service's hosts while it runs."""

    def __init__(self, service: LiveService) -> None:
        self._service = service
        self._samples: list[tuple[float, int]] = []
        """When (s) a process was looked at, and how much it had."""

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(SAMPLE_S)
            with suppress(Exception):  # The service is being killed and frozen.
                for host in await self._service.hosts():
                    if (used := memory_of(host.pid)) is not None:
                        self._samples.append((time.monotonic(), used))

    def growth(self) -> MemoryGrowth | None:
        """The growth between both ends of the run; None if it was too short to say."""
        return grown(self._samples)


def grown(samples: list[tuple[float, int]]) -> MemoryGrowth | None:
    """The growth in samples of time (s) and memory; None if there are too few."""
    if not samples:
        return None
    began, ended = samples[0][0], samples[-1][0]
    took = ended - began
    warm = began + WARM_UP_SHARE * took
    first = [used for at, used in samples if warm <= at <= warm + WINDOW_SHARE * took]
    last = [used for at, used in samples if at >= ended - WINDOW_SHARE * took]
    if min(len(first), len(last)) < SAMPLES_MIN:
        return None
    return MemoryGrowth(int(median(first)), int(median(last)))


def memory_of(pid: int) -> int | None:
    """The memory (bytes) that a process has for itself; None if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith(MEMORY_PARTS)]
    return 1024 * sum(map(int, sizes))
