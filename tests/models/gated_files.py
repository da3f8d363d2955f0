"""A directory of the index cache whose threads can be held up."""

import threading
from pathlib import Path

from typing_extensions import override

from tests.models.refusing_files import RefusingFiles
from tierledger.tiering.index_cache.files import Found, RawIndexes, SegmentKey

HELD_S = 60
"""A test that failed holds no thread for longer."""


class Gate:
    """What a thread comes to once, and waits at until the gate is opened."""

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
    """Holds up the next thread that does what `hold` was told."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._gates: dict[str, Gate] = {}

    def hold(self, work: str) -> Gate:
        """The gate for the next call of the method `work`."""
        self._gates[work] = gate = Gate()
        return gate

    @override
    def open(self) -> Found:
        self._come_to("open")
        return super().open()

    @override
    def read(self, key: SegmentKey) -> RawIndexes:
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
