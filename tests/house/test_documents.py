"""The documents match the program: links, diagrams, names, defaults, examples."""

import asyncio
import importlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import typer

from tierledger.actors import host_settings
from tierledger.actors.door.security import settings as security
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.actors.host_settings import ServiceSettings, limits_of
from tierledger.actors.local_service import LocalService
from tierledger.actors.wall_clock import WallClock
from tierledger.cli import settings
from tierledger.cli.whole_program import app
from tierledger.events.lifecycle import PARTITION_DELETE_TRANSITIONS, diagram
from tierledger.pipeline.column_files.locate import BESIDE
from tierledger.storage import connector, keys
from tierledger.storage.connector import URL_SETTING
from tierledger.storage.locate import DEFAULT_CLUSTER, default_store_url

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
EVERYWHERE = {"--store", "--cluster", "--help"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
MODULE = re.compile(r"`((?:events|storage|tiering|actors|simulation|cli|tests)/[\w/.*-]+)`")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def document(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def blocks(text: str, language: str = "") -> list[str]:
    """The contents of the fenced blocks of a language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for kind, block in found if kind == language]


def table(text: str, first_column: str) -> list[list[str]]:
    """The rows of the table whose first column is called so, without backticks."""
    head = rf"^\| {first_column} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)"
    found = re.search(head, text, re.MULTILINE)
    assert found is not None, f"no table of {first_column}"
    return [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in found[1].splitlines()
    ]


def sections_of(text: str) -> dict[str, str]:
    """The text below each heading of the third level, by the heading."""
    found = re.split(r"^### (.+)$", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def anchors(text: str) -> set[str]:
    headings = (re.sub(r"[^\w\- ]", "", one.lower()) for one in HEADING.findall(text))
    return {one.strip().replace(" ", "-") for one in headings}


def commands() -> dict[str, set[str]]:
    """Each command of the program and of its groups, with the options that it shows."""
    each = dict(commands_of(typer.main.get_command(app)))
    # `spark` is a former name: tests/cli/test_help.py compares it with the present ones.
    return {name: options for name, options in each.items() if not name.startswith("spark ")}


def commands_of(
    group: Any,  # noqa: ANN401 - Typer brings its own kind of group along.
    before: str = "",
) -> Iterator[tuple[str, set[str]]]:
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from commands_of(found, f"{before}{name} ")
        else:
            yield (
                before + name,
                {
                    opt
                    for parameter in found.params
                    if parameter.param_type_name == "option"
                    and not getattr(parameter, "hidden", False)
                    for opt in parameter.opts
                },
            )


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_link_leads_to_something_that_is_there(path: Path) -> None:
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        linked = (path.parent / target) if target else path

        assert "://" in link or linked.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(linked.read_text(encoding="utf-8")), f"no heading {link}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_module_that_is_named_is_there(path: Path) -> None:
    named = MODULE.findall(path.read_text(encoding="utf-8"))

    missing = [one for one in named if not list(ROOT.glob(one))]

    assert not missing


def test_the_lifecycles_are_those_of_the_tables() -> None:
    drawn = blocks(document("docs/architecture.md"), "mermaid")

    assert drawn == [diagram(), diagram(PARTITION_DELETE_TRANSITIONS)]


def test_the_stored_keys_are_those_that_are_made() -> None:
    text = blocks(document("docs/architecture.md"), "text")[-1]
    documented = [line.split() for line in text.splitlines()]

    assert keys.__doc__ is not None
    made = [line.split() for line in keys.__doc__.splitlines()]

    assert all(line in made for line in documented)
    assert len(documented) == sum(line.startswith("    ") for line in keys.__doc__.splitlines())


def test_every_decision_is_listed_under_its_number_and_title() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    titles = [path.read_text(encoding="utf-8").splitlines()[0] for path in decisions]

    listed = re.findall(
        r"^- \[(\d{4})\]\(adr/([\w-]+\.md)\) (.+)$",
        document("docs/architecture.md"),
        re.MULTILINE,
    )

    assert [f"# {number}: {title}" for number, _, title in listed] == titles
    assert [file for _, file, _ in listed] == [path.name for path in decisions]


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "adr").glob("*.md")), ids=name)
def test_a_decision_has_a_date_and_four_parts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert re.search(r"^Date: \d{4}-\d\d-\d\d\.$", text, re.MULTILINE)
    assert HEADING.findall(text)[1:] == ["Context", "Decision", "Considered", "Consequences"]


def test_every_command_is_described_with_its_options() -> None:
    described = {
        command: set(re.findall(r"--[\w-]+", options))
        for command, _, options in table(document("docs/commands.md"), "command")
    }

    assert described == {one: options - EVERYWHERE for one, options in commands().items()}


BEGINS = {"": ("tierledger ", "$ tierledger "), "console": ("$ tierledger ",)}
"""Of the lines that are commands, by the kind of block."""

SHOWN = {
    line.removeprefix("$ ")
    for path in DOCUMENTS
    for language, begins in BEGINS.items()
    for block in blocks(path.read_text(encoding="utf-8"), language)
    for line in block.replace("\\\n", "").splitlines()
    if line.startswith(begins)
}


@pytest.mark.parametrize("line", sorted(SHOWN))
def test_the_commands_that_are_shown_exist(line: str) -> None:
    known = commands()
    _, command, *arguments = line.split()
    if arguments and f"{command} {arguments[0]}" in known:
        command = f"{command} {arguments[0]}"

    assert command in known
    assert set(re.findall(r"--[\w-]+", line)) <= known[command] | EVERYWHERE


def test_the_readmes_targets_are_makes() -> None:
    targets = set(re.findall(r"^([\w-]+):", document("Makefile"), re.MULTILINE))

    named = set(re.findall(r"^`?make ([\w-]+)", document("README.md"), re.MULTILINE))

    assert {"demo", "test"} <= named <= targets


def test_the_settings_of_the_command_are_those_it_reads() -> None:
    rows = {row[0]: row[1:] for row in table(document("docs/settings.md"), "option")}

    assert rows["--store"][0] == settings.STORE_VARIABLE
    assert rows["--cluster"][0] == settings.CLUSTER_VARIABLE
    assert rows["--columns"][0] == settings.COLUMNS_VARIABLE
    assert f"FILE{BESIDE}" in rows["--columns"][1]
    doors = table(document("docs/settings.md"), r"file \| as a client.s setting")
    assert dict(doors) == settings.DOOR_VARIABLES
    path = default_store_url().path
    assert path is not None
    assert path.name in rows["--store"][1]
    assert f"`{DEFAULT_CLUSTER}`" in rows["--cluster"][1]


def test_the_settings_of_a_client_are_those_it_reads() -> None:
    named = [row[0] for row in table(document("docs/settings.md"), "setting")]

    assert named == [
        "cluster.id",
        "broker.id",
        connector.URL_SETTING,
        connector.CONNECTOR_SETTING,
        connector.SERIALIZER_SETTING,
        security.CA_KEY,
        security.CERTIFICATE_KEY,
        security.KEY_KEY,
        security.TOKEN_KEY,
        security.PLAINTEXT_KEY,
    ]
    assert f"`{connector.PREFIX}`" in document("docs/settings.md")


def test_the_defaults_of_leaders_are_those_they_take() -> None:
    text = document("docs/settings.md").split("## Of leaders", 1)[1]
    documented = {row[0]: row[1] for row in table(text, "setting")}

    assert set(documented) == {host_settings.CUSTOM_METADATA_KEY, host_settings.TOMBSTONE_KEY}
    assert limits_of(documented) == limits_of({})


def test_rays_environment_is_what_is_set() -> None:
    source = document("actors/ray/cluster.py")
    is_set = re.findall(r'^os\.environ\.setdefault\("(\w+)", "(\w+)"\)', source, re.MULTILINE)

    documented = [tuple(row[:2]) for row in table(document("docs/settings.md"), "variable")]

    assert sorted(documented) == sorted(is_set)


@pytest.mark.parametrize("row", table(document("docs/settings.md"), "module"), ids=" ".join)
def test_a_bound_has_the_value_that_is_said(row: list[str]) -> None:
    module, constant, value, _ = row

    found = getattr(importlib.import_module(f"tierledger.{module}"), constant)

    assert found == float(value)


@pytest.fixture
def hosts() -> Iterator[str]:
    """The doors of a service in memory, which runs on a thread of its own."""
    memory = ServiceSettings("my-cluster", {URL_SETTING: "memory:"})
    started: Future[str] = Future()

    async def serve() -> None:
        service = LocalService(memory, WallClock(), door=DoorSettings("127.0.0.1:0"))
        await service.start()
        started.set_result(await service.url())
        await asyncio.to_thread(stop.wait)
        await service.close()

    stop = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        served = thread.submit(asyncio.run, serve())
        try:
            yield started.result(60)
        finally:
            stop.set()
            served.result(60)


def test_the_readmes_example_does_what_it_says(
    hosts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = blocks(document("README.md"), "python")
    documented = re.findall(r"^ *# (.+)$", example, re.MULTILINE)
    runs = example.replace("tierledger://127.0.0.1:4711", hosts)
    assert runs != example

    for _ in range(2):  # A reader tries it more than once.
        exec(compile(runs, "README.md", "exec"), {})  # noqa: S102 - Ours.

        # The service logs on the same output.
        assert capsys.readouterr().out.splitlines()[-len(documented) :] == documented


def test_the_readmes_example_has_the_types_that_a_strict_program_needs(
    tmp_path: Path,
) -> None:
    (example,) = blocks(document("README.md"), "python")
    program = tmp_path / "program.py"
    program.write_text(example)
    mypy = [sys.executable, "-m", "mypy", "--strict"]
    done = subprocess.run(
        [*mypy, "--cache-dir", ROOT / ".mypy_cache" / "programs", program],
        cwd=tmp_path,  # A user's, who has no settings of ours.
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
