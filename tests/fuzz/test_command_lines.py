"""Odd command lines: every command refuses or answers, with a message, and spoils no file."""

import random
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.testing import Result

from tests.house.test_documents import document, table
from tests.models.cli.command_line import HOSTILE, invoke, orders, others, write
from tests.models.storage.stored_partitions import CLUSTER, TRACES
from tierledger.cli.whole_program import app

STATUSES = {int(row[0]) for row in table(document("docs/commands.md"), "status")}

STARTED = {
    "serve": ["--hosts", "0"],  # It starts Ray.
    "replay": ["--hosts", "0"],  # So does this, but for a store in memory.
    "console": ["--listen", "nowhere"],  # It serves until a signal.
    "simulate run": ["--world", "moon"],  # This and the others run as long as they are told.
    "simulate mutants": ["--only", "nothing"],
    "simulate slips": ["--only", "nothing"],
    "simulate coverage": ["--seeds", "6:5"],
    "simulate live": ["--fault", "nothing"],
    "simulate replay": ["--world", "moon"],
    "simulate explain": ["--mutant", "nothing"],
    "status --watch": ["--interval", "0"],
}
"""Commands that start processes or do not end soon: each is told one thing, the last, that it
has to refuse before it begins."""

NO_JAVA = "no-such-java"
"""Where Java is: what needs Spark refuses once all else is looked at."""

ODD = [
    *("", " ", "0", "-1", "1", "3", "10", "-0", "+1", "1e3", "1.5", "nan", "inf", "-inf"),
    *("0x10", str(2**31 - 1), str(2**31), str(2**63 - 1), str(2**63), "9" * 5000),
    *("-" + "9" * 5000, "\u0663", "\uff11\uff12", "\u00b2", "orders", "gone"),
    *("no such topic", HOSTILE, "orders-1", "orders--1", "-", "\0", "a\0b", "\ud800"),
    *("\udcff/x", "é" * 300, "\x1b[2J", "%s%n{}", "[bold]", "--", "--all", "20261121"),
    *("2026-11-21", "2026-11-21T12:00:00Z", "9999-12-31T23:59:59-14:00", "0001-01-01"),
    *("position:1", "position:", "ms:1", "T", "2026-02-30", "1h", "9" * 30 + "d", "1d"),
    *("90m", "memory:", "sqlite:", "sqlite:/", "sqlite:/dev/null", "sqlite:\0"),
    *("postgresql://", "ftp:x", "postgresql://127.0.0.1:1/x?connect_timeout=1"),
    *("sqlite:{store}", "sqlite:{folder}", "dir:", "dir:{folder}", "dir:/nowhere"),
    *("local-tiered:{folder}", "manifest:dir:{folder}", "s3://", "s3:///x", "gs://"),
    *("az://", "http://", "manifest:", "kafka:", ".", "..", "/nowhere/at/all", "/dev/null"),
    *("/dev/fd/999", "{folder}", "{there}", "{link}", "{loop}"),
    *("{new}", "{new}.gz", "{store}", "{trace}", "leader", "follower", "store", "moon"),
    *("csv", "parquet", "json", "raw", "read_committed", "retention.ms=1"),
    *("retention.ms=-2", "retention.ms=" + "9" * 5000, "COPY_SEGMENT_STARTED=1h"),
    *("hosts=1", "hosts=" + "9" * 50, "none", "0-9", "9-0", "0-99999999999", "5:6", "6:5"),
    "M01",
]
"""Values for an option or argument; no device that can be read without end."""


class Place(NamedTuple):
    """Where a command runs: a store, and files that it could spoil."""

    folder: Path
    store: Path

    def filled(self, argument: str) -> str:
        names = {one: str(self.folder / one) for one in ("there", "link", "loop", "new")}
        tier = TRACES / "tier" / "tier"
        values = {
            **names,
            "tier": tier,
            "folder": self.folder,
            "store": self.store,
            "trace": TRACES / "tier",
            "prices": TRACES.parents[1] / "deploy" / "prices.toml",
        }
        for name, value in values.items():
            argument = argument.replace(f"{{{name}}}", str(value))
        return argument

    def prepare(self) -> None:
        """Let the files be there, and nothing else."""
        for one in self.folder.iterdir():
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one)
            else:
                one.unlink()
        (self.folder / "there").write_text("what was there")
        (self.folder / "link").symlink_to("there")
        (self.folder / "loop").symlink_to("loop")

    def seen(self) -> dict[str, object]:
        """All files here, by name, with their content."""
        return {one.name: _content(one) for one in sorted(self.folder.iterdir())}


