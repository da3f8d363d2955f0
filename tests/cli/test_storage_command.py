"""`tierledger storage`: a ledger goes on in another store, and what is refused."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

from tests.models.actors.local_world import CLUSTER, POLL_S, LocalWorld, partition, sqlite_in
from tests.models.actors.published import publish, published, put_record
from tests.models.cli.command_line import HOSTILE, invoke, lines, orders, others, refused, write
from tests.models.storage import stored_partitions
from tierledger.cli.commands.storage import ENDING_PAUSE_S, _opened_at_the_end
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.settings import store_config
from tierledger.storage.connector import load_connector

TIP = partition()
FORMER, NEW = "former.sqlite", "new.sqlite"


def stored(folder: Path, name: str) -> str:
    return f"sqlite:{folder / name}"


def test_a_ledger_goes_on_in_the_other_store_and_comes_back(tmp_path: Path) -> None:
    async def served_once() -> None:
        async with LocalWorld(sqlite_in(tmp_path)) as world:
            await world.leader(TIP)

    asyncio.run(served_once())
    former, new = stored(tmp_path, "store.sqlite"), stored(tmp_path, NEW)
    before = invoke("ls", "--store", former, "--json").stdout

    declined = invoke("storage", "copy", former, new, input="n\n")
    done = invoke("storage", "copy", former, new, "--yes", "--json")

    assert declined.exit_code != 0
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["logs"], told["damaged"]) == (2, {})
    assert invoke("ls", "--store", new, "--json").stdout == before
    closed = invoke("storage", "copy", former, stored(tmp_path, "third.sqlite"), "--yes")
    assert f"goes on there: {new}" in closed.stderr
    verified = invoke("verify", "--store", former)
    assert verified.exit_code == 0, verified.output
    assert verified.stdout.count("ok ") == verified.stdout.count("\n") == 2
    assert f"goes on there: {new}" in verified.stdout
    assert all(one["closed"] for one in lines(invoke("verify", "--store", former, "--json")))
    for asked in (["ls"], ["describe", TIP.topic], ["backup", "make", tmp_path / "backups"]):
        refused(invoke(*asked, "--store", former), f"goes on there: {new}")
    client = invoke("hold", "ls", "--store", former)
    assert client.exit_code == ExitStatus.FAILED
    assert (
        f"on this store: the ledger was copied to another store, and goes on there: {new}"
        in (client.stderr)
    )
    for seen in (["status"], ["doctor", "--timeout", "1m"]):
        shown = invoke(*seen, "--store", former)
        assert shown.exit_code == ExitStatus.FOUND
        assert f"goes on there: {new}" in shown.stdout
        assert "tierledger serve" not in shown.stdout
    again = invoke("storage", "reopen", "--store", former, "--yes", "--json")
    assert json.loads(again.stdout) == {"logs": 2}
    assert invoke("ls", "--store", former, "--json").stdout == before
    refused(
        invoke("storage", "reopen", "--store", former, "--yes"),
        "the store is not closed because of a copy",
    )


def test_who_cannot_be_asked_is_told_to_say_yes(tmp_path: Path) -> None:
    write(tmp_path / FORMER, orders, others)
    former, new = stored(tmp_path, FORMER), stored(tmp_path, NEW)

    for command in (
        ["storage", "copy", former, new],
        ["forget", HOSTILE, 0, "--store", former],
    ):
        done = invoke(*command)
        assert done.exit_code == ExitStatus.USAGE
        assert done.stdout.strip() == ""
        assert done.stderr.endswith("as standard input has ended: expected --yes\n")
    assert not (tmp_path / NEW).exists()


async def test_a_dry_run_tells_of_the_service_that_writes(tmp_path: Path) -> None:
    async with published(tmp_path) as world:
        await world.leader(TIP)
        record = await publish(world)
        await put_record(world, record._replace(address=record.host_doors[0].door))
        url = world.storage["metadata.storage.url"]
        command = ("trash", "purge", "--dry-run", "--tier", f"dir:{tmp_path}", "--store", url)
        purged = await asyncio.to_thread(invoke, *command)

    assert purged.exit_code == 0, purged.output
    assert "note: a service writes to this store, which has one writer" in purged.stderr


def test_a_store_on_which_no_service_ever_ran_is_copied(tmp_path: Path) -> None:
    write(tmp_path / FORMER, orders)
    former, new = stored(tmp_path, FORMER), stored(tmp_path, NEW)
    before = invoke("ls", "--store", former, "--json").stdout

    done = invoke("storage", "copy", former, new, "--yes")

    assert done.exit_code == 0, done.output
    assert invoke("ls", "--store", new, "--json").stdout == before
    assert invoke("storage", "reopen", "--store", former, "--yes").exit_code == 0
    assert invoke("ls", "--store", former, "--json").stdout == before


def test_a_store_that_has_the_cluster_or_is_the_same_is_refused(tmp_path: Path) -> None:
    write(tmp_path / FORMER, orders)
    write(tmp_path / NEW, orders)
    former, new = stored(tmp_path, FORMER), stored(tmp_path, NEW)

    taken = invoke("storage", "copy", former, new, "--yes")
    same = invoke("storage", "copy", former, former, "--yes")

    assert taken.exit_code == ExitStatus.USAGE
    assert "the store has cluster" in taken.stderr
    refused(same, f"expected two stores, got {former} twice")


async def test_a_copy_waits_for_the_process_that_writes_to_end(tmp_path: Path) -> None:
    await asyncio.to_thread(write, tmp_path / FORMER, orders)
    former = stored(tmp_path, FORMER)
    writer = await load_connector(store_config(former)).backend(read_only=False)
    async with AsyncExitStack() as opened:
        opening = asyncio.create_task(_opened_at_the_end(StoreOptions(former), opened))
        await asyncio.sleep(2 * ENDING_PAUSE_S)
        assert not opening.done()

        await writer.close()
        catalog = await opening

        assert await catalog.backend.last_keys([catalog.keys.coordinator_log()]) is not None


async def test_a_copy_follows_a_service_until_that_ends(tmp_path: Path) -> None:
    async with published(tmp_path) as world:
        await world.leader(TIP)
        record = await publish(world)
        # What looks for a service asks there for HTTP/2, which a door speaks, too.
        await put_record(world, record._replace(address=record.host_doors[0].door))
        url = world.storage["metadata.storage.url"]
        command = ("storage", "copy", url, stored(tmp_path, NEW), "--yes", "--cluster", CLUSTER)
        copying = asyncio.create_task(asyncio.to_thread(invoke, *command))
        while not (tmp_path / NEW).exists():
            assert not copying.done(), copying.result().output
            await asyncio.sleep(POLL_S)
        await asyncio.sleep(1)
        assert not copying.done(), copying.result().output
    done = await copying

    assert done.exit_code == 0, done.output
    assert "the copy follows: end the service" in done.stderr


async def test_a_store_is_not_opened_again_while_the_other_one_is_served(
    tmp_path: Path,
) -> None:
    (tmp_path / "copy").mkdir()
    await asyncio.to_thread(write, tmp_path / FORMER, orders)
    former = stored(tmp_path, FORMER)
    copy = stored(tmp_path / "copy", "store.sqlite")
    done = await asyncio.to_thread(invoke, "storage", "copy", former, copy, "--yes")
    assert done.exit_code == 0, done.output
    reopen = ("storage", "reopen", "--store", former, "--yes")

    async with published(tmp_path / "copy", cluster=stored_partitions.CLUSTER) as world:
        record = await publish(world)
        await put_record(world, record._replace(address=record.host_doors[0].door))
        served = await asyncio.to_thread(invoke, *reopen)
    (tmp_path / "copy" / "store.sqlite").rename(tmp_path / "elsewhere")
    unseen = await asyncio.to_thread(invoke, *reopen)

    refused(served, f"a service runs on {copy}, where the ledger goes on: end it first")
    assert unseen.exit_code == 0, unseen.output
