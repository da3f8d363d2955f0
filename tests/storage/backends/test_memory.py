"""The store in memory keeps the contract, and is the model the others are compared with."""

import pickle
from collections.abc import AsyncIterator

import pytest
from typing_extensions import override

from tests.storage.backends.backend_contract import BackendContract
from tierledger.events.errors import RejectedError
from tierledger.storage.backend import (
    AtomicConflict,
    ConflictReason,
    KeyExists,
    KeyMissing,
    MetadataStorageBackend,
    ValueMismatch,
)
from tierledger.storage.backends.memory import MemoryBackend

CONFLICTS = [
    KeyExists("k"),
    KeyMissing("k"),
    ValueMismatch("k"),
    *(AtomicConflict("k", why) for why in ConflictReason),
]


class TestMemoryBackend(BackendContract):
    @pytest.fixture
    async def backend(self) -> AsyncIterator[MemoryBackend]:
        backend = MemoryBackend()
        yield backend
        await backend.close()

    @override
    async def reopen(
        self, backend: MetadataStorageBackend, *, read_only: bool = False
    ) -> MetadataStorageBackend:
        assert isinstance(backend, MemoryBackend)
        await backend.close()
        return MemoryBackend(backend.values, read_only=read_only)


@pytest.mark.parametrize("error", CONFLICTS, ids=str)
def test_a_conflict_survives_the_trip_between_processes(error: RejectedError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
