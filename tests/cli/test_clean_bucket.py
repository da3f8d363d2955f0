"""`clean` of a bucket on a real S3 server: objects are moved by copies, and get new times."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.models.cli.command_line import invoke, run
from tests.models.tiering.audited_tier import DELETED, OLD_S, AuditedTier
from tests.models.tiering.segment_copies import whole_log
from tierledger.simulation.live.s3_server import S3Server
from tierledger.tiering.layouts.tier_url import Layout, open_tier
from tierledger.tiering.quarantine import FOLDER, TAKEN


@pytest.fixture
def world(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditedTier:
    """Beside another tier in the same bucket, which nobody may touch."""
    world = AuditedTier(tmp_path, Layout.LEDGER, s3_server)
    for name, value in world.options.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    (world.root.parent / "another").mkdir(exist_ok=True)
    (world.root.parent / "another" / "object").write_bytes(b"?")
    return world


async def clean(world: AuditedTier, folder: Path, what: str, status: int, *more: str) -> Any:  # noqa: ANN401
    given = ["--tier", world.tier, "--json", *more]
    file = folder / "plan"
    given += ["--out", str(file), "--overwrite"] if what == "plan" else [str(file), "--yes"]
    store = folder / "store.sqlite"
    if what == "undo":
        result = await asyncio.to_thread(invoke, "clean", what, *given)
    else:
        result = await asyncio.to_thread(run, store, "clean", what, *given)
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def names(world: AuditedTier) -> set[str]:
    return {str(one.relative_to(world.root)) for one in world.root.rglob("*") if one.is_file()}


async def test_what_no_log_knows_leaves_a_bucket_and_comes_back(
    world: AuditedTier, tmp_path: Path
) -> None:
    live = [await world.copy(number) for number in range(2)]
    gone = await world.copy(2, state=DELETED)
    await world.write()
    of_live = {name for one in live for name in map(str, world.objects(one))}
    await world.put_segment(world.renamed(0))
    world.age(gone)
    before = names(world)

    told = await clean(world, tmp_path, "plan", 1)
    assert set(told["kinds"]) == {"orphan", "deleted_but_there"}
    assert names(world) == before
    done = await clean(world, tmp_path, "apply", 0)
    assert done["segments"] == 2
    kept = {name for name in names(world) if FOLDER not in name}
    assert {str(world.root / name) for name in kept} == of_live
    async with open_tier(world.tier) as storage:
        for one in live:
            assert len(await whole_log(storage, one)) == one.segment_size_in_bytes

    given = await clean(world, tmp_path, "undo", 0)
    assert given["bytes"] == done["bytes"]
    assert names(world) == before
    for metadata in (gone, world.renamed(0).metadata):
        world.age(metadata)
    await clean(world, tmp_path, "plan", 1)
    await clean(world, tmp_path, "apply", 0)
    for path in (world.root / FOLDER).glob(f"*/{TAKEN}"):
        taken = json.loads(path.read_text())
        path.write_text(json.dumps({**taken, "taken_ms": OLD_S * 1000}))
        os.utime(path, (OLD_S, OLD_S))
    await clean(world, tmp_path, "plan", 1)
    await clean(world, tmp_path, "apply", 0)
    assert {str(world.root / name) for name in names(world)} == of_live
