"""A log that begins anew where the tier ends, and what a crash on the way leaves."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tests.models.tiering import tier_trace
from tierledger.events.errors import CorruptRemoteData, InvalidArgument
from tierledger.tiering.formats.producer_snapshot import format_producer_snapshot
from tierledger.tiering.local.directory import LogDirectory

GZIP = next(one for one in tier_trace.topics() if one.topic == "codec-gzip")


def lay_out(folder: Path) -> Path:
    return tier_trace.local_log_directory(folder, GZIP.topic, GZIP.partition)


SNAPSHOT = format_producer_snapshot([])
EPOCHS = {0: 0, 3: 400, 4: 480}


async def test_a_log_begins_anew_where_the_tier_ends(tmp_path: Path) -> None:
    folder = lay_out(tmp_path)
    log = await LogDirectory.open(folder, GZIP)
    await log.raise_log_start_offset(200)

    await log.restart_at(500, EPOCHS, SNAPSHOT, 100)

    for one in (log, await LogDirectory.open(folder, GZIP)):
        assert [(part.base_offset, part.end_offset) for part in one.segments()] == [(500, 499)]
        assert (one.log_start_offset, one.log_end_offset) == (100, 500)
        assert one.last_stable_offset == 500
        assert one.leader_epochs == {0: 100, 3: 400, 4: 480}
    assert sorted(path.name for path in folder.iterdir()) == [
        f"{500:020}.index",
        f"{500:020}.log",
        f"{500:020}.snapshot",
        f"{500:020}.timeindex",
        "leader-epoch-checkpoint",
    ]


@pytest.mark.parametrize(
    ("offset", "start", "snapshot", "error"),
    [
        (500, 501, SNAPSHOT, InvalidArgument),
        (500, -1, SNAPSHOT, InvalidArgument),
        (500, 0, SNAPSHOT[:-1], CorruptRemoteData),
    ],
)
async def test_a_log_with_which_it_cannot_begin_leaves_the_old_one(
    tmp_path: Path, offset: int, start: int, snapshot: bytes, error: type[Exception]
) -> None:
    folder = lay_out(tmp_path)
    log = await LogDirectory.open(folder, GZIP)
    before = sorted(folder.iterdir())

    with pytest.raises(error):
        await log.restart_at(offset, EPOCHS, snapshot, start)

    assert sorted(folder.iterdir()) == before
    assert log.log_end_offset == 207


class PowerCut:
    """Lets files be removed, made and renamed so many times, and then never again."""

    def __init__(self, patch: pytest.MonkeyPatch, steps: int) -> None:
        self._left = steps
        for method in ("unlink", "touch", "replace"):
            patch.setattr(Path, method, self._counted(getattr(Path, method)))

    def _counted(self, work: Callable[..., Path | None]) -> Callable[..., Path | None]:
        def step(path: Path, *args: object, **named: object) -> Path | None:
            if self._left == 0:
                raise OSError("the power is off")
            self._left -= 1
            return work(path, *args, **named)

        return step


@pytest.mark.parametrize("old_start", [0, 150])
async def test_a_crash_while_it_begins_anew_leaves_a_log_without_a_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old_start: int
) -> None:
    for steps in count():
        folder = lay_out(tmp_path / str(steps))
        log = await LogDirectory.open(folder, GZIP)
        await log.raise_log_start_offset(old_start)
        is_done = False
        with monkeypatch.context() as patch, suppress(OSError):
            PowerCut(patch, steps)
            await log.restart_at(500, EPOCHS, SNAPSHOT, 100)
            is_done = True

        again = await LogDirectory.open(folder, GZIP)

        assert again.segments()[0].base_offset in {0, old_start, 100, 500}
        assert again.log_end_offset in {old_start, 100, 109, 207, 500}
        if is_done:
            assert (again.log_start_offset, again.log_end_offset) == (100, 500)
            assert steps > 12
            break
