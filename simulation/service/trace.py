"""What happened in a world, as one number: the same seed gives the same number, everywhere."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from tierledger.simulation.service.virtual_loop import VirtualLoop

LINES_KEPT = 100_000
"""Lines of a trace that is kept for reading; the hash covers all of it."""


class Trace:
    """Hashes every event of a run; keeps the text if somebody wants to read it."""

    def __init__(self, loop: VirtualLoop, *, keeps_lines: bool = False) -> None:
        self._loop = loop
        self._hash = blake2b(digest_size=16)
        self.lines: list[str] | None = [] if keeps_lines else None
        self.marks: Counter[str] = Counter()
        """How often each kind of fault or rare situation came about."""

    def event(self, what: str, *details: object) -> None:
        """Note what happens now. Details are text or numbers, never an object's address."""
        line = f"{self._loop.time():.9f} {what} {' '.join(map(str, details))}"
        self._hash.update(line.encode())
        if self.lines is not None and len(self.lines) < LINES_KEPT:
            self.lines.append(line)

    def mark(self, what: str, *details: object) -> None:
        """Note something rare, and count it."""
        self.marks[what] += 1
        self.event(what, *details)

    def digest(self) -> str:
        return self._hash.hexdigest()
