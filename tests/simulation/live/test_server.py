"""A server that does not start, or does not end, leaves nothing behind."""

import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest
from typing_extensions import override

from tierledger.simulation.live import server
from tierledger.simulation.live.server import LiveServer

DEAF = """\
import signal
import subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    signal.pause()
"""


class Program(LiveServer):
    name = "program"

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    @override
    def _prepare(self) -> None:
        (self.folder / "program.py").write_text(self.text)

    @override
    def _command(self) -> Sequence[str]:
        return [sys.executable, str(self.folder / "program.py")]

    @override
    def _is_up(self) -> bool:
        return "up" in self.said()


def test_one_that_does_not_come_up_says_why_and_leaves_nothing() -> None:
    program = Program("raise SystemExit('no such port')")
    with pytest.raises(RuntimeError, match="program did not start: no such port"), program:
        pytest.fail("it is not up")
    assert not program.is_running
    with pytest.raises(AssertionError, match="enter the server first"):
        program.log()


def test_one_that_does_not_end_is_killed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STOP_TIMEOUT_S", 1.0)
    with Program(DEAF) as program:
        folder = program.folder
        with pytest.raises(RuntimeError, match="program did not end: up"):
            program.stop()
        assert not program.is_running
        program.start()
        program.stop(signal.SIGKILL)
    assert not folder.exists()


ONCE = """\
import pathlib
import signal
if pathlib.Path("ran").exists():
    raise SystemExit("once is enough")
pathlib.Path("ran").touch()
print("up", flush=True)
signal.pause()
"""


def test_what_it_said_before_does_not_count_when_it_is_started_again() -> None:
    with Program(ONCE) as program:
        program.stop(signal.SIGKILL)

        with pytest.raises(RuntimeError, match="program did not start: up\nonce is enough"):
            program.start()


def test_a_port_is_given_to_one_process() -> None:
    held = server.free_ports(2)
    script = f"""
import random
from tierledger.simulation.live import server

chosen = iter([{held}, {held - 1}, {held + 1}])
choose = random.choice
random.choice = lambda ports: next(chosen, None) or choose(ports)
print(server.free_ports(2), next(chosen, None))
"""
    given = subprocess.check_output([sys.executable, "-c", script], text=True)
    first, left = given.split()
    assert abs(int(first) - held) > 1
    assert left == "None"
