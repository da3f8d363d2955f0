"""The one place that reads the wall clock and the system's randomness."""

from __future__ import annotations

import itertools
import secrets
import time


class WallClock:
    """The machine's own time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class RandomIds:
    """Ids that begin with 8 random bytes of this process, then count."""

    def __init__(self) -> None:
        self._prefix = secrets.token_bytes(8)
        self._count = itertools.count()

    def request_id(self) -> bytes:
        return self._prefix + (next(self._count) % (1 << 32)).to_bytes(4, "big")
