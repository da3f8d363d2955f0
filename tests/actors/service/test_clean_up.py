"""An operator ends what no broker ends, in partitions that are led, and in those of nobody."""

import pytest

from tests.actors.service.test_held_deletions import DELETED, DELETING, owned
from tests.models.actors.local_world import (
    LocalWorld,
    copy,
    eventually,
    listed,
    moved,
    partition,
    segment,
)
from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.holding import PlaceHold, ReleaseHold
from tierledger.actors.coordinator.ownership import Handover
from tierledger.actors.coordinator.purge_requests import COMMAND, CleanUp
from tierledger.actors.holds import Hold
from tierledger.events import commands as cmd
from tierledger.events.errors import InvalidStateTransition, RejectedError
from tierledger.events.lifecycle import DeletionCause, RemoteLogSegmentState
from tierledger.events.log_events import Origin
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import STATE, id_of_row, unpack_row
from tierledger.storage.catalog import Catalog

TIP = partition()
AUDIT = Hold("audit", "*", reason="the audit", by="somebody")
YEAR_MS = 365 * 86_400_000
TERM = Hold("year", "*", reason="a year", by="somebody", term_ms=YEAR_MS)


async def state_of(world: LocalWorld) -> PartitionState:
    keys = world.service.connector.key_factory(world.cluster)
    serde = world.service._settings.serde()
    catalog = Catalog(world.service.coordinator.backend, keys, serde, world.cluster)
    return (await catalog.reader(TIP).state()).state


async def ended(
    world: LocalWorld,
    target: RemoteLogSegmentState,
    *rows: bytes,
    keep: cmd.Keep | None = None,
) -> list[RemoteLogSegmentState]:
    """The states in which these segments are left."""
    command = cmd.EndSegments(Origin(COMMAND, None), target, rows, 8, keep, DeletionCause.TOPIC)
    found = await world.service.coordinator.clean_up(CleanUp(TIP, command, "somebody"))
    return [RemoteLogSegmentState(unpack_row(row)[STATE]) for row in found]


async def left_by(
    world: LocalWorld, leader: AsyncRemoteLogMetadataManager, is_led: bool
) -> None:
    if not is_led:
        await leader.on_stop_partitions([TIP])
        await eventually(world.is_idle)


@pytest.mark.parametrize("is_led", [True, False])
async def test_a_copy_that_nobody_ends_is_given_up(world: LocalWorld, is_led: bool) -> None:
    leader = await owned(world)
    await leader.add_remote_log_segment_metadata(segment(2))
    await leader.add_remote_log_segment_metadata(segment(3))
    await left_by(world, leader, is_led)
    seen = (await state_of(world)).rows.get(bytes(segment(2).remote_log_segment_id.id))
    other = (await state_of(world)).rows.get(bytes(segment(3).remote_log_segment_id.id))
    assert seen is not None
    assert other is not None

    await world.service.coordinator.hold(PlaceHold(AUDIT))
    with pytest.raises(RejectedError, match=r"^held: .*audit"):
        await ended(world, DELETING, seen)
    await world.service.coordinator.hold(ReleaseHold("audit", "somebody", "it is over"))
    for _ in range(2):  # A repeat, whose answer was lost.
        assert await ended(world, DELETING, seen) == [DELETING]
    begun = (await state_of(world)).rows.get(id_of_row(seen))
    assert begun is not None
    for _ in range(2):
        assert await ended(world, DELETED, begun) == []
    if is_led:
        await leader.update_remote_log_segment_metadata(moved(segment(3)))
        assert await listed(leader) == [0, 1, 3]
        with pytest.raises(InvalidStateTransition, match="it has changed since"):
            await ended(world, DELETING, other)
    assert (await state_of(world)).rows.get(id_of_row(seen)) is None


@pytest.mark.parametrize("is_led", [True, False])
async def test_a_finished_segment_is_kept_for_as_long_as_a_term_says(
    world: LocalWorld, is_led: bool
) -> None:
    leader = await owned(world)
    await world.service.coordinator.hold(PlaceHold(TERM))
    await left_by(world, leader, is_led)
    first, second = (await state_of(world)).rows

    with pytest.raises(InvalidStateTransition, match="expected until when it is kept"):
        await ended(world, DELETING, first)
    assert await ended(world, DELETING, first, keep=cmd.Keep(1, "it was cleaned up")) == []

    state = await state_of(world)
    ((_, kept),) = state.kept.all()
    assert (id_of_row(kept.row), kept.cause) == (id_of_row(first), DeletionCause.TOPIC)
    assert kept.until_ms >= kept.log_time_ms + YEAR_MS
    assert list(state.rows) == [second]


async def test_nothing_is_ended_while_kafkas_manager_decides(world: LocalWorld) -> None:
    await copy(await world.leader(TIP), segment(0))
    (first,) = (await state_of(world)).rows
    await world.service.coordinator.hand_over(Handover(Owner.KAFKA, Owner.NOBODY))

    with pytest.raises(RejectedError, match=r"^not_the_owner: the metadata's owner is kafka"):
        await ended(world, DELETING, first, keep=cmd.Keep(1, "it was cleaned up"))
