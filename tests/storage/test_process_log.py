"""What a process logs costs it nothing but the line: it neither raises nor waits."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn, TextIO

import pytest
from typing_extensions import override

from tierledger.storage.process_log import LINES_MAX, Descriptor, Lines, ProcessLog

LONG_S = 20.0

FULL = Path("/dev/full")


class Flaky:
    """Takes lines, unless it is full."""

    def __init__(self) -> None:
        self.is_full = False
        self.taken: list[bytes] = []

    def write(self, line: bytes) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.taken.append(line)


def test_lines_that_find_no_room_are_counted_and_the_count_is_written() -> None:
    file = Flaky()
    lines = Lines(file.write)
    lines.put("before")
    assert lines.flush(LONG_S)

    file.is_full = True
    for _ in range(3):
        lines.put("lost")
    assert lines.flush(LONG_S)
    file.is_full = False
    lines.put("after")
    assert lines.flush(LONG_S)

    assert file.taken == [b"before\n", b"3 lines of this log are lost\n", b"after\n"]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    os.close(ends[0])


def test_a_reader_that_has_stopped_keeps_nobody_waiting(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    with os.fdopen(writer, "w") as stream:
        lines = Lines(Descriptor(lambda: stream).write)

        for number in range(2 * LINES_MAX):
            lines.put(f"{number} " + 1000 * ".")

        assert not lines.flush(0.01)  # It waits for the reader, and the callers have gone on.
        read = b""
        while b"are lost" not in read:
            read += os.read(reader, 1 << 20)
            lines.put("more")
        while not lines.flush(0.01):
            read += os.read(reader, 1 << 20)
    assert read.startswith(b"0 ....")


def test_a_full_file_system_and_a_closed_stream_lose_lines_and_nothing_else(
    tmp_path: Path,
) -> None:
    streams: list[TextIO | None] = [None]
    lines = Lines(Descriptor(lambda: streams[0]).write)
    with FULL.open("w") as full, (tmp_path / "log").open("w") as room:
        for stream in (full, None, room):
            streams[0] = stream
            lines.put("a line")
            assert lines.flush(LONG_S)

    assert (tmp_path / "log").read_text() == "2 lines of this log are lost\na line\n"


class Unprintable:
    @override
    def __repr__(self) -> NoReturn:
        raise RuntimeError("not even this")


def test_a_line_that_cannot_be_made_is_lost() -> None:
    ProcessLog("tests").warning("unprintable", what=Unprintable())


ENDING = """
from tierledger.storage.process_log import ProcessLog, end_at_once
ProcessLog("tests").error("the last words")
end_at_once(7)
"""


def test_a_process_that_ends_at_once_has_told_why(tmp_path: Path) -> None:
    with ExitStack() as open_files:
        err = open_files.enter_context((tmp_path / "err").open("w"))
        full = open_files.enter_context(FULL.open("w"))
        for stderr in (err, full):
            done = subprocess.run([sys.executable, "-c", ENDING], stderr=stderr, check=False)
            assert done.returncode == 7

    assert "the last words" in (tmp_path / "err").read_text()


JSON_LINES = """
from tierledger.storage.process_log import LOG, LogFormat, ProcessLog, log_as

log_as("json")
log = ProcessLog("tierledger.of.a.test")
log.warning("odd\\nevent", error="\\x1b[31m\\udc80\\n", request="0a0b", of=object)
try:
    raise ValueError("no")
except ValueError:
    log.exception("failed")
log.info("long", details="\\x00" * 100_000, request="0c")
LOG.flush(20)
LOG.lose(3)
log.debug("last")
LOG.flush(20)
"""


def test_as_json_each_line_is_an_object_whatever_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", JSON_LINES], capture_output=True, check=True)
    first, failed, long, *lost = map(json.loads, done.stderr.splitlines())

    assert list(first)[:4] == ["time", "level", "logger", "event"]
    assert first["level"] == "warning"
    assert first["logger"] == "tierledger.of.a.test"
    assert (first["event"], first["request"]) == ("odd\nevent", "0a0b")
    assert "ValueError: no" in failed["exception"]
    assert (long["event"], long["request"]) == ("long", "0c")
    assert [one["event"] for one in lost] == ["lines of this log are lost", "last"]
    assert lost[0]["lines"] == 3
