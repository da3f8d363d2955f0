"""Files that commands write: whole or not there, never in place of something else unasked."""

import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.models.cli.command_line import invoke, orders, refused, run, write
from tests.models.storage.stored_partitions import TRACES
from tierledger.cli.complete_file import complete_file, require_place
from tierledger.conformance.trace import answers_path
from tierledger.events.errors import InvalidArgument

BEFORE = b"what was there before"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "store.sqlite"
    write(path, orders)
    return path


def export(store: Path, out: object, *more: str) -> subprocess.CompletedProcess[bytes]:
    """`export` in a process of its own: it has descriptors of its own."""
    arguments = ["export", str(out), "--store", f"sqlite:{store}", *more]
    command = [sys.executable, "-m", "tierledger.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, check=False, timeout=60)


def offsets(lines: bytes) -> int:
    return len([json.loads(line) for line in lines.splitlines()])


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
def test_standard_output_gets_the_file_and_nothing_else(
    name: str, store: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.symlink_to(name)  # A link, so that what replaces it replaces no device.

    done = export(store, "-" if name == "-" else out, "--json")

    assert done.returncode == 0, done.stderr
    assert offsets(done.stdout) > 20
    assert json.loads(done.stderr)["records"] == offsets(done.stdout)
    assert out.is_symlink()


def test_an_open_file_is_written_from_where_it_stands(store: Path, tmp_path: Path) -> None:
    script = f"{sys.executable} -m tierledger.cli.main export /dev/fd/3 --store sqlite:{store}"

    done = subprocess.run(
        ["sh", "-c", f"(echo begin >&3; {script} >&2; echo end >&3) 3>{tmp_path / 'out'}"],
        capture_output=True,
        check=True,
        timeout=60,
    )

    first, *lines, last = (tmp_path / "out").read_bytes().splitlines()
    assert (first, last) == (b"begin", b"end")
    assert f"{len(lines)} records in /dev/fd/3".encode() in done.stderr


def test_a_device_that_takes_nothing_is_named_and_stays(store: Path, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.symlink_to("/dev/full")

    done = export(store, full)

    assert done.returncode != 0
    assert done.stderr.decode() == f"error: {full}: No space left on device\n"
    assert [one.name for one in tmp_path.iterdir()] == ["full"]
    assert stat.S_ISCHR(full.stat().st_mode)


def test_a_full_output_is_told_once_by_a_command_that_prints_a_table(store: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tierledger.cli.main", "ls", "--store", f"sqlite:{store}"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.stderr == "error: standard output: No space left on device\n"
    assert done.returncode == 4


def test_a_pipe_is_written_through_and_stays(store: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()

    result = run(store, "export", pipe)
    reader.join(30)

    assert result.exit_code == 0, result.output
    assert offsets(read[0]) > 20
    assert pipe.is_fifo()


def test_a_link_is_followed_and_stays(store: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target.gz", tmp_path / "link.gz"
    link.symlink_to(target)

    assert run(store, "export", link).exit_code == 0
    assert link.is_symlink()
    assert offsets(gzip.decompress(target.read_bytes())) > 20
    assert run(store, "export", link).exit_code == 2


def test_what_is_there_is_replaced_only_if_asked(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(BEFORE)
    out.chmod(0o640)

    refused(run(store, "export", out), f"cannot write {out}: it is there already")
    assert out.read_bytes() == BEFORE

    assert run(store, "export", out, "--overwrite").exit_code == 0
    assert offsets(out.read_bytes()) > 20
    assert stat.S_IMODE(out.stat().st_mode) == 0o640


PAGE = "page.html"
PRICES = str(Path(__file__).parents[2] / "deploy" / "prices.toml")
REPLAY = ["replay", str(TRACES / "tier"), "--store", "memory:"]
ANSWERS = [*REPLAY, "--answer", str(answers_path(TRACES / "tier")), "--from", "all"]
WRITERS: dict[str, list[str]] = {
    "report": [*REPLAY, "--report", PAGE],
    "answers": [*ANSWERS, "--out", "page.jsonl"],
    "history": ["simulate", "replay", "--seed", "1", "--history", PAGE],
    "trace": ["simulate", "replay", "--seed", "1", "--trace", PAGE],
    "explain": ["simulate", "explain", "--seed", "1", "--out", PAGE],
    "live": ["simulate", "live", "--fault", "nothing", "--history", PAGE],
    "coverage": ["jobs", "coverage", "--page", PAGE],
    "audit": ["jobs", "audit", "--tier", "dir:/", "--page", PAGE],
    "costs": ["jobs", "costs", "--prices", PRICES, "--page", PAGE],
    "stuck": ["jobs", "stuck", "--page", PAGE],
    "retention": ["jobs", "retention", "--what-if", "retention.ms=1", "--page", PAGE],
}
"""Each command that writes a file, but for `export`."""


@pytest.mark.parametrize("what", WRITERS)
def test_every_command_refuses_what_is_there(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    there = Path("page.follower.jsonl" if what == "answers" else PAGE)
    there.write_bytes(BEFORE)

    refused(invoke(*WRITERS[what]), f"cannot write {there}: it is there already")
    assert there.read_bytes() == BEFORE
    assert list(tmp_path.iterdir()) == [tmp_path / there]


@pytest.mark.parametrize("what", ["trace", "history", "explain", "report"])
def test_every_command_writes_to_standard_output(what: str, tmp_path: Path) -> None:
    result = invoke(*("-" if one == PAGE else one for one in WRITERS[what]))

    assert result.exit_code == 0, result.output
    assert "violations" in result.stderr or what == "report"
    assert "violations\n" not in result.stdout
    assert len(result.stdout) > 2000


def test_one_file_is_not_written_twice(tmp_path: Path) -> None:
    arguments = ["replay", "--seed", "1", "--trace", "-", "--history", "/dev/stdout"]

    refused(invoke("simulate", *arguments), "expected different files")


def test_two_that_write_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "out"

    def write_twice() -> None:
        with complete_file(path) as first:
            first.write(b"first")
            with complete_file(path) as second:
                second.write(b"second")

    with pytest.raises(InvalidArgument, match="it is there already"):
        write_twice()

    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_rights_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with complete_file(tmp_path / "out") as file:
            file.write(b"x")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_a_block_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(BEFORE)

    def write_half() -> None:
        with complete_file(path, overwrite=True) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()

    assert path.read_bytes() == BEFORE
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "it is a folder"),
        ("no/such", "no is no folder"),
        ("a\0b", "no file has that name"),
        ("\ud800", "no file has that name|cannot write"),
        ("n" * 300, "name too long"),
        ("/dev/fd/977", "Bad file descriptor"),
        ("loop", "symbolic links"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")

    with pytest.raises(InvalidArgument, match=f"(?i)cannot write .*({message})"):
        require_place(Path(name))


WRITER = """
import sys, time
from pathlib import Path
from tierledger.cli.complete_file import complete_file
with complete_file(Path(sys.argv[1]), overwrite=True) as file:
    file.write(b"half")
    print("writing", flush=True)
    while True:
        time.sleep(0.01)  # A signal just before a sleep is seen only after it.
"""


@pytest.mark.parametrize("name", ["out.jsonl", "page.html.gz"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_writer_that_is_ended_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, name: str
) -> None:
    arguments = [sys.executable, "-c", WRITER, str(tmp_path / name)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        assert len(list(tmp_path.iterdir())) == 1
        writer.send_signal(number)
        status = writer.wait(timeout=30)

    assert list(tmp_path.iterdir()) == []
    assert status == (143 if number == signal.SIGTERM else -signal.SIGINT)
