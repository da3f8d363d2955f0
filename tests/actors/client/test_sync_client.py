"""The blocking client: the operations of the asynchronous one, and an end that is an end."""

import asyncio
import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typing_extensions import override

from tests.models.actors.local_world import CLUSTER, TickingClock, moved, partition, segment
from tierledger.actors.calls import Call
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.client.history import PartitionHistory
from tierledger.actors.client.sync_client import (
    BlockingPartitionHistory,
    RemoteLogMetadataManager,
)
from tierledger.actors.deadline import Attempt
from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.local_service import LocalConnection, LocalService
from tierledger.events.errors import (
    InvalidArgument,
    NotLeader,
    NotReady,
    OutcomeUnknown,
    PartitionDeleted,
    RemoteResourceNotFound,
)
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import RemotePartitionDeleteMetadata

TIP = partition()

OPERATIONS = (
    "configure",
    "close",
    "add_remote_log_segment_metadata",
    "update_remote_log_segment_metadata",
    "remote_log_segment_metadata",
    "highest_offset_for_epoch",
    "put_remote_partition_delete_metadata",
    "list_remote_log_segments",
    "on_partition_leadership_changes",
    "on_stop_partitions",
    "remote_log_size",
    "next_segment_with_txn_index",
    "is_ready",
)
"""Kafka's interface in Python's spelling."""


class OwnService(LocalConnection):
    """A service that lives on its one client's loop, and ends with the connection."""

    def __init__(self, service: LocalService) -> None:
        super().__init__(service)
        self._own = service

    @override
    async def close(self) -> None:
        await self._own.close()


async def start_service(settings: ServiceSettings) -> OwnService:
    service = LocalService(settings, TickingClock())
    await service.start()
    return OwnService(service)


def config(folder: Path) -> dict[str, object]:
    url = f"sqlite:{folder / 'store.sqlite'}"
    return {"metadata.storage.url": url, "cluster.id": CLUSTER, "broker.id": 1}


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[RemoteLogMetadataManager]:
    with RemoteLogMetadataManager(start_service, deadline_s=10) as manager:
        manager.configure(config(tmp_path))
        yield manager


def lead(manager: RemoteLogMetadataManager, *tips: TopicIdPartition) -> None:
    manager.on_partition_leadership_changes(tips, [])
    manager.when_ready(tips)


@pytest.mark.parametrize("operation", [*OPERATIONS, "as_of", "when_ready"])
def test_both_clients_have_every_operation_with_the_same_arguments(operation: str) -> None:
    blocking = inspect.signature(getattr(RemoteLogMetadataManager, operation))
    asynchronous = inspect.signature(getattr(AsyncRemoteLogMetadataManager, operation))

    assert list(blocking.parameters.values()) == list(asynchronous.parameters.values())


def test_the_past_can_be_asked_the_same_in_both() -> None:
    public = {name for name in vars(PartitionHistory) if not name.startswith("_")}

    assert {one for one in vars(BlockingPartitionHistory) if not one.startswith("_")} == (
        public - {"state"}
    )


def test_a_segment_is_written_and_read(manager: RemoteLogMetadataManager) -> None:
    assert not manager.is_ready(TIP)
    lead(manager, TIP)

    added = manager.add_remote_log_segment_metadata(segment(0))
    position = manager.update_remote_log_segment_metadata(moved(segment(0)))

    assert position > added
    assert manager.is_ready(TIP)
    found = manager.remote_log_segment_metadata(TIP, 0, 5)
    assert found is not None
    assert found.state == RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    assert manager.next_segment_with_txn_index(TIP, 0, 5) == found
    assert list(manager.list_remote_log_segments(TIP)) == [found]
    assert list(manager.list_remote_log_segments(TIP, 0)) == [found]
    assert list(manager.list_remote_log_segments(TIP, 1)) == []
    assert manager.highest_offset_for_epoch(TIP, 0) == 9
    assert manager.remote_log_size(TIP, 0) == 10
    past = manager.as_of(TIP, position=added)
    assert past.remote_log_segment_metadata(0, 5) is None
    assert past.next_segment_with_txn_index(0, 5) is None
    assert past.highest_offset_for_epoch(0) is None
    assert past.remote_log_size(0) == manager.as_of(TIP, position=position).remote_log_size(0)
    assert [one.state.name for one in past.list_remote_log_segments()] == [
        "COPY_SEGMENT_STARTED"
    ]
    manager.on_stop_partitions([TIP])


