"""docs/tutorial.md: its commands run as they stand, in order, and say what is written below."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tierledger.simulation.live.server import free_ports

ROOT = Path(__file__).parents[2]
STEP = re.compile(r"(?ms)^```bash\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?")
TIMEOUT_S = 300

pytestmark = [pytest.mark.ray, pytest.mark.long]


class TutorialStep(NamedTuple):
    """A block of commands, and what the page says that they print."""

    commands: str
    printed: str


def steps() -> list[TutorialStep]:
    """Those of the page, at ports of this test."""
    text = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    first = free_ports(4)
    for port, ours in (("9093", first), ("9092", first + 1), ("4711", first + 2)):
        assert f":{port}" in text
        text = text.replace(f":{port}", f":{ours}")
    return [TutorialStep(*one) for one in STEP.findall(text)]


def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    for name in (".venv", "scripts", "kafka-plugin"):
        (tmp_path / name).symlink_to(ROOT / name)
    found = steps()
    script = "set -eu\n" + "echo '== next step'\n".join(one.commands for one in found)
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )

    try:
        said, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    assert process.returncode == 0, said
    outputs = said.split("== next step\n")
    assert len(outputs) == len(found) >= 10
    for step, output in zip(found, outputs, strict=True):
        for line in step.printed.splitlines():
            assert line in output.splitlines(), output
