"""Guards are given what is due, one at a time, whoever leads the partition or nobody."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from typing_extensions import override

from tests.actors.service.test_held_deletions import DELETING, owned
from tests.models.actors.local_world import (
    LocalWorld,
    TickingClock,
    copy,
    eventually,
    moved,
    partition,
    segment,
    sqlite_in,
)
from tierledger.actors import due
from tierledger.actors.calls import CommandCall, PartitionKey
from tierledger.actors.coordinator.holding import PlaceHold, ReleaseHold
from tierledger.actors.coordinator.purge_requests import NextPurge, ReleaseKept, ToPurge
from tierledger.actors.coordinator.purges import AGAIN_MS, LEASE_MS
from tierledger.actors.holds import Hold
from tierledger.events import commands as cmd
from tierledger.events.errors import RemoteStorageError
from tierledger.events.lifecycle import DeletionCause
from tierledger.events.log_events import UNTIL_RELEASED_MS, Origin
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import START, id_of_row, unpack_row
from tierledger.storage.catalog import Catalog

TIP = partition()
KEY = PartitionKey.of(TIP)
WEEK = Hold("week", "*", reason="undo", by="somebody", term_ms=10_000)
AUDIT = Hold("audit", "*", reason="the audit", by="somebody")


class LeapingClock(TickingClock):
    """A clock that a test moves on."""

    ahead_ms = 0

    @override
    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class KeptWorld(LocalWorld):
    """A service that keeps two segments of a deleted topic."""

    time = LeapingClock()

    async def fill(self) -> None:
        leader = await owned(self)
        assert await self.service.coordinator.hold(PlaceHold(WEEK)) == []
        host = self.service.host("host-0").host
        claim = cmd.Claim(1, 1, 1)
        for shell in host._shells.values():
            state = shell.machine.state
            if state is not None and state.session is not None:
                claim = state.session.claim
        self.claim, self.owner = claim, leader
        for number in range(2):
            await self.delete(number)

    async def delete(self, number: int, keep: cmd.Keep | None = None) -> None:
        command = cmd.UpdateSegment(
            self.claim,
            Origin(1, bytes([number])),
            moved(segment(number), DELETING),
            DeletionCause.TOPIC if keep is None else DeletionCause.RETENTION,
            keep,
        )
        host = self.service.host("host-0").host
        answer = await host.call(CommandCall(KEY, command))
        assert not isinstance(answer, RemoteStorageError), answer

    async def leads(self) -> None:
        self.owner = await self.leader(TIP)

    async def given(self, broker_id: int, done: ToPurge | None = None) -> ToPurge | None:
        purged = None if done is None else (KEY, id_of_row(done.row))
        return await self.service.coordinator.purge(NextPurge(broker_id, purged))

    async def first(self, broker_id: int) -> ToPurge:
        """What a broker is given once the trash has been looked through."""
        found: list[ToPurge] = []

        async def is_given() -> bool:
            one = await self.given(broker_id)
            found[:] = [] if one is None else [one]
            return one is not None

        await eventually(is_given)
        return found[0]

    async def kept(self) -> PartitionState:
        backend = self.service.coordinator.backend
        connector = self.service.connector
        catalog = Catalog(
            backend,
            connector.key_factory(self.cluster),
            self.service._settings.serde(),
            self.cluster,
        )
        return (await catalog.reader(TIP).state()).state


@pytest_asyncio.fixture
async def kept(tmp_path: Path) -> AsyncIterator[KeptWorld]:
    clock = LeapingClock()
    async with KeptWorld(sqlite_in(tmp_path), clock=clock) as world:
        world.time = clock
        await world.fill()
        yield world


def start_of(given: ToPurge) -> int:
    assert given.topic_id_partition == TIP
    start: int = unpack_row(given.row)[START]
    return start


@pytest.mark.parametrize("is_led", [True, False])
async def test_what_is_due_is_given_until_it_is_said_to_be_gone(
    kept: KeptWorld, is_led: bool
) -> None:
    if not is_led:
        await kept.owner.on_stop_partitions([TIP])
        await eventually(kept.is_idle)
    kept.time.ahead_ms += 2 * AGAIN_MS

    one = await kept.first(7)
    other = await kept.given(7)
    assert await kept.given(7) == one, "in turn, as one may fail"
    assert await kept.given(8) is None, "they are the other's"
    two = await kept.given(7, one)
    assert two is not None
    assert two == other
    assert {start_of(one), start_of(two)} == {0, 10}
    told = (await kept.service.coordinator.status())["purges"]
    assert (told["partitions"], told["purged"], told["purged_bytes"]) == (1, 1, 10)
    assert [(one["broker"], one["segments"]) for one in told["given"]] == [(7, 1)]
    assert await kept.given(7, two) is None
    assert await kept.given(7, two) is None, "a repeat, whose answer was lost"

    assert len((await kept.kept()).kept) == 0
    if is_led:
        assert await kept.owner.remote_log_size(TIP, 0) == 0


@pytest.mark.parametrize("is_led", [True, False])
async def test_a_lease_that_ran_out_is_given_again_also_by_another_coordinator(
    kept: KeptWorld, is_led: bool
) -> None:
    if not is_led:
        await kept.owner.on_stop_partitions([TIP])
        await eventually(kept.is_idle)
    kept.time.ahead_ms += 2 * AGAIN_MS
    one = await kept.first(7)
    await kept.restart()
    if is_led:
        await kept.leads()

    assert await kept.first(7) == one, "to the same, at once"
    assert await kept.given(8) is None
    kept.time.ahead_ms += LEASE_MS
    assert start_of(await kept.first(8)) == start_of(one)


@pytest.mark.parametrize("is_led", [True, False])
async def test_what_a_hold_covers_is_given_once_it_is_released(
    kept: KeptWorld, is_led: bool
) -> None:
    if not is_led:
        await kept.owner.on_stop_partitions([TIP])
        await eventually(kept.is_idle)
    assert await kept.service.coordinator.hold(PlaceHold(AUDIT)) == []
    kept.time.ahead_ms += 2 * AGAIN_MS
    purges = kept.service.coordinator._purges
    await kept.given(7)
    await eventually(lambda: purges._keeping)
    assert await kept.given(7) is None

    assert (
        await kept.service.coordinator.hold(ReleaseHold("audit", "somebody", "it is over"))
        == []
    )
    kept.time.ahead_ms += 2 * AGAIN_MS
    await kept.first(7)


async def test_what_is_due_is_found_behind_all_that_one_look_takes_in(
    kept: KeptWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "LOOKED_MAX", 1)
    first_segment = AUDIT._replace(last_offset=9)
    assert await kept.service.coordinator.hold(PlaceHold(first_segment)) == []
    kept.time.ahead_ms += 2 * AGAIN_MS

    assert start_of(await kept.first(7)) == 10


@pytest.mark.parametrize("is_led", [True, False])
async def test_what_nobody_has_released_stays_and_is_given_once_somebody_does(
    kept: KeptWorld, is_led: bool
) -> None:
    third = segment(2)
    await copy(kept.owner, third)
    await kept.service.coordinator.hold(ReleaseHold("week", "somebody", "it is over"))
    await kept.delete(2, cmd.Keep(UNTIL_RELEASED_MS, "no rule explains it"))
    report = (await kept.service.host("host-0").host.partitions())[0]
    assert report["unexplained"]["segments"] == 1
    assert report["unexplained"]["reason"] == "no rule explains it"
    if not is_led:
        await kept.owner.on_stop_partitions([TIP])
        await eventually(kept.is_idle)
    kept.time.ahead_ms += 2 * AGAIN_MS
    one = await kept.first(7)
    other = await kept.given(7, one)
    assert other is not None
    assert {start_of(one), start_of(other)} == {0, 10}
    assert await kept.given(7, other) is None

    coordinator = kept.service.coordinator
    assert await coordinator.hold(PlaceHold(AUDIT)) == []
    wish = ReleaseKept(TIP, (bytes(third.remote_log_segment_id.id),), "somebody", "it is fine")
    await coordinator.release_kept(wish)
    assert len((await kept.kept()).kept.unreleased) == 1, "a hold is about it"
    await coordinator.hold(ReleaseHold("audit", "somebody", "it is over"))
    for _ in range(2):
        await coordinator.release_kept(wish)
    kept.time.ahead_ms += 2 * AGAIN_MS

    found = await kept.first(8)
    assert start_of(found) == 20
    assert await kept.given(8, found) is None
    assert len((await kept.kept()).kept) == 0
