"""The walks: every snippet runs, in order, and prints what stands below it."""

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.models.cli.command_line import invoke

ROOT = Path(__file__).parents[2]
WALKS = ["spark.md", "notebook.md"]
SNIPPET = re.compile(r"(?ms)^```python\n(.*?)^```\n(?:\n^```\n(.*?)^```$)?")
COMMANDS = re.compile(r"(?ms)^```\n(tierledger .*?)^```$")


class Snippet(NamedTuple):
    """A piece of the walk, and what it prints."""

    code: str
    printed: str


def text_of(walk: str) -> str:
    return (ROOT / "docs" / walk).read_text(encoding="utf-8")


def snippets(walk: str) -> list[Snippet]:
    found = SNIPPET.findall(text_of(walk))
    return [Snippet(*one) for one in found]


def run(code: str, names: dict[str, Any]) -> str:
    """The output of `code` without trailing spaces and empty lines."""
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "snippet", "exec"), names)  # noqa: S102 - That is the test.
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store and its tier, made as each of the documents says."""
    (commands,) = {found[1] for one in WALKS if (found := COMMANDS.search(text_of(one)))}
    imported, linked = (shlex.split(line) for line in commands.splitlines())
    folder = tmp_path_factory.mktemp("walk")
    (folder / "tests").symlink_to(ROOT / "tests")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert imported[0] == "tierledger"
        result = invoke(*(part.replace("$PWD", str(folder)) for part in imported[1:]))
        assert result.exit_code == 0, result.output
        assert linked[:2] == ["ln", "-s"]
        Path(linked[3]).symlink_to(linked[2])
    return folder


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_prints_what_it_says(
    walk: str, spark: SparkSession, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    names: dict[str, Any] = {}

    outputs = [(one.code, run(one.code, names)) for one in snippets(walk)]

    assert outputs == [tuple(one) for one in snippets(walk)]
    assert len(outputs) >= 8
    assert names["spark"] is spark
