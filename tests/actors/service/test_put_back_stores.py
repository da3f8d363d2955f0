"""A service under which an older store is put back: it says so, and serves nothing."""

from pathlib import Path

import pytest
from sortedcontainers import SortedDict

from tests.models.actors.local_world import (
    LocalWorld,
    copy,
    eventually,
    listed,
    partition,
    segment,
)
from tests.models.storage import faulty_store
from tierledger.actors.calls import CountsCall
from tierledger.events.errors import StoreRefused
from tierledger.storage.keys import DefaultMetadataKeyFactory

TIP, OTHER = partition(), partition(1)
OLDER = "older than what this service has seen"


@pytest.fixture
def values(tmp_path: Path) -> SortedDict[str, bytes]:
    """What the store of `shared` holds."""
    return faulty_store.values(str(tmp_path))


def put_back(values: SortedDict[str, bytes], backup: dict[str, bytes]) -> None:
    values.clear()
    values.update(backup)


async def refused(world: LocalWorld) -> list[str]:
    """Who says that the store is refused as it is older."""
    (host,) = [await world.service.host("host-0").ask(CountsCall())]
    service = await world.service.coordinator.status()
    return [
        who
        for who, found in (("host", host), ("coordinator", service))
        for one in found["conditions"]
        if one["code"] == "store-refused" and OLDER in one["text"]
    ]


async def test_an_older_store_takes_no_write_and_gives_no_answer(
    shared: LocalWorld, values: SortedDict[str, bytes]
) -> None:
    manager = await shared.leader(TIP, OTHER)
    await copy(manager, segment(0), segment(0, OTHER))
    backup = dict(values)
    await copy(manager, segment(1))
    put_back(values, backup)

    with pytest.raises(StoreRefused, match=OLDER):
        await manager.highest_offset_for_epoch(TIP, 1)
    with pytest.raises(StoreRefused, match=OLDER):
        await manager.add_remote_log_segment_metadata(segment(2))
    with pytest.raises(StoreRefused, match=OLDER):  # It was not written to since.
        await manager.add_remote_log_segment_metadata(segment(2, OTHER))

    assert dict(values) == backup
    assert await refused(shared) == ["host"]


async def test_a_host_is_not_started_on_a_store_that_lacks_what_its_predecessor_wrote(
    shared: LocalWorld, values: SortedDict[str, bytes]
) -> None:
    manager = await shared.leader(TIP)
    await copy(manager, segment(0))
    backup = dict(values)
    await copy(manager, segment(1))
    newest = dict(values)
    host = shared.service.host("host-0").host
    await eventually(lambda: host.committer.newest in shared.service.coordinator.seen())

    put_back(values, backup)
    await shared.service.kill_host("host-0")

    async def is_refused() -> bool:
        found = (await shared.service.coordinator.status())["conditions"]
        return {"store-refused", "host-not-started"} <= {one["code"] for one in found}

    await eventually(is_refused)
    put_back(values, newest)  # What was written last: the service goes on by itself.
    await copy(manager, segment(2))
    assert await refused(shared) == []
    assert await listed(manager) == [0, 1, 2]


async def test_a_coordinator_notices_that_its_log_ends_earlier(
    shared: LocalWorld, values: SortedDict[str, bytes]
) -> None:
    backup = dict(values)
    await shared.leader(TIP)
    put_back(values, backup)

    with pytest.raises(StoreRefused, match=OLDER):
        await shared.broker(3)

    assert "coordinator" in await refused(shared)
    log = DefaultMetadataKeyFactory(shared.cluster).coordinator_log()
    assert [key for key in values if key.startswith(log)] == [
        key for key in backup if key.startswith(log)
    ]
