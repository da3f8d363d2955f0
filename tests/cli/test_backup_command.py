"""`backup`, run as a user runs it."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.test_upkeep_commands import damage
from tests.models.cli.command_line import ORDERS, invoke, lines, refused, run, write
from tests.models.storage.stored_partitions import CLUSTER, SERDE, StoredPartition, finished
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.storage.backend import Create, MetadataStorageBackend
from tierledger.storage.backup.backup import NOT_RESTORED
from tierledger.storage.closed_slot import closed_slot
from tierledger.storage.keys import DefaultMetadataKeyFactory


def grown(store: Path, topic: Uuid = ORDERS) -> None:
    """Let a partition of the store have one more segment."""

    async def more(backend: MetadataStorageBackend) -> None:
        tip = TopicIdPartition(topic, int(topic == ORDERS), "orders")
        partition = await StoredPartition.resumed(backend, tip)
        await partition.append(finished(partition.state.next_position, epoch=1))

    write(store, more)


@pytest.fixture
def backups(store: Path) -> Path:
    folder = store.parent / "backups"
    assert run(store, "backup", "make", folder).exit_code == 0
    return folder


def test_a_store_goes_through_a_backup_into_a_database_and_back(
    store: Path, backups: Path, postgres_server: PostgresServer
) -> None:
    url = postgres_server.database()
    again, back = store.parent / "again", store.parent / "back.sqlite"

    there = invoke("backup", "restore", backups, "--store", url)
    made = invoke("backup", "make", again, "--store", url)
    restored = run(back, "backup", "restore", again)

    assert there.stdout.startswith("restored backup 1 of cluster test-cluster, made 20")
    assert "4 logs, 53 events; new 53 events" in made.stdout
    assert restored.exit_code == 0
    for command in (["ls", "--json"], ["segments", "orders", 1], ["verify"]):
        ours, theirs = run(store, *command), run(back, *command)
        assert ours.exit_code == theirs.exit_code == 0
        if command != ["verify"]:
            assert theirs.stdout == ours.stdout


def test_backups_are_listed_and_verified(store: Path, backups: Path) -> None:
    assert "new 0 events (0 B)" in run(store, "backup", "make", backups).stdout
    (first, second) = lines(invoke("backup", "ls", backups, "--json"))
    assert (first["backup"], second["backup"], second["events"]) == (1, 2, 53)
    assert "2  20" in invoke("backup", "ls", backups).stdout
    assert invoke("backup", "verify", backups).stdout.count("ok ") == 2
    (part,) = backups.glob("*.part")
    part.write_bytes(part.read_bytes()[:-1])

    found = invoke("backup", "verify", backups)
    plain = invoke("backup", "verify", backups, "--json")

    assert found.exit_code == plain.exit_code == 1
    assert found.stdout.count(f"DAMAGED  backup 1: {part.name} is damaged") == 1
    assert [json.loads(line)["passed"] for line in plain.stdout.splitlines()] == [False] * 2


def test_old_backups_are_let_go(store: Path, backups: Path) -> None:
    run(store, "backup", "make", backups)
    asked = ("backup", "prune", backups, "--keep-daily", 9)

    dry, done = invoke(*asked, "--dry-run"), invoke(*asked)

    assert re.search(r"1  20.*Z  would be removed *\n +2  20.*Z  newest, daily", dry.stdout)
    assert "would be removed: 1 backup, and 2 files (" in dry.stdout
    assert re.search(r"1  20.*Z  removed *\n +2  20.*Z  newest, daily *\nrem", done.stdout)
    assert [one["backup"] for one in lines(invoke("backup", "ls", backups, "--json"))] == [2]
    refused(invoke(*asked[:3]), "expected what to keep")
    refused(invoke("backup", "prune", store.parent / "no", *asked[3:]), "is no folder with")
    (part,) = backups.glob("*.part")
    part.write_bytes(part.read_bytes()[:-1])
    refused(invoke(*asked), f"{part.name} is damaged", "nothing is removed", status=4)


def test_what_is_damaged_is_named_with_a_status_of_its_own(store: Path, tmp_path: Path) -> None:
    write(store, damage)
    into = tmp_path / "backups"

    made = run(store, "backup", "make", into)
    restored = run(tmp_path / "r.sqlite", "backup", "restore", into)

    for done in (made, restored):
        assert done.exit_code == 3
        assert "damaged, and in the backup only up to there" in done.stderr
        assert "batch 4" in done.stderr


def test_what_cannot_be_is_refused(store: Path, backups: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.sqlite"

    refused(run(new, "backup", "make", backups), "no such store")
    refused(run(store, "backup", "restore", backups), "has cluster 'test-cluster' already")
    refused(run(new, "backup", "restore", tmp_path / "no"), "is no folder with backups")
    refused(run(new, "backup", "restore", backups, "--as-of", "7d"), "no backup of that time")
    other = ["--cluster", "another"]
    refused(
        run(new, "backup", "restore", backups, *other), "a backup of cluster 'test-cluster'"
    )
    refused(run(store, "backup", "make", tmp_path / "a" / "b"), "cannot write to")
    assert not new.exists()


def test_the_half_of_a_store_is_seen(store: Path, backups: Path) -> None:
    half = store.parent / "half.sqlite"

    async def closed(backend: MetadataStorageBackend) -> None:
        slot = DefaultMetadataKeyFactory(CLUSTER).coordinator_batch(0)
        await StoredPartition.led(backend)
        mark = closed_slot(SERDE, NOT_RESTORED, b"killed")
        await backend.execute_atomically([Create(slot, mark)])

    write(half, closed)
    verified = run(half, "verify")
    refused(run(half, "backup", "make", store.parent / "of-half"), "being restored")

    assert verified.exit_code == 1
    assert "CLOSED   the coordinator's log: 0 events: the store is being" in verified.stdout
    assert "DAMAGED" not in verified.stdout
    assert "restore` begins anew" in run(half, "status").stdout
    assert run(half, "backup", "restore", backups).exit_code == 0
    assert run(half, "verify").exit_code == 0
