"""The shells carry effects out on a real cluster; the rules have their tests elsewhere."""

import asyncio
import os
import uuid
from itertools import count

import pytest

from tests.models.actors.local_world import copy, lead, listed, moved, segment
from tests.models.ray.brokers import Brokers
from tests.models.storage.partition_logs import TRACES, folded, imported, topic_id_partition
from tests.ray.conftest import PACKED
from tierledger.actors.calls import FOLLOWER
from tierledger.actors.client.sync_client import RemoteLogMetadataManager
from tierledger.actors.coordinator.requests import HostsCall, StatusCall
from tierledger.actors.discovery.service_record import read_record
from tierledger.actors.messages import Query
from tierledger.actors.processes import Process, process_of
from tierledger.actors.ray import cluster as ray_cluster
from tierledger.actors.ray.coordinator import coordinator_of
from tierledger.actors.ray.handles import COORDINATOR, namespace_of
from tierledger.actors.ray.launcher import RayLauncher
from tierledger.actors.ray.service import RayService, kill_host
from tierledger.conformance.trace import read_records
from tierledger.events import commands as cmd
from tierledger.events.errors import (
    CustomMetadataSizeLimitExceeded,
    Fenced,
    InvalidStateTransition,
    NotLeader,
    NotReady,
    RemoteResourceNotFound,
    StoreRefused,
)
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.kafka.codec import decode

pytestmark = pytest.mark.parametrize(
    "service",
    [
        pytest.param(1, id="1 per host"),
        pytest.param(PACKED, id="packed", marks=pytest.mark.long),
    ],
    indirect=True,
    scope="module",
)

_partitions = count()


@pytest.fixture
def tip() -> TopicIdPartition:
    """A partition that no other test of this service uses."""
    return TopicIdPartition(Uuid(b"ray tests' topic"), next(_partitions), "orders")


async def test_a_recorded_history_survives_the_death_of_its_host(
    brokers: Brokers, service: RayService
) -> None:
    recorded: dict[TopicIdPartition, list[cmd.ImportedRecord]] = {}
    for record in read_records(TRACES / "one-broker"):
        known = decode(record.value or b"")
        item = cmd.ImportedRecord(record.partition, record.offset, record.timestamp_ms, known)
        recorded.setdefault(topic_id_partition(known.value), []).append(item)
    importer, reader = await brokers.manager(1), await brokers.manager(2)
    times = {tip: items[0].timestamp_ms for tip, items in recorded.items()}
    await importer.announce_import(times, [], "recorded")
    await reader.on_partition_leadership_changes([], list(recorded))
    await importer.when_ready(recorded)

    for number, (tip, items) in enumerate(recorded.items()):
        for start in range(0, len(items), 20):
            position = await importer.import_records(tip, items[start : start + 20])
            reader.observe(tip, position)
        if number == 0:
            await kill_host("host-0", service.settings)

    for history in imported("one-broker"):
        tip, expected = history.topic_id_partition, folded(history).rows
        rows = await reader.rows(tip, Query("list"), FOLLOWER)
        assert len(rows) == len(expected)
        assert [one async for one in reader.list_remote_log_segments(tip)] == [
            one async for one in importer.list_remote_log_segments(tip)
        ]


async def test_nothing_acknowledged_is_lost_with_a_host(
    brokers: Brokers, service: RayService, tip: TopicIdPartition
) -> None:
    manager = await brokers.manager(1)
    await manager.on_partition_leadership_changes([tip], [])
    writes = asyncio.ensure_future(copy(manager, *(segment(n, tip) for n in range(40))))
    while await manager.highest_offset_for_epoch(tip, 0) is None:
        pass  # Each look is a round trip, during which the writes go on.
    await kill_host("host-0", service.settings)
    await writes

    assert await listed(manager, tip) == list(range(40))


