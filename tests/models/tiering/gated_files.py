"""A directory of the index cache in which a test can hold up threads."""

import threading
from pathlib import Path

from typing_extensions import override

from tests.models.tiering.refusing_files import RefusingFiles
from tierledger.tiering.index_cache.files import CacheFiles, CacheKey, RawIndexes

HELD_S = 60
"""Seconds after which a gate opens by itself, so that a failed test leaves no thread."""


class Gate:
    """A gate at which one thread waits until a test opens it."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()

    def is_reached(self) -> bool:
        return self._reached.is_set()

    def open(self) -> None:
        self._opened.set()

    def pass_through(self) -> None:
        self._reached.set()
        self._opened.wait(HELD_S)


class GatedFiles(RefusingFiles):
    """Holds up the next thread that calls a method for which `hold` made a gate."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._gates: dict[str, Gate] = {}

    def hold(self, work: str) -> Gate:
        """The gate for the next call of the method `work`."""
        self._gates[work] = gate = Gate()
        return gate

    @override
    def open(self) -> CacheFiles:
        self._come_to("open")
        return super().open()

    @override
    def read(self, key: CacheKey) -> RawIndexes:
        self._come_to("read")
        return super().read(key)

    @override
    def write(self, path: Path, data: bytes) -> None:
        self._come_to("write")
        super().write(path, data)

    @override
    def remove(self, path: Path) -> None:
        self._come_to("remove")
        super().remove(path)

    def _come_to(self, work: str) -> None:
        if (gate := self._gates.pop(work, None)) is not None:
            gate.pass_through()
