"""What a backup has, what it refuses, and what a killed run leaves behind."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tests.models.storage.flipped_bits import flipped
from tests.models.storage.stored_partitions import (
    CLUSTER,
    SERDE,
    TIP,
    StoredPartition,
    updated,
)
from tierledger.events.errors import (
    CorruptLog,
    CorruptRemoteData,
    FormatTooNew,
    InvalidArgument,
    RejectedError,
    RemoteResourceNotFound,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.backend import MetadataStorageBackend, Operation, Remove
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.backup import backup as backups
from tierledger.storage.backup.backup import MadeBackup, make, prune, restore, verified
from tierledger.storage.backup.files import BackupFiles, BackupName
from tierledger.storage.backup.keeping import KeepRules, kept
from tierledger.storage.backup.place import Folder, digest
from tierledger.storage.catalog import Catalog
from tierledger.storage.keys import DefaultMetadataKeyFactory
from tierledger.storage.partition.forgetting import forget
from tierledger.storage.partition.verification import verify
from tierledger.storage.transfer import target
from tierledger.storage.transfer.logs import COORDINATOR, ClusterLogs

KEYS = DefaultMetadataKeyFactory(CLUSTER)
LOGS = ClusterLogs(KEYS, SERDE, CLUSTER)
OTHER = TopicIdPartition(TIP.topic_id, 4, "orders")
NINTH = TopicIdPartition(TIP.topic_id, 9, "orders")
MADE_MS = 1_700_000_000_000
SLOT = KEYS.coordinator_batch(0)


@pytest.fixture
def files(tmp_path: Path) -> BackupFiles:
    return BackupFiles(Folder(tmp_path / "backups"))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "PART_BYTES", 500)
    monkeypatch.setattr(target, "STEP_BYTES", 300)


async def made(
    backend: MetadataStorageBackend,
    files: BackupFiles,
    at_ms: int = MADE_MS,
    cluster: str = CLUSTER,
) -> MadeBackup:
    keys = DefaultMetadataKeyFactory(cluster)
    return await make(files, Catalog(backend, keys, SERDE, cluster), at_ms, lambda _: None)


async def restored(
    files: BackupFiles,
    backend: MetadataStorageBackend | None = None,
    as_of_ms: int | None = None,
) -> MetadataStorageBackend:
    backend = backend or MemoryBackend()
    chosen = await files.backup(await files.chosen(as_of_ms))
    await restore(files, chosen, backend, LOGS, lambda _: None)
    return backend


async def logs_in(backend: MetadataStorageBackend) -> dict[str, bytes]:
    """The values of all logs; all that is in a store but checkpoints."""
    found = await backend.get_like("", limit=100_000)
    return {key: value for key, value in found if not key.startswith(KEYS.states())}


async def filled(count: int = 5) -> StoredPartition:
    first = await StoredPartition.led()
    await first.fill(range(count))
    second = await StoredPartition.led(first.backend, OTHER)
    await second.fill(range(2))
    await first.checkpoint()
    return first


def names(files: BackupFiles, ending: str) -> list[Path]:
    assert isinstance(files.place, Folder)
    return sorted(files.place.path.glob(f"*.{ending}"))


async def test_a_backup_has_all_logs_and_the_next_one_only_what_is_new(
    files: BackupFiles,
) -> None:
    partition = await filled()
    before = await logs_in(partition.backend)
    first = await made(partition.backend, files)
    parts = names(files, "part")
    await partition.fill(range(5, 8))
    second = await made(partition.backend, files, MADE_MS + 5000)
    third = await made(partition.backend, files, MADE_MS + 9000)

    assert (first.events, second.events, third.events) == (16, 6, 0)
    assert (second.bytes > 0, third.bytes) == (True, 0)
    assert names(files, "part")[: len(parts)] == parts
    assert await logs_in(await restored(files)) == await logs_in(partition.backend)
    assert await logs_in(await restored(files, as_of_ms=MADE_MS + 4999)) == before
    with pytest.raises(RemoteResourceNotFound, match="no backup of that time"):
        await restored(files, as_of_ms=MADE_MS - 1)
    found = await verified(files, lambda _: LOGS, lambda _: None)
    assert [(one.name.number, one.error) for one in found] == [(1, None), (2, None), (3, None)]


async def test_a_log_that_was_forgotten_and_goes_on_is_restored_so(files: BackupFiles) -> None:
    partition = await filled()
    await made(partition.backend, files)
    await partition.append([updated(number, 2) for number in range(5)])
    await partition.append([updated(number, 3) for number in range(5)])
    await partition.close()
    await forget(partition.reader())
    await made(partition.backend, files)
    again = await StoredPartition.resumed(partition.backend)
    await again.open()
    await again.fill([9])
    await made(partition.backend, files)
    fresh = BackupFiles(Folder(names(files, "part")[0].parent.parent / "fresh"))
    await made(partition.backend, fresh)

    for place in (files, fresh):
        back = await restored(place)
        assert await logs_in(back) == await logs_in(partition.backend)
        assert (await verify(StoredPartition(back).reader())).passed


async def test_of_a_damaged_log_a_backup_has_what_is_sound_and_names_it(
    files: BackupFiles,
) -> None:
    partition = await filled()
    await made(partition.backend, files)
    await partition.fill(range(5, 9))
    await partition.flip(8)

    done = await made(partition.backend, files)

    assert list(done.backup.damaged) == [f"{TIP.topic_id}-{TIP.partition}"]
    assert "batch 8" in str(done.backup.damaged)
    back = await logs_in(await restored(files))
    assert set(await logs_in(partition.backend)) - set(back) == {
        partition.batch_key(number) for number in (8, 9)
    }


async def test_a_log_that_was_lost_is_named(files: BackupFiles) -> None:
    partition = await filled()
    await partition.backend.remove_like(KEYS.log(TIP))

    done = await made(partition.backend, files)

    assert "there is a checkpoint, and no log" in str(done.backup.damaged)


async def test_a_store_that_lacks_what_is_backed_up_is_refused(files: BackupFiles) -> None:
    partition = await filled()
    await made(partition.backend, files)
    fewer = await filled(4)
    other = StoredPartition(MemoryBackend())
    await other.open()
    await other.fill(range(7, 20))
    without = await StoredPartition.led()
    await without.backend.remove_like("")
    await StoredPartition.led(without.backend, NINTH)

    for store in (fewer, other, without):
        with pytest.raises(StoreRefused, match="the store is older, or another one"):
            await made(store.backend, files)
    with pytest.raises(InvalidArgument, match="backups of cluster 'test-cluster'"):
        await made(MemoryBackend(), files, cluster="another")
    assert len(await files.backups()) == 1


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def change(path: Path) -> None:
    path.write_bytes(flipped(path.read_bytes()))


@pytest.mark.parametrize("harm", [truncate, change, Path.unlink])
@pytest.mark.parametrize("at", [0, -1])
async def test_a_part_that_is_not_what_was_written_is_refused_by_its_name(
    files: BackupFiles, harm: Callable[[Path], object], at: int
) -> None:
    await made((await filled()).backend, files)
    part = names(files, "part")[at]
    harm(part)
    backend = MemoryBackend()

    with pytest.raises(CorruptRemoteData, match=re.escape(part.name)):
        await restored(files, backend)

    (one,) = await verified(files, lambda _: LOGS, lambda _: None)
    assert part.name in str(one.error)
    with pytest.raises(StoreRefused, match="is being restored"):
        await made(backend, BackupFiles(Folder(part.parent.parent / "of the half")))


@pytest.mark.parametrize("harm", [truncate, change])
async def test_a_backup_that_is_not_what_was_written_is_refused_by_its_name(
    files: BackupFiles, harm: Callable[[Path], object]
) -> None:
    partition = await filled()
    await made(partition.backend, files)
    (path,) = names(files, "backup")
    harm(path)

    for asked in (restored(files), made(partition.backend, files)):
        with pytest.raises(CorruptRemoteData, match=re.escape(path.name)):
            await asked


async def test_what_is_no_backup_is_refused_by_its_name(files: BackupFiles) -> None:
    partition = await filled()
    await made(partition.backend, files)
    (path,) = names(files, "backup")
    earlier = path.with_name(path.name.replace("20231114", "20201114"))
    part = names(files, "part")[0]

    path.rename(earlier)
    with pytest.raises(CorruptRemoteData, match=f"{path.name} is missing"):
        await restored(files)
    names(files, "index")[0].unlink()
    with pytest.raises(
        CorruptRemoteData, match=f"{earlier.name} is no backup: its name was another one"
    ):
        await restored(files)
    earlier.rename(path)
    for text, error in (
        (b"[]", CorruptRemoteData),
        (b'{"format": 2}', FormatTooNew),
        (b'{"format": 1}', CorruptRemoteData),
    ):
        foreign = path.with_name(f"00000002-20231114T221320Z-{digest(text)}.backup")
        foreign.write_bytes(text)
        with pytest.raises(error, match=foreign.name):
            await restored(files)
        foreign.unlink()
    batches = part.read_bytes()
    part.write_bytes(b"\x01")
    with pytest.raises(CorruptRemoteData, match=part.name):
        await restored(files)
    part.write_bytes(batches)
    (path.parent / "photo.jpg").touch()
    for asked in (restored(files), made(partition.backend, files)):
        with pytest.raises(InvalidArgument, match=r"'photo.jpg'.*is no file of a backup"):
            await asked


class Failing(MemoryBackend):
    """A store that fails at one step, before it or after it."""

    def __init__(self, step: int, *, is_stored: bool) -> None:
        super().__init__()
        self.steps = step
        self._is_stored = is_stored

    @override
    async def execute_atomically(self, operations: Sequence[Operation]) -> None:
        self.steps -= 1
        if self.steps == 0 and self._is_stored:
            await super().execute_atomically(operations)
        if self.steps == 0:
            raise StorageUnavailable("killed here")
        await super().execute_atomically(operations)


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_restore_that_was_killed_is_seen_and_can_be_repeated(
    files: BackupFiles, is_stored: bool
) -> None:
    partition = await filled()
    await made(partition.backend, files)
    expected = await logs_in(partition.backend)
    step = 0
    while True:
        step += 1
        backend = Failing(step, is_stored=is_stored)
        try:
            await restored(files, backend)
        except StorageUnavailable:
            there = await logs_in(backend)
            if there == expected:
                assert is_stored  # The last step is, and nobody was told.
                continue
            assert not there or SLOT in there
            backend.steps = 0
            await restored(files, backend)
            assert await logs_in(backend) == expected
        else:
            break
    assert step > 5


async def test_what_another_backup_has_left_is_removed_first(files: BackupFiles) -> None:
    partition = await filled()
    await made(partition.backend, files)
    before = await logs_in(partition.backend)
    await StoredPartition.led(partition.backend, NINTH)
    await partition.fill(range(5, 9))
    await made(partition.backend, files, MADE_MS + 5000)
    steps = count(1)
    while True:
        backend = Failing(next(steps), is_stored=True)
        with pytest.raises(StorageUnavailable):
            await restored(files, backend)
        if KEYS.log_batch(NINTH, 0) in backend.values:
            break

    await restored(files, backend, MADE_MS)

    assert await logs_in(backend) == before


async def test_of_two_that_restore_into_one_store_the_former_stops(files: BackupFiles) -> None:
    partition = await filled()
    await made(partition.backend, files)
    backend = MemoryBackend()

    class Overtaken(MemoryBackend):
        @override
        async def execute_atomically(self, operations: Sequence[Operation]) -> None:
            if len(self.values) == 4:
                await restored(files, backend)
            await backend.execute_atomically(operations)

    slow = Overtaken(backend.values)
    with pytest.raises(RejectedError, match="somebody else writes to the store"):
        await restored(files, slow)

    assert await logs_in(backend) == await logs_in(partition.backend)


async def test_a_store_that_has_something_of_the_cluster_is_left_alone(
    files: BackupFiles,
) -> None:
    partition = await filled()
    await made(partition.backend, files)
    before = await partition.backend.get_like("")

    with pytest.raises(RejectedError, match="has cluster 'test-cluster' already"):
        await restored(files, partition.backend)

    assert await partition.backend.get_like("") == before
    other = StoredPartition(MemoryBackend(), cluster="another")
    await other.open()
    await restored(files, other.backend)
    assert (await logs_in(other.backend)).keys() > (await logs_in(partition.backend)).keys()


async def test_the_next_part_is_read_while_one_is_restored(tmp_path: Path) -> None:
    class Asked(Folder):
        names: list[str]

        @override
        async def read(self, name: str) -> bytes:
            self.names.append(name)
            return await super().read(name)

    partition, _ = await several(tmp_path / "backups")
    asked = Asked(tmp_path / "backups")
    asked.names = []
    behind = BackupFiles(asked)
    backup = await behind.backup(await behind.chosen())
    parts = [one.name for one in backup.parts]
    asked.names.clear()
    seen = list[int]()

    class Noting(MemoryBackend):
        @override
        async def execute_atomically(self, operations: Sequence[Operation]) -> None:
            seen.append(len(asked.names))
            await super().execute_atomically(operations)

    backend = Noting()
    await restore(behind, backup, backend, LOGS, lambda _: None)

    assert asked.names == parts
    assert len(parts) > 4
    assert sorted(set(seen))[:3] == [0, 2, 3]  # Closed; then the first part's steps, and so on.
    assert (await logs_in(backend)).items() < (await logs_in(partition.backend)).items()


class FullFolder(Folder):
    """A folder that takes only some files, and lets none be removed meanwhile."""

    left = 0

    @override
    async def write(self, name: str, data: bytes) -> None:
        if not self.left:
            raise OSError(28, "No space left on device", name)
        self.left -= 1
        await super().write(name, data)

    @override
    async def remove(self, names: Iterable[str]) -> None:
        if self.left == 0:
            raise OSError(5, "killed")
        await super().remove(names)


async def test_a_backup_that_was_killed_is_not_there_and_can_be_repeated(
    tmp_path: Path,
) -> None:
    partition = await filled()
    folder = FullFolder(tmp_path / "backups")
    files = BackupFiles(folder)
    for left, parts in ((0, 0), (1, 1), (2, 3)):
        folder.left = left
        with pytest.raises(OSError, match="No space"):
            await made(partition.backend, files)
        assert await files.backups() == ()
        assert len(names(files, "part")) == parts
        await partition.fill([10 + left])
    unfinished = folder.path / f".00000001-x.part.{'0' * 16}.unfinished"
    unfinished.touch()

    folder.left = 100
    await made(partition.backend, files)

    assert await logs_in(await restored(files)) == await logs_in(partition.backend)
    (one,) = await files.backups()
    newest = await files.backup(one)
    assert {part.name for part in newest.parts} == {path.name for path in names(files, "part")}
    assert not unfinished.exists()
    await partition.fill([20])
    await partition.backend.create(SLOT, b"nonsense")
    with pytest.raises(CorruptLog, match="the coordinator's log: batch 0"):
        await made(partition.backend, files)
    assert len(names(files, "part")) == len(newest.parts)  # Who is not killed removes them.


class Overtaken(Folder):
    """A folder in which something happens before one of the steps that change it."""

    left = 0
    happens: Callable[[], Awaitable[object]] | None = None

    async def _step(self) -> None:
        self.left -= 1
        if self.left == 0 and self.happens is not None:
            await self.happens()

    @override
    async def write(self, name: str, data: bytes) -> None:
        await self._step()
        await super().write(name, data)

    @override
    async def create(self, name: str, data: bytes) -> bool:
        await self._step()
        return await super().create(name, data)

    @override
    async def remove(self, names: Iterable[str]) -> None:
        await self._step()
        await super().remove(names)


@pytest.mark.parametrize("is_first", [True, False])
async def test_of_two_that_make_a_backup_the_slower_one_is_refused_wherever_it_is(
    tmp_path: Path, is_first: bool
) -> None:
    partition = await filled()
    outcomes = set[bool]()
    for step in count(1):
        files = BackupFiles(Folder(tmp_path / f"backups-{step}"))
        slow = Overtaken(tmp_path / f"backups-{step}")
        if not is_first:
            await made(partition.backend, files)
            await partition.fill([100 + step])
        slow.left, slow.happens = step, lambda files=files: made(partition.backend, files, 5)
        try:
            await made(partition.backend, BackupFiles(slow))
            outcomes.add(True)
        except RejectedError:
            outcomes.add(False)
        assert await logs_in(await restored(files)) == await logs_in(partition.backend)
        found = await verified(files, lambda _: LOGS, lambda _: None)
        assert all(one.error is None for one in found)
        if slow.left > 0:
            break
        await made(partition.backend, files, 9)
        newest = await files.backup(await files.chosen())
        assert {one.name for one in newest.parts} == {one.name for one in names(files, "part")}
        assert len(names(files, "index")) == 1
    assert outcomes == {True, False}


DAY_S = 86_400
MADE = [
    BackupName(number, at_s, "")
    for number, at_s in enumerate(
        range(0, 400 * DAY_S, 6 * 3600), 1
    )  # Every six hours, from 1970-01-01 on, a Thursday, to 1971-02-04T18.
]


@pytest.mark.parametrize(
    ("rules", "made"),
    [
        (KeepRules(), ["02-04T18"]),
        (KeepRules(last=3), ["02-04T06", "02-04T12", "02-04T18"]),
        (KeepRules(hourly=2), ["02-04T12", "02-04T18"]),
        (KeepRules(daily=3), ["02-02T18", "02-03T18", "02-04T18"]),
        (KeepRules(weekly=3), ["01-24T18", "01-31T18", "02-04T18"]),
        (KeepRules(monthly=3), ["12-31T18", "01-31T18", "02-04T18"]),
        (KeepRules(yearly=9), ["12-31T18", "02-04T18"]),
        (KeepRules(within_ms=12 * 3_600_000), ["02-04T06", "02-04T12", "02-04T18"]),
        (KeepRules(last=2, monthly=2), ["01-31T18", "02-04T12", "02-04T18"]),
    ],
)
def test_the_last_of_a_period_is_kept(rules: KeepRules, made: list[str]) -> None:
    found = kept(MADE, rules)
    assert [f"{datetime.fromtimestamp(one.made_s, UTC):%m-%dT%H}" for one in found] == made
    assert kept([], rules) == {}
    assert set(kept(MADE, KeepRules(last=5000))) == set(MADE)


async def several(tmp_path: Path, count: int = 4) -> tuple[StoredPartition, BackupFiles]:
    """A partition, and backups of it, of which each has a part of its own."""
    partition = await filled()
    files = BackupFiles(Folder(tmp_path))
    for number in range(count):
        await made(partition.backend, files, MADE_MS + number * 1000)
        await partition.fill([10 + number])
    return partition, files


async def test_backups_that_no_rule_keeps_go_and_the_others_are_restored(
    tmp_path: Path,
) -> None:
    partition, files = await several(tmp_path / "backups")
    before = [(path.name, path.stat().st_size) for path in names(files, "*")]
    dry = await prune(files, KeepRules(last=2), lambda _: None, is_dry=True)
    assert [(path.name, path.stat().st_size) for path in names(files, "*")] == before

    done = await prune(files, KeepRules(last=2), lambda _: None)

    assert [one.number for one in done.removed] == [1, 2]
    assert (dry.kept, dry.removed) == (done.kept, done.removed)
    assert sorted(dry.left_over.names) == sorted(done.left_over.names)
    left = {path.name for path in names(files, "*")}
    assert {name for name, _ in before} - left == set(done.left_over.names)
    assert done.left_over.bytes == sum(dict(before)[name] for name in done.left_over.names)
    assert [one.number for one in await files.backups()] == [3, 4]
    found = await verified(files, lambda _: LOGS, lambda _: None)
    assert [one.error for one in found] == [None, None]
    third = await logs_in(await restored(files, as_of_ms=MADE_MS + 2999))
    assert third.items() < (await logs_in(partition.backend)).items()
    assert (await made(partition.backend, files, MADE_MS + 9000)).name.number == 5
    again = await prune(files, KeepRules(last=9), lambda _: None)
    assert (again.removed, again.left_over.names) == ([], [])


@pytest.mark.parametrize("harm", [truncate, change, Path.unlink])
async def test_nothing_is_removed_if_the_newest_is_damaged(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    _, files = await several(tmp_path / "backups")
    for ending in ("part", "backup"):
        path = names(files, ending)[-1]
        data = path.read_bytes()
        harm(path)
        before = names(files, "*")
        for is_dry in (True, False):
            with pytest.raises(CorruptRemoteData, match=path.name):
                await prune(files, KeepRules(last=1), lambda _: None, is_dry=is_dry)
        assert names(files, "*") == before
        path.write_bytes(data)
    await prune(files, KeepRules(last=1), lambda _: None)
    nothing = BackupFiles(Folder(tmp_path / "nothing"))
    with pytest.raises(InvalidArgument, match="is no folder with backups"):
        await prune(nothing, KeepRules(last=1), lambda _: None)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(RemoteResourceNotFound, match="there is no backup"):
        await prune(nothing, KeepRules(last=1), lambda _: None)
    assert not names(nothing, "*")


@pytest.mark.parametrize("is_pruned_slowly", [True, False])
async def test_a_backup_that_is_made_meanwhile_is_whole_wherever_both_are(
    tmp_path: Path, is_pruned_slowly: bool
) -> None:
    for step in count(1):
        partition, files = await several(tmp_path / f"backups-{step}", 3)
        slow = Overtaken(tmp_path / f"backups-{step}")

        async def pruned(files: BackupFiles) -> object:
            return await prune(files, KeepRules(last=1), lambda _: None)

        async def backed_up(
            files: BackupFiles, partition: StoredPartition = partition
        ) -> object:
            return await made(partition.backend, files, MADE_MS + 8000)

        inner, outer = (backed_up, pruned) if is_pruned_slowly else (pruned, backed_up)
        slow.left = step
        slow.happens = lambda inner=inner, files=files: inner(files)
        await outer(BackupFiles(slow))
        assert 4 in [one.number for one in await files.backups()] or slow.left > 0
        assert not {1, 2} & {one.number for one in await files.backups()} or slow.left > 0
        found = await verified(files, lambda _: LOGS, lambda _: None)
        assert [one.error for one in found] == [None] * len(found)
        if slow.left > 0:
            break
        assert await logs_in(await restored(files)) == await logs_in(partition.backend)
    assert step > 2


async def test_a_prune_that_was_killed_shows_all_or_only_what_stays(tmp_path: Path) -> None:
    class Killed(Overtaken):
        @override
        async def _step(self) -> None:
            self.left -= 1
            if self.left <= 0:
                raise OSError(5, "killed")

    seen = set[int]()
    for step in count(1):
        partition, files = await several(tmp_path / f"backups-{step}")
        killed = Killed(tmp_path / f"backups-{step}")
        killed.left = step
        try:
            await prune(BackupFiles(killed), KeepRules(last=1), lambda _: None)
        except OSError:
            there = await files.backups()
            seen.add(len(there))
            found = await verified(files, lambda _: LOGS, lambda _: None)
            assert [one.error for one in found] == [None] * len(there)
            await made(partition.backend, files, MADE_MS + 9000)
            assert len(names(files, "backup")) == len(there) + 1
        else:
            break
    assert seen == {4, 1}


async def test_a_place_that_overwrites_is_refused(tmp_path: Path) -> None:
    class Overwriting(Folder):
        @override
        async def create(self, name: str, data: bytes) -> bool:
            await self.write(name, data)
            return True

    partition = await filled()
    with pytest.raises(StoreRefused, match="expected a place with conditional writes"):
        await made(partition.backend, BackupFiles(Overwriting(tmp_path / "backups")))
    with pytest.raises(InvalidArgument, match="No such file"):
        await made(partition.backend, BackupFiles(Folder(tmp_path / "a" / "b")))


async def test_an_index_that_is_damaged_is_named_and_can_be_removed(
    files: BackupFiles,
) -> None:
    partition = await filled()
    await made(partition.backend, files)
    (path,) = names(files, "index")
    for harm in (truncate, lambda path: path.write_bytes(b'{"format":1,"backups":["x"]}')):
        harm(path)
        for asked in (restored(files), made(partition.backend, files)):
            with pytest.raises(CorruptRemoteData, match="all backups that are there count"):
                await asked
    path.unlink()
    assert await logs_in(await restored(files)) == await logs_in(partition.backend)
    assert (await made(partition.backend, files)).name.number == 2


class Growing(MemoryBackend):
    """A store in which something happens whenever a log's end was read."""

    happens: Callable[[], Awaitable[Any]] | None = None

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        found = await super().get_like(prefix, after=after, limit=limit)
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()
            self.happens = happens
        return found


