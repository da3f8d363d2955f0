"""`scrub`, run as a user runs it, on a tier that a stock broker wrote."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from tests.models.cli.command_line import HOSTILE, invoke, refused, write
from tests.models.storage.flipped_bits import flip
from tests.models.storage.stored_partitions import StoredPartition, finished
from tests.models.tiering import tier_trace
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.backends.sqlite.backend import SqliteBackend

SEGMENTS = len(tier_trace.segments())


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tier_trace.TREE, tmp_path / "tree"))


def scrub(store: Path, tree: Path, *more: object) -> Result:
    args = ["--store", f"sqlite:{store}", "--tier", f"local-tiered:{tree}", "--rate", "1GiB"]
    return invoke("scrub", *args, *more)


def test_a_tier_without_damage_is_read_to_its_end(tier_store: Path, tree: Path) -> None:
    result = scrub(tier_store, tree, "--json")

    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["segments"], told["damaged"], told["unread"]) == (SEGMENTS, 0, [])
    assert told["bytes"] == sum(
        one.stat().st_size for one in tree.rglob("*.*") if one.is_file()
    )
    assert told["mib_per_second"] > 0


def test_a_tier_that_has_nothing_of_it_is_taken_for_another_place(
    tier_store: Path, tree: Path
) -> None:
    result = scrub(tier_store, tree.parent)
    audited = invoke(
        *("jobs", "audit", "--store", f"sqlite:{tier_store}"),
        *("--tier", f"local-tiered:{tree.parent}", "--engine", "local"),
    )

    assert (result.exit_code, audited.exit_code) == (1, 1), result.output
    assert "DAMAGED" not in result.stdout
    assert f"damaged          {SEGMENTS}\n" in result.stdout
    for told in (result, audited):
        assert f"the tier has nothing whole of {SEGMENTS} finished segments" in told.stderr


def test_damage_is_named_with_what_it_serves(
    tier_store: Path, tree: Path, tmp_path: Path
) -> None:
    log = next(tree.glob("codec-none-0-*/*.log"))
    flip(log, -1)
    index = next(tree.glob("payments-tx-0-*/*.timeindex"))
    index.unlink()
    out = tmp_path / "findings"

    result = scrub(tier_store, tree, "--out", out)

    assert result.exit_code == 1, result.output
    first, second = sorted(line for line in result.stdout.splitlines() if "DAMAGED" in line)
    assert f"{log.parent.name}/{log.name} at byte " in first
    assert "codec-none-0, offsets " in first
    assert "expected checksum" in first
    assert f"{index.parent.name}/{index.name}: expected it to be there" in second
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert sorted(row["topic"] for row in rows) == ["codec-none", "payments-tx"]
    assert f"segments         {SEGMENTS}\n" in result.stdout


def test_the_damage_of_one_segment_stands_together(tier_store: Path, tree: Path) -> None:
    log = min(tree.glob("codec-lz4-0-*/*.log"))
    gone = list(log.parent.glob(f"{log.stem}.*"))
    for one in gone:
        one.unlink()

    result = scrub(tier_store, tree)

    first, *rest = result.stdout.splitlines()[: 1 + len(gone)]
    assert first == f"DAMAGED  codec-lz4-0, offsets 0 to 70: {len(gone)} findings"
    assert {line.partition(": ")[0] for line in rest} == {
        f"  {one.parent.name}/{one.name}" for one in gone
    }
    assert result.stdout.count("DAMAGED") == 1


def test_it_goes_on_where_it_ended(tier_store: Path, tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "progress"
    first = scrub(tier_store, tree, "--resume", file, "--json")
    for one in tree.rglob("*.log"):
        one.write_bytes(b"")  # Nothing of it is read again.

    again = scrub(tier_store, tree, "--resume", file, "--json")
    other = scrub(tier_store, tmp_path, "--resume", file)
    part = scrub(tier_store, tree, "codec-none", "--resume", file)

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert "all had been read" in again.stderr
    for result in (other, part):
        refused(result, "expected the progress of")


def test_progress_is_saved_while_a_scrub_runs_and_when_it_is_interrupted(
    tier_store: Path, tree: Path, tmp_path: Path
) -> None:
    file = tmp_path / "progress"
    scrubbing = [sys.executable, "-m", "tierledger.cli.main", "scrub", "--resume", str(file)]
    where = ["--store", f"sqlite:{tier_store}", "--tier", f"local-tiered:{tree}"]
    with subprocess.Popen([*scrubbing, *where, "--rate", "200KiB"]) as process:
        while not file.exists():
            assert process.poll() is None
        first = json.loads(file.read_text())["segments"]
        process.send_signal(signal.SIGINT)
    saved = json.loads(file.read_text())
    rest = scrub(tier_store, tree, "--resume", file, "--json")

    assert first <= saved["segments"] < SEGMENTS
    assert not saved["is_complete"]
    assert json.loads(rest.stdout)["segments"] == SEGMENTS


def test_one_topic_or_partition_alone(tier_store: Path, tree: Path) -> None:
    topic = json.loads(scrub(tier_store, tree, "payments-tx", "--json").stdout)
    partition = json.loads(scrub(tier_store, tree, "payments-tx", "1", "--json").stdout)

    assert (topic["segments"], partition["segments"]) == (8, 3)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--rate", "fast"], "--rate: expected a number with B, KiB, MiB, GiB"),
        (["--rate", "0B"], "--rate: expected a number"),
        (["--out", "/does/not/exist/file"], "is no folder"),
        (["--resume", "/does/not/exist/file"], "is no folder"),
        (["--tier", "dir:/does/not/exist"], "no such directory"),
    ],
)
def test_a_wrong_question_is_one_line(
    tier_store: Path, tree: Path, args: list[str], expected: str
) -> None:
    refused(scrub(tier_store, tree, *args), expected)


def test_progress_and_findings_need_different_files(
    tier_store: Path, tree: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"

    refused(scrub(tier_store, tree, "--resume", file, "--out", file), "different files")


def test_a_topic_of_any_name_is_told_and_hides_nothing(tmp_path: Path, tree: Path) -> None:
    store = tmp_path / "store.sqlite"

    async def hostile(backend: SqliteBackend) -> None:
        for number, topic in enumerate((HOSTILE, "..", "plain")):
            tip = TopicIdPartition(Uuid(bytes([number]) * 16), 0, topic)
            partition = await StoredPartition.led(backend, tip)
            await partition.append(finished(0))

    write(store, hostile)

    result = scrub(store, tree)

    assert result.exit_code == 1, result.output
    assert result.stdout.count("UNREAD") == 2
    assert "DAMAGED  plain-0" in result.stdout
    assert "\x1b" not in result.stdout
