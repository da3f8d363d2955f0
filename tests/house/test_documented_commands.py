"""Each command that README.md and docs/ show runs as it stands there, or a test is named."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.cli.command_line import invoke, write
from tests.models.storage.stored_partitions import TRACES, import_trace
from tierledger.cli.exit_status import ExitStatus
from tierledger.storage.backends.sqlite.backend import SqliteBackend

ROOT = Path(__file__).parents[2]
STORE = "sqlite:ledger.sqlite"

USERS = {
    "postgresql://ledger@DB/ledger": STORE,
    "s3://BUCKET/PREFIX": "local-tiered:tier",
    "local-tiered:/var/kafka-tiered-storage": "local-tiered:tier",
    "local-tiered:DIR": "local-tiered:tier",
    "RECORDS": "records.jsonl.gz",
    "/backup/ledger": "backups",
    "2026-11-29T06:00:00Z": "+1d",
    "verify --store sqlite:drill.sqlite": "verify",
    "ls --store sqlite:drill.sqlite": "ls",
    "$PWD/": "",
    "4711 --to-offset 4800": "11 --to-offset 48",
    "cat orders": "cat codec-lz4",
    "cat payments": "cat codec-gzip",
}
"""What a reader replaces by what he has, and what this test has."""

ELSEWHERE = {
    r"serve ": "tests/ray/test_serve.py",
    r"^restart": "tests/cli/test_restart_command.py",
    r"doctor .*--tier": "tests/cli/test_doctor_command.py",  # It writes to the tier.
    r"console ": "tests/pages/test_console_in_browser.py",
    r"status --watch": "tests/cli/test_base_install.py",
    r"handover ": "tests/moving/test_stock_cluster.py",
    r"hold (add|ls|release)": "tests/cli/test_hold_command.py",
    r"trash (ls|show)": "tests/cli/test_trash_command.py",
    r"undelete ": "tests/kafka/test_undelete.py",
    r"clean (plan|apply|undo)": "tests/cli/test_clean_command.py",
    r"trash purge": "tests/cli/test_purge_command.py",
    r"backup .*s3:": "tests/cli/test_backup_in_a_bucket.py",
    r"storage (copy|reopen)": "tests/cli/test_storage_command.py",
    r"simulate live|check run\.jsonl": "tests/chaos/test_live_command.py",
    r"simulate run --seeds 20000": "tests/simulation",
    r"simulate (mutants|slips|coverage)": "tests/simulation",
    r"replay tests/traces/three-brokers-churn": "tests/cli/test_replay_command.py",
    r"--master sc://": "tests/pipeline/test_connect.py",
    r"jobs import (kafka:|/var/kafka-logs|RECORDS)": "tests/pipeline/imports/test_sources.py",
    r"jobs import tests/traces": "tests/pipeline/test_walks.py",
    r"replay tests/traces/one-broker": "tests/cli/test_replay_command.py",
    r"--listing": "tests/pipeline/jobs/audit/test_job.py",
}
"""Commands that take minutes, or a server: where they run, by a pattern."""


OF_ITS_OWN = {
    "tutorial.md": "tests/kafka/test_tutorial.py",
    "comparison.md": "tests/house/test_documented_commands.py",
}
"""Pages whose commands run together, and where."""


def shown() -> list[str]:
    """The commands of the documents, each once."""
    pages = [one for one in (ROOT / "docs").glob("*.md") if one.name not in OF_ITS_OWN]
    return shown_in(ROOT / "README.md", *sorted(pages))


def shown_in(*pages: Path) -> list[str]:
    """The commands in blocks of `pages`, without prompt and remark, each once."""
    found: dict[str, None] = {}
    for path in pages:
        text = path.read_text(encoding="utf-8")
        for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", "").splitlines():
                command = re.fullmatch(r"(?:\$ )?tierledger (.+?)(?: +# .*)?", line)
                if command and not line.startswith("tierledger owns"):  # An answer.
                    found[re.sub(" +", " ", command[1])] = None
    return list(found)


def place_of(command: str) -> str | None:
    return next((at for what, at in ELSEWHERE.items() if re.search(what, command)), None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of three recorded clusters, its records, and the tier of one."""
    folder = tmp_path_factory.mktemp("documented")

    async def imported(backend: SqliteBackend) -> None:
        for trace in ("tier", "three-brokers-churn", "one-broker"):
            await import_trace(backend, TRACES / trace, checkpoint_at=1)

    write(folder / "ledger.sqlite", imported)
    done = invoke(
        "export", folder / "records.jsonl.gz", "--store", f"sqlite:{folder / 'ledger.sqlite'}"
    )
    assert done.exit_code == ExitStatus.WELL, done.output
    done = invoke(
        "backup", "make", folder / "backups", "--store", f"sqlite:{folder / 'ledger.sqlite'}"
    )
    assert done.exit_code == ExitStatus.WELL, done.output
    return folder


@pytest.mark.parametrize("command", [one for one in shown() if place_of(one) is None])
def test_a_command_that_is_shown_runs_as_it_stands(
    command: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIERLEDGER_STORE", STORE)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    Path("tests").symlink_to(ROOT / "tests")
    Path("deploy").symlink_to(ROOT / "deploy")
    for name in ("prices.toml", "labels.toml"):
        Path(name).symlink_to(ROOT / "deploy" / name)
    Path("tier").symlink_to(TRACES / "tier" / "tier")
    shutil.copy(made / "ledger.sqlite", ".")
    shutil.copytree(made / "backups", "backups")
    if "export" not in command:
        shutil.copy(made / "records.jsonl.gz", ".")
    for theirs, ours in USERS.items():
        command = command.replace(theirs, ours)

    status, said = run(command)

    # 1: it has found what it looks for, such as stuck copies.
    assert status in {ExitStatus.WELL, ExitStatus.FOUND}, said
    assert "Traceback" not in said


def test_the_comparison_asks_the_store_that_it_fills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs" / "comparison.md"
    (fills,) = re.findall(r"(?m)^tierledger (replay .+)$", page.read_text(encoding="utf-8"))
    (store,) = re.findall(r"(?m)^export TIERLEDGER_STORE=(.+)$", page.read_text("utf-8"))
    trace = Path(fills.split()[1]).name
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIERLEDGER_STORE", store)

    async def imported(backend: SqliteBackend) -> None:
        await import_trace(backend, TRACES / trace)

    write(Path(store.removeprefix("sqlite:")), imported)
    others = [one for one in shown_in(page) if one != fills]

    assert "--report" not in fills, "a file that may be there already"
    assert len(others) == 4
    for command in others:
        status, said = run(command)
        assert status in {ExitStatus.WELL, ExitStatus.FOUND}, said
        assert len(said.splitlines()) > 3


def run(command: str) -> tuple[int, str]:
    """The exit status and what was said; in this process, unless a shell has to read it."""
    if set(command).isdisjoint("<>|$"):
        done = invoke(*shlex.split(command))
        return done.exit_code, done.output
    ran = subprocess.run(
        ["bash", "-c", f"tierledger {command}"], capture_output=True, text=True, check=False
    )
    return ran.returncode, ran.stderr


def test_each_command_that_runs_elsewhere_is_shown_and_its_test_is_there() -> None:
    elsewhere = [one for one in shown() if place_of(one) is not None]

    assert all((ROOT / at).exists() for at in OF_ITS_OWN.values())
    for what, at in ELSEWHERE.items():
        assert any(re.search(what, one) for one in elsewhere), f"nobody shows {what}"
        assert (ROOT / at).exists(), at