def test_errors_are_those_of_the_asynchronous_client(manager: RemoteLogMetadataManager) -> None:
    with pytest.raises(NotLeader):
        manager.add_remote_log_segment_metadata(segment(0))
    with pytest.raises(RemoteResourceNotFound):
        manager.list_remote_log_segments(TIP)
    with pytest.raises(ValueError, match="COPY_SEGMENT_STARTED"):
        manager.update_remote_log_segment_metadata(
            moved(segment(0), RemoteLogSegmentState.COPY_SEGMENT_STARTED)
        )
    with pytest.raises(InvalidArgument, match="not both"):
        manager.as_of(TIP)


def test_a_deleted_partition_answers_nothing_now_and_answers_for_the_past(
    manager: RemoteLogMetadataManager,
) -> None:
    lead(manager, TIP)
    position = manager.add_remote_log_segment_metadata(segment(0))
    *_, last = (
        manager.put_remote_partition_delete_metadata(
            RemotePartitionDeleteMetadata(TIP, state, 8, 1)
        )
        for state in RemotePartitionDeleteState
    )

    with pytest.raises(PartitionDeleted):
        manager.remote_log_size(TIP, 0)
    with pytest.raises(PartitionDeleted):
        manager.as_of(TIP, position=last).remote_log_size(0)
    assert len(list(manager.as_of(TIP, position=position).list_remote_log_segments())) == 1


def test_many_threads_share_one_manager(manager: RemoteLogMetadataManager) -> None:
    tips = [partition(number) for number in range(8)]
    lead(manager, *tips)

    def fill(tip: TopicIdPartition) -> list[int]:
        for number in range(10):
            manager.add_remote_log_segment_metadata(segment(number, tip))
        return sorted(one.start_offset for one in manager.list_remote_log_segments(tip))

    with ThreadPoolExecutor(len(tips)) as pool:
        found = list(pool.map(fill, tips))

    assert found == [list(range(0, 100, 10))] * len(tips)


def test_a_program_with_a_loop_of_its_own_can_use_it_too(
    manager: RemoteLogMetadataManager,
) -> None:
    async def program() -> bool:
        return manager.is_ready(TIP)

    assert asyncio.run(program()) is False


# The end.


def test_before_it_is_configured_and_after_it_is_closed_every_call_fails_at_once(
    tmp_path: Path,
) -> None:
    manager = RemoteLogMetadataManager(start_service)
    with pytest.raises(NotReady, match="not configured"):
        manager.remote_log_size(TIP, 0)
    manager.configure(config(tmp_path))
    lead(manager, TIP)
    past = manager.as_of(TIP, position=0)

    manager.close()
    manager.close()

    for late in (
        lambda: manager.configure(config(tmp_path)),
        lambda: manager.is_ready(TIP),
        lambda: manager.add_remote_log_segment_metadata(segment(0)),
        lambda: manager.on_stop_partitions([TIP]),
        lambda: past.remote_log_size(0),
    ):
        with pytest.raises(NotReady, match="closed"):
            late()
    assert "tierledger" not in {thread.name for thread in threading.enumerate()}


def test_a_failed_configuration_can_be_repeated(tmp_path: Path) -> None:
    with RemoteLogMetadataManager(start_service) as manager:
        with pytest.raises(InvalidArgument, match=r"broker\.id"):
            manager.configure({"cluster.id": CLUSTER})

        manager.configure(config(tmp_path))

        assert not manager.is_ready(TIP)


def test_closing_ends_calls_that_are_under_way() -> None:
    connecting = threading.Event()

    async def never(_: ServiceSettings) -> OwnService:
        connecting.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    manager = RemoteLogMetadataManager(never)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(manager.configure, {"cluster.id": CLUSTER, "broker.id": 1})
        connecting.wait()
        manager.close()

        with pytest.raises(NotReady, match="closed during the call"):
            call.result()


def test_a_write_that_closing_cuts_short_may_have_happened(tmp_path: Path) -> None:
    writing = threading.Event()

    class Slow(OwnService):
        """A service whose hosts do not answer any more."""

        @override
        def host(self, name: str) -> "Slow":  # type: ignore[override]
            return self

        async def call(self, call: Call, attempt: Attempt) -> object:
            attempt.is_sent = True
            writing.set()
            raise OutcomeUnknown("lost")

    async def start(settings: ServiceSettings) -> OwnService:
        service = LocalService(settings, TickingClock())
        await service.start()
        return Slow(service)

    manager = RemoteLogMetadataManager(start)
    manager.configure(config(tmp_path))
    manager.on_partition_leadership_changes([TIP], [])
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(manager.add_remote_log_segment_metadata, segment(0))
        writing.wait()
        manager.close()

        with pytest.raises(OutcomeUnknown):
            call.result()