def _content(path: Path) -> object:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return path.readlink()
    return path.read_bytes() if stat.S_ISREG(mode) else stat.S_IFMT(mode)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    store = tmp_path / "stores" / "store.sqlite"
    store.parent.mkdir()
    write(store, orders, others)
    found = Place(tmp_path / "files", store)
    found.folder.mkdir()
    monkeypatch.chdir(found.folder)
    monkeypatch.setenv("JAVA_HOME", NO_JAVA)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIERLEDGER_STORE", f"sqlite:{store}")
    before = {one: Path(one).stat().st_mode for one in ("/dev/null", "/dev/full")}
    yield found
    assert {one: Path(one).stat().st_mode for one in before} == before


def drawn(source: random.Random, command: Any) -> list[str]:  # noqa: ANN401 - Typer's.
    """Arguments for `command`: what it has to have, mostly, and some of what it may have."""
    arguments: list[str] = []
    oddness = source.choice([0.02, 0.1, 0.5])
    for parameter in command.params:
        is_needed = parameter.required or parameter.name == "overwrite"
        if source.random() > (0.95 if is_needed else 0.2):
            continue
        is_odd = source.random() < oddness
        value = source.choice(ODD if is_odd else GOOD.get(parameter.name, ODD))
        if parameter.param_type_name == "argument":
            arguments.append(value)
        elif parameter.is_flag:
            arguments.append(source.choice(parameter.opts))
        else:
            arguments += [source.choice(parameter.opts), value]
    return arguments


GOOD: dict[str, list[str]] = {
    "topic": ["orders", "orders", "orders", "gone"],
    "partition": ["1", "1", "1", "0"],
    "epoch": ["0", "1"],
    "offset": ["5", "0"],
    "tier": ["dir:{folder}", "local-tiered:{folder}", "local-tiered:{tier}"],
    "store": ["sqlite:{store}"],
    "cluster": [CLUSTER],
    "out": ["{new}", "{there}", "{link}", "-", "/dev/full"],
    "page": ["{new}", "{there}", "{link}", "-", "/dev/full"],
    "report": ["{new}", "{there}"],
    "history": ["{there}", "{new}"],
    "trace": ["{there}", "{new}"],
    "what_if": ["retention.ms=1", "retention.bytes=-1"],
    "source": ["store", "{trace}"],
    "traces": ["{trace}"],
    "cache": ["{folder}"],
    "as_of": ["5", "2026-11-21T12:00:00Z"],
    "now": ["2026-11-21T12:00:00Z"],
    "format": ["csv", "parquet", "json", "raw"],
    "from_timestamp": ["0", "2026-11-21"],
    "from_offset": ["0", "5"],
    "to_offset": ["9"],
    "older_than": ["1d"],
    "listing": ["{there}", "{folder}"],
    "local": ["{there}"],
    "prices": ["{there}", "{prices}"],
    "labels": ["{there}"],
    "by": ["topic", "class"],
    "keep": ["0-9"],
    "shape": ["hosts=1"],
    "seed": ["1"],
}
"""Values that bring a command beyond its first look."""


def check(place: Place, args: list[str], before: dict[str, object], result: Result) -> None:
    context = f"{args!r:.2000}\n{result.output[-2000:]}"
    assert result.exception is None or isinstance(result.exception, SystemExit), (
        f"{result.exception!r:.500} of {context}"
    )
    assert result.exit_code in STATUSES, context
    for not_ours in ("Traceback", "Input should", "[Errno", "ValueError", "Error("):
        assert not_ours not in result.output, context
    if result.exit_code == 2:
        assert result.stderr.strip(), context
    assert "\x1b" not in result.stderr, context
    after = place.seen()
    changed = {name for name in before if after.get(name) != before[name]}
    assert changed <= ({"there"} if "--overwrite" in args else set()), f"{changed} by {context}"
    assert not [name for name in after if name.endswith(".unfinished")], context


def test_odd_command_lines_are_refused_or_answered(
    draws: Iterator[random.Random], place: Place
) -> None:
    known = dict(all_commands(typer.main.get_command(app)))
    assert {kind.removesuffix(" --watch") for kind in STARTED} <= set(known)
    for source in draws:
        name = source.choice(list(known))
        arguments = [*name.split(), *map(place.filled, drawn(source, known[name]))]
        kind = f"{name} --watch" if "--watch" in arguments else name
        if kind in STARTED:
            # Behind `--` there are no options any more, and what comes last holds.
            arguments = [one for one in arguments if one != "--"] + STARTED[kind]
        place.prepare()
        before = place.seen()

        result = invoke(*arguments)

        check(place, arguments, before, result)


def all_commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from all_commands(found, f"{before}{name} ")
        else:
            yield before + name, found
