"""An operator has the service's processes replaced."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.test_doors import TIP, run
from tests.models.actors.local_world import copy, segment
from tests.models.actors.published import published
from tierledger.actors.coordinator import hosts as hosts_module
from tierledger.cli.exit_status import ExitStatus


async def test_hosts_are_replaced_by_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_module, "PREPARED_S", 0.0)
    async with published(tmp_path, hosts=2) as world:
        await world.leader(TIP)
        before = (await world.service.coordinator.status())["hosts"]

        async def restart(*options: str) -> Result:
            # Each process listens at a port of its own here.
            return await run("restart", *options, "--store", await world.service.url())

        shown = await restart("--host", "host-1")
        told = await restart("--host", "host-0", "--json")
        unknown = await restart("--host", "host-7")
        both = await restart("--host", "host-1", "--node", "a")

        after = (await world.service.coordinator.status())["hosts"]
        await copy(await world.leader(TIP), segment(0))
    assert shown.exit_code == 0, shown.output
    assert "note: host-1 is replaced, 0 moved, in " in shown.stderr
    assert shown.stdout.split()[:3] == ["process", "moved", "seconds"]
    (line,) = told.stdout.splitlines()
    assert json.loads(line)["process"] == "host-0"
    assert json.loads(line)["moved"] == 1
    assert not {*before.values()} & {*after.values()}
    assert unknown.exit_code == ExitStatus.USAGE
    assert "(coordinator, host-0, host-1), got 'host-7'" in unknown.stderr
    assert both.exit_code == ExitStatus.USAGE
    assert "expected --host or --node, got both" in both.stderr
