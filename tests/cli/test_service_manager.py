"""systemd's unit is one that systemd takes, and a manager that does not listen is named."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tierledger.cli.service_manager import told_of
from tierledger.storage.process_log import LOG

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "tierledger.service"
COMMAND = "/opt/tierledger/bin/tierledger"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize(("key", "said"), [("Type", ""), ("Typ", "Unknown key")])
def test_systemd_takes_the_unit(key: str, said: str, tmp_path: Path) -> None:
    ours = str(Path(sys.executable).with_name("tierledger"))
    text = UNIT.read_text(encoding="utf-8")
    assert text.count(f"ExecStart={COMMAND} serve $SERVE_OPTIONS") == 1
    there = tmp_path / "tierledger.service"
    there.write_text(text.replace(COMMAND, ours).replace("Type=notify", f"{key}=notify"))

    done = subprocess.run(
        ["systemd-analyze", "verify", there], capture_output=True, text=True, check=False
    )

    assert said in done.stderr
    assert bool(done.stderr) is bool(said)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_takes_the_unit_that_makes_backups_of_the_same_store(tmp_path: Path) -> None:
    ours = str(Path(sys.executable).with_name("tierledger"))
    units = [UNIT.with_name(f"tierledger-backup.{kind}") for kind in ("service", "timer")]
    for unit in units:
        text = unit.read_text(encoding="utf-8")
        (tmp_path / unit.name).write_text(text.replace(COMMAND, ours))

    done = subprocess.run(
        ["systemd-analyze", "verify", *(tmp_path / unit.name for unit in units)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    made = units[0].read_text(encoding="utf-8").splitlines()
    assert f"ExecStart={COMMAND} backup make $BACKUPS" in made
    served = UNIT.read_text(encoding="utf-8").splitlines()
    same = [one for one in served if "TIERLEDGER_STORE=" in one or one.startswith("Environ")]
    assert {one for one in same if "STORE=" in one or "File=" in one} <= {*made}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize(("left_out", "is_safe"), [("", True), ("RestrictNamespaces", False)])
def test_the_unit_leaves_the_service_few_rights(
    left_out: str, is_safe: bool, tmp_path: Path
) -> None:
    text = UNIT.read_text(encoding="utf-8")
    there = tmp_path / "tierledger.service"
    there.write_text(text.replace(left_out, f"#{left_out}") if left_out else text)

    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=40", there],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode == 0) is is_safe, done.stdout


async def test_a_manager_that_does_not_listen_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(LOG, "put", lines.append)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))

    async with told_of("serving"):
        pass

    first, last = lines
    assert f"NOTIFY_SOCKET {tmp_path}/nobody cannot be told 'READY=1" in first
    assert "cannot be told 'STOPPING=1'" in last


async def test_without_a_manager_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(LOG, "put", lines.append)
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setenv("WATCHDOG_USEC", str(os.getpid()))

    async with told_of("serving"):
        pass

    assert lines == []
