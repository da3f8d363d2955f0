"""A process that is killed while it sends a part: the next goes on with that part."""

import asyncio
import multiprocessing
import resource
import signal
from multiprocessing.process import BaseProcess
from pathlib import Path

from typing_extensions import override

from tests.models.tiering.segment_copies import copied, whole_log
from tests.models.tiering.tier_trace import TieredSegment, segments
from tierledger.tiering.layouts.ledger.layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.layouts.tier_url import open_tier
from tierledger.tiering.objects.request_counts import Operation, RequestKind
from tierledger.tiering.objects.store import ObjectStore

SEGMENT = next(one for one in segments() if len(one.indexes) == 5)
PARTS = LedgerSettings(part_bytes=2000, parts_at_once=1)
PARTS_BEFORE = 3
PARTS_AFTER = len(SEGMENT.log) // 2000 + 1 - PARTS_BEFORE
UNFINISHED = "#" + "1"
"""The suffix of a file that is being written."""

END_S = 60.0

PROCESSES = multiprocessing.get_context("forkserver")


def started(url: str, options: dict[str, str], folder: Path, *, dies: bool) -> BaseProcess:
    """A process that copies the segment."""
    folder.mkdir()
    process = PROCESSES.Process(target=copy, args=(url, options, folder, dies))
    process.start()
    return process


def copy(url: str, options: dict[str, str], folder: Path, dies: bool) -> None:
    storage = opened(url, options)
    if dies:
        storage._store.__class__ = DyingStore
    asyncio.run(copied(storage, folder, SEGMENT))


def opened(url: str, options: dict[str, str]) -> LedgerStorageManager:
    storage = open_tier(url, options, ledger_settings=PARTS)
    assert isinstance(storage, LedgerStorageManager)
    return storage


class DyingStore(ObjectStore):
    """The system ends the process in the middle of the fourth file that it writes."""

    @override
    async def put(self, operation: Operation, name: str, data: bytes) -> None:
        if self.counts.requests[operation, RequestKind.PUT] == PARTS_BEFORE:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(data) // 2, len(data) // 2))
        await super().put(operation, name, data)


async def repeated(storage: LedgerStorageManager, folder: Path) -> TieredSegment:
    """The segment, copied under the same id by a process that knows nothing of the first."""
    finished = await copied(storage, folder, SEGMENT)
    assert storage.counts.requests[Operation.COPY, RequestKind.PUT] == PARTS_AFTER + 1
    assert await whole_log(storage, finished.metadata) == SEGMENT.log
    assert await storage.fetch_all_indexes(finished.metadata) == SEGMENT.indexes
    return finished


async def test_a_killed_copy_to_a_directory_goes_on_with_its_part(tmp_path: Path) -> None:
    root = tmp_path / "tier"
    root.mkdir()
    process = started(f"dir:{root}", {}, tmp_path / "first", dies=True)
    process.join(END_S)

    assert process.exitcode == -signal.SIGXFSZ
    parts = [(f"log.0000{one}", 2000) for one in range(PARTS_BEFORE)]
    assert files(root) == [*parts, (f"log.0000{PARTS_BEFORE}{UNFINISHED}", 1000)]
    await repeated(opened(f"dir:{root}", {}), tmp_path)
    assert not any("#" in name for name, _ in files(root))


def files(root: Path) -> list[tuple[str, int]]:
    found = sorted(one for one in root.rglob("*") if one.is_file())
    return [(one.name, one.stat().st_size) for one in found]
