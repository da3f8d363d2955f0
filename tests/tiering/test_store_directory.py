"""A directory as a store: what is removed from it, and what a power cut leaves of it."""

from pathlib import Path

import pytest

from tierledger.events.errors import StorageUnavailable
from tierledger.tiering.request_counts import Operation
from tierledger.tiering.tier_url import open_store, parse


async def test_a_file_that_is_gone_already_keeps_no_other_from_deletion(
    tmp_path: Path,
) -> None:
    names = [f"a/{number:02}" for number in range(40)]
    store = open_store(parse(f"dir:{tmp_path}"))
    for name in names[1:]:
        await store.put(Operation.COPY, name, b"x")

    await store.delete(Operation.DELETE, names)
    assert await store.list(Operation.LIST, "") == {}


async def test_leftovers_that_cannot_be_removed_are_a_failure_of_the_store(
    tmp_path: Path,
) -> None:
    store = open_store(parse(f"dir:{tmp_path}"))
    (tmp_path / "a" / "log.00000#1").mkdir(parents=True)

    with pytest.raises(StorageUnavailable, match=f"{tmp_path}/a: cannot be tidied"):
        await store.remove_leftovers("a")