async def test_a_log_that_is_written_and_forgotten_meanwhile_is_whole_in_a_backup(
    files: BackupFiles,
) -> None:
    backend = Growing()
    partition = await StoredPartition.led(backend)
    other = await StoredPartition.led(backend, OTHER)
    await other.close()
    numbers = iter(range(12))

    async def happens() -> None:
        number = next(numbers, None)
        if number == 7:
            await forget(other.reader())
        elif number is not None:
            await partition.fill([number])

    backend.happens = happens
    done = await made(backend, files)
    backend.happens = None

    assert done.backup.damaged == {}
    back = await logs_in(await restored(files))
    now = await logs_in(backend)
    assert back.items() <= now.items() or KEYS.log_batch(OTHER, 0) in back
    for tip in (TIP, OTHER):
        report = await verify(StoredPartition(await restored(files), tip).reader())
        assert report.passed


async def test_a_log_that_is_written_faster_than_it_is_read_does_not_hold_a_backup_up(
    files: BackupFiles,
) -> None:
    backend = Growing()
    partition = await StoredPartition.led(backend)
    numbers = iter(range(50))

    async def happens() -> None:
        await partition.fill([next(numbers)])

    backend.happens = happens
    await made(backend, files)
    backend.happens = None

    assert next(numbers) < 50


async def test_what_comes_to_the_coordinators_log_while_others_are_read_is_not_missed(
    files: BackupFiles,
) -> None:
    backend = Growing()
    await StoredPartition.led(backend)

    async def happens() -> None:
        if SLOT not in backend.values:
            await backend.create(SLOT, b"nonsense")

    backend.happens = happens
    with pytest.raises(CorruptLog, match="the coordinator's log: batch 0"):
        await made(backend, files)


async def test_the_coordinators_log_is_damaged_and_no_backup_is_made(
    files: BackupFiles,
) -> None:
    partition = await filled()
    await partition.backend.create(SLOT, b"nonsense")

    with pytest.raises(Exception, match="the coordinator's log: batch 0"):
        await made(partition.backend, files)

    assert await files.backups() == ()
    await partition.backend.execute_atomically([Remove(SLOT)])
    assert COORDINATOR not in (await made(partition.backend, files)).backup.ends