async def test_a_coordinator_that_died_is_made_anew_and_knows_all(
    brokers: Brokers, service: RayService, tip: TopicIdPartition
) -> None:
    manager, other = await brokers.manager(1), await brokers.manager(2)
    await lead(manager, tip)
    await copy(manager, segment(0, tip))
    former = ray_cluster.find_actor(COORDINATOR, namespace_of(service.settings))
    ray_cluster.ray.kill(former, no_restart=True)

    await other.on_partition_leadership_changes([], [tip])
    await other.when_ready([tip])
    await copy(manager, segment(1, tip))
    await lead(other, tip)

    with pytest.raises(Fenced):
        await manager.add_remote_log_segment_metadata(segment(2, tip))
    assert await listed(other, tip) == [0, 1]


async def test_a_coordinator_that_ends_while_it_is_looked_for_is_not_ready(
    service: RayService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_found(*_: object, **__: object) -> None:
        raise ValueError("it has ended")

    coordinator = coordinator_of(service.settings, ray_cluster.own_node())
    # Ray finds none, cannot make one since there is one, and finds none again.
    monkeypatch.setattr(ray_cluster.ray, "get_actor", not_found)

    with pytest.raises(NotReady, match="coordinator ended while it was looked for"):
        await coordinator.ask(HostsCall())


async def test_errors_arrive_with_their_type_and_message(
    brokers: Brokers, tip: TopicIdPartition
) -> None:
    manager = await brokers.manager(1)
    with pytest.raises(NotLeader):
        await manager.add_remote_log_segment_metadata(segment(0, tip))
    with pytest.raises(RemoteResourceNotFound, match="never announced"):
        await manager.remote_log_size(tip, 0)
    await manager.on_partition_leadership_changes([tip], [])
    await copy(manager, segment(0, tip))
    await manager.add_remote_log_segment_metadata(segment(1, tip))

    with pytest.raises(InvalidStateTransition, match="cannot be added again"):
        await manager.add_remote_log_segment_metadata(segment(0, tip))
    oversized = moved(segment(1, tip), custom=bytes(129))
    with pytest.raises(CustomMetadataSizeLimitExceeded, match="129 bytes"):
        await manager.update_remote_log_segment_metadata(oversized)
    newer = await brokers.manager(1)
    with pytest.raises(Fenced):
        await manager.on_partition_leadership_changes([tip], [])
    assert await listed(newer, tip) == [0, 1]


async def test_a_second_service_on_the_same_store_is_refused_by_name(
    service: RayService,
) -> None:
    record = await read_record(service.settings)
    assert record is not None
    assert service.record is not None
    # Its hosts may have been replaced since.
    assert record == service.record._replace(doors=record.doors)

    with pytest.raises(StoreRefused, match=f"pid {record.pid}, at {record.address}"):
        await RayService(service.settings).start()


async def test_hosts_get_as_much_of_the_processor_as_who_started_the_service(
    service: RayService,
) -> None:
    coordinator = coordinator_of(service.settings, ray_cluster.own_node())
    hosts = (await coordinator.ask(StatusCall()))["hosts"].values()

    for name in [await coordinator.process(), *hosts]:
        process = process_of(name)
        assert process is not None
        niceness = os.getpriority(os.PRIO_PROCESS, process.pid)
        assert niceness == os.getpriority(os.PRIO_PROCESS, os.getpid())


async def test_a_process_that_got_the_pid_of_a_host_in_the_log_is_left_alone(
    service: RayService,
) -> None:
    node = ray_cluster.own_node()
    coordinator = coordinator_of(service.settings, node)
    launcher = RayLauncher(service.settings, node, coordinator)
    other = await asyncio.create_subprocess_exec("sleep", "60")
    for end in (f"{other.pid}", f"{other.pid}.{uuid.UUID(int=0)}.1"):
        await launcher.end("host-9/1", f"host-9/1/abcdef/{node}/{end}")

        assert Process.of(other.pid) is not None
    other.kill()
    await other.wait()


def test_a_program_without_a_loop_uses_the_same_service(
    service: RayService, tip: TopicIdPartition
) -> None:
    with RemoteLogMetadataManager() as manager:
        manager.configure(Brokers(service.settings).config(5))
        manager.on_partition_leadership_changes([tip], [])
        manager.add_remote_log_segment_metadata(segment(0, tip))
        manager.update_remote_log_segment_metadata(moved(segment(0, tip)))

        assert manager.highest_offset_for_epoch(tip, 0) == 9
        assert len(list(manager.list_remote_log_segments(tip))) == 1
