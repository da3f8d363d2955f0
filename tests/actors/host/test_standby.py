"""A leader begins with what the follower on its host has, and reads no checkpoint for that."""

from collections.abc import Sequence

import pytest
from typing_extensions import override

from tests.models.actors.local_world import CLUSTER, KEYS, eventually, lone_host
from tests.models.storage.stored_partitions import CLAIM, TIP, StoredPartition
from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey, Placement, ReadyCall
from tierledger.actors.follower import Follower
from tierledger.actors.host.host import Host
from tierledger.actors.leader import machine as leader
from tierledger.actors.messages import Assignment
from tierledger.events.partition.invariants import check
from tierledger.storage.backends.memory import MemoryBackend
from tierledger.storage.partition import checkpoint
from tierledger.storage.partition.loading import LoadedPartition, Loading

KEY = PartitionKey.of(TIP)
CHECKPOINT = KEYS.partition(TIP)
LEADS = CLAIM._replace(announcement=5)


class NotedReads(MemoryBackend):
    """Counts how often the checkpoint was asked for."""

    looks = 0

    @override
    async def get_each(self, keys: Sequence[str]) -> list[bytes | None]:
        self.looks += CHECKPOINT in keys
        return await super().get_each(keys)


async def filled() -> StoredPartition:
    """A partition with a checkpoint, and more behind it."""
    partition = StoredPartition(NotedReads(), TIP, CLUSTER)
    await partition.open()
    await partition.fill(range(20))
    await partition.checkpoint()
    await partition.fill(range(20, 25))
    return partition


async def take_on(host: Host, role: str, number: int) -> None:
    await host.place([Placement(KEY, TIP.topic, role, Assignment(number, LEADS))])
    await eventually(lambda: host.call(ReadyCall(KEY, role, LEADS)).result())


@pytest.mark.parametrize("events_min", [1, 1000])
async def test_a_leader_begins_with_what_its_follower_has(
    monkeypatch: pytest.MonkeyPatch, events_min: int
) -> None:
    monkeypatch.setattr(leader, "CHECKPOINT_EVENTS", events_min)
    partition = await filled()
    store, host = partition.backend, lone_host(partition.backend)
    assert isinstance(store, NotedReads)
    before = store.values[CHECKPOINT]
    host.start()
    await take_on(host, FOLLOWER, 2)
    looks = store.looks

    await take_on(host, LEADER, 3)
    is_due = events_min == 1
    if is_due:
        await eventually(lambda: store.values[CHECKPOINT] != before)
    led = host._shells[KEY, LEADER].machine.state
    followed = host._shells[KEY, FOLLOWER].machine
    await eventually(lambda: followed.position == partition.state.next_position)
    assert led is not None
    assert followed.state is not None
    assert led.digest() == followed.state.digest()
    assert store.looks - looks == 1, "which checkpoint the next one replaces"

    await host.close()

    assert (store.values[CHECKPOINT] != before) is is_due, (
        "few events are not worth reading all"
    )
    stored = (await partition.reader().state()).state
    check(stored)
    assert stored.digest() == led.digest()


async def test_a_leader_beside_a_follower_without_a_state_reads_the_checkpoint() -> None:
    partition = await filled()
    host = lone_host(partition.backend)
    host.start()
    follows = Placement(KEY, TIP.topic, FOLLOWER, Assignment(2, LEADS))
    await host.place([follows, Placement(KEY, TIP.topic, LEADER, Assignment(3, LEADS))])

    await eventually(lambda: host.call(ReadyCall(KEY, LEADER, LEADS)).result())

    assert host.standby(PartitionKey(bytes(16), 1)) is None
    await host.close()


async def test_a_leader_has_what_the_follower_had_when_it_was_told_to_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = await filled()
    host = lone_host(partition.backend)
    host.start()
    await take_on(host, FOLLOWER, 2)
    monkeypatch.delattr(Loading, "state")  # Nothing can be loaded.
    leads = Placement(KEY, TIP.topic, LEADER, Assignment(3, LEADS))
    leaves = Placement(KEY, TIP.topic, FOLLOWER, None, 2, is_moved=True)

    await host.place([leads, leaves])

    assert not host.serves(KEY, FOLLOWER)
    await eventually(lambda: host.call(ReadyCall(KEY, LEADER, LEADS)).result())
    await host.close()


async def test_a_damaged_checkpoint_is_told_although_the_follower_has_the_state() -> None:
    partition = await filled()
    host = lone_host(partition.backend)
    host.start()
    await take_on(host, FOLLOWER, 2)
    partition.values[CHECKPOINT] = b"\0" + partition.values[CHECKPOINT][1:]

    await take_on(host, LEADER, 3)

    assert host.report.counts()["alarms"] == {"checkpoint": 1}
    await host.close()


async def test_a_leader_that_ends_writes_the_first_checkpoint_of_all() -> None:
    partition = StoredPartition(NotedReads(), TIP, CLUSTER)
    await partition.open()
    await partition.fill(range(5))
    host = lone_host(partition.backend)
    host.start()
    await take_on(host, FOLLOWER, 2)
    await take_on(host, LEADER, 3)

    await host.close()

    assert CHECKPOINT in partition.values
    stored = (await partition.reader().state()).state
    check(stored)
    assert len(stored.rows) == 5


@pytest.mark.parametrize("behind_max", [3, 1000])
async def test_a_leader_takes_nothing_from_a_follower_that_stood_still(
    monkeypatch: pytest.MonkeyPatch, behind_max: int
) -> None:
    monkeypatch.setattr(checkpoint, "COPY_BEHIND_MAX", behind_max)
    partition = await filled()
    host = lone_host(partition.backend)
    host.start()
    await take_on(host, FOLLOWER, 2)
    followed = host.standby(KEY)
    monkeypatch.setattr(Follower, "standby", lambda _: followed)
    await partition.fill(range(25, 30))
    await partition.checkpoint()
    loads, state = 0, Loading.state

    async def counted(loading: Loading) -> LoadedPartition:
        nonlocal loads
        loads += 1
        return await state(loading)

    monkeypatch.setattr(Loading, "state", counted)

    await take_on(host, LEADER, 3)

    assert loads == (behind_max == 3), "the checkpoint is ten events ahead"
    led = host._shells[KEY, LEADER].machine.state
    assert led is not None
    assert len(led.rows) == 30
    await host.close()
