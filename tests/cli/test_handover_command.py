"""`handover` says what becomes of the trash."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.test_trash_command import with_trash
from tests.models.actors.local_world import LocalWorld, eventually
from tests.models.storage.stored_partitions import CLUSTER
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import Owned
from tierledger.cli.commands.handover import print_trash


async def test_a_service_without_guards_knows_where_something_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, url = await with_trash(tmp_path / "ledger.sqlite")
    async with LocalWorld({"metadata.storage.url": url}, cluster=CLUSTER) as world:
        coordinator = world.service.coordinator

        async def is_known() -> bool:
            await asyncio.sleep(0.1)
            return bool((await coordinator.status())["purges"]["partitions"])

        await eventually(is_known)
        for owner in (Owner.TIERLEDGER, Owner.KAFKA):
            print_trash(Owned(owner, 4), await coordinator.status())

    assert capsys.readouterr().err == (
        "note: the trash of 1 partitions stays in the tier and in the ledger: Kafka's manager "
        "knows nothing of it, and `tierledger trash ls` shows it\n"
    )
