"""A progress bar on the terminal takes nothing of what goes into a file."""

import pty
import subprocess
import sys
from pathlib import Path

from tests.models.cli.command_line import orders, others, write


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
