"""Audits of a bucket on a real S3 server, which the command lists itself."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.models.cli.command_line import run
from tests.models.tiering.audited_tier import DELETED, DELETING, AuditedTier
from tierledger.simulation.live.s3_server import S3Server
from tierledger.tiering.layouts.tier_url import Layout

KINDS = ("missing_object", "size_mismatch", "deleted_but_there", "orphan", "foreign", "whole")


@pytest.fixture(params=[Layout.LEDGER, Layout.MANIFEST])
def world(
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AuditedTier:
    """Beside another tier in the same bucket, which an audit must not see."""
    world = AuditedTier(tmp_path, request.param, s3_server)
    for name, value in world.options.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    (world.root.parent / "another").mkdir(exist_ok=True)
    (world.root.parent / "another" / "object").write_bytes(b"?")
    return world


async def audited(world: AuditedTier, tmp_path: Path) -> tuple[int, dict[str, int]]:
    """Exit status, and how many rows there are of each kind."""
    arguments = ["--tier", world.tier, "--older-than", "1h", "--json"]
    result = await asyncio.to_thread(
        run, tmp_path / "store.sqlite", "jobs", "audit", *arguments
    )
    assert result.exit_code < 2, (result.stderr, result.exception)
    told = json.loads(result.stdout)
    return result.exit_code, {kind: told[kind] for kind in KINDS}


@pytest.mark.usefixtures("spark")
async def test_damage_in_a_bucket_is_found(world: AuditedTier, tmp_path: Path) -> None:
    lost, resized, deleted, _ = [await world.copy(number) for number in range(4)]
    for state in (DELETING, DELETED):
        world.note(deleted, state, deleted.custom_metadata)
    await world.write()
    await world.put_segment(world.renamed(0))
    world.put("a stranger's", b"?")
    for path in world.objects(lost):
        path.unlink()
    shrunk = world.log_objects(resized)[0]
    shrunk.write_bytes(shrunk.read_bytes()[:-1])

    code, counts = await audited(world, tmp_path)

    assert code == 1
    assert set(counts.values()) == {1}
