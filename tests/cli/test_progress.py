"""A progress bar on the terminal takes nothing of what goes into a file."""

import pty
import subprocess
import sys
from pathlib import Path

from tests.models.cli.command_line import orders, others, write
from tests.models.cli.terminal import on_terminal


def test_results_go_into_the_file_while_a_terminal_shows_progress(tmp_path: Path) -> None:
    write(tmp_path / "store", orders, others)
    _, terminal = pty.openpty()
    command = (sys.executable, "-m", "tierledger.cli.main", "verify")

    done = subprocess.run(
        [*command, "--store", f"sqlite:{tmp_path / 'store'}"],
        stdout=subprocess.PIPE,
        stderr=terminal,
        check=True,
        text=True,
    )

    assert len([line for line in done.stdout.splitlines() if line.startswith("ok ")]) == 4


def test_a_file_on_the_terminal_is_not_mixed_with_progress(tmp_path: Path) -> None:
    write(tmp_path / "store", orders, others)

    shown = on_terminal("export", "-", columns=80, store=tmp_path / "store")

    assert shown.status == 0
    assert "records exported" not in shown.raw
    assert [line for line in shown.lines if line.startswith("{")]
