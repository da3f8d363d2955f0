"""A load from a store that fails on the way."""

from collections.abc import Sequence

import pytest
from sortedcontainers import SortedDict
from typing_extensions import override

from tests.models.storage.stored_partitions import StoredPartition, finished
from tierledger.events.errors import StorageUnavailable
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.partition.checkpoint import LOAD_ATTEMPTS
from tierledger.storage.partition.loading import Loading


class Counting(MemoryBackend):
    """A store that counts its reads of values, each of which may be a request."""

    reads = 0

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        self.reads += 1
        return await super().get_each(keys)


class Unsteady(MemoryBackend):
    """A store that refuses the next reads of checkpoints' rows."""

    refused = 0

    @override
    async def get_like(
        self, prefix: str, *, after: str | None = None, limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        if self.refused and "/segment/" in prefix:
            self.refused -= 1
            raise StorageUnavailable("away")
        return await super().get_like(prefix, after=after, limit=limit)


@pytest.mark.parametrize("refused", [1, LOAD_ATTEMPTS + 1])
async def test_a_checkpoint_that_the_store_failed_to_read_is_read_again(refused: int) -> None:
    """It is not one that does not verify, for which the log would be read from its start."""
    backend = Unsteady(SortedDict())
    partition = await StoredPartition.led(backend)
    await partition.append(finished(0))
    await partition.checkpoint()
    loading = Loading(partition.reader(), tracks_changes=True)

    backend.refused = refused
    for _ in range(refused):
        with pytest.raises(StorageUnavailable):
            await loading.state()
    loaded = await loading.state()

    assert loaded.next_batch == partition.next_batch
    assert loaded.state.digest() == partition.state.digest()
    assert loading.trouble is None


async def test_a_load_reads_all_leader_epochs_at_once() -> None:
    """Each read of a service in a bucket is a request, and partitions wait for it."""
    backend = Counting(SortedDict())
    partition = await StoredPartition.led(backend)
    epochs = 20
    for epoch in range(epochs):
        await partition.append(finished(epoch, epoch=epoch))
    await partition.checkpoint()
    backend.reads = 0

    loaded = await Loading(partition.reader()).state()

    assert len(loaded.state.epochs) == epochs
    assert loaded.state.digest() == partition.state.digest()
    assert backend.reads <= 4
