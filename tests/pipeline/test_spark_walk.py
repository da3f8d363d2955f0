"""docs/spark.md: every snippet runs, in order, and prints what stands below it."""

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.models.cli.command_line import invoke

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"
SNIPPET = re.compile(r"(?ms)^```python\n(.*?)^```\n(?:\n^```\n(.*?)^```$)?")
COMMANDS = re.compile(r"(?ms)^```\n(tierledger .*?)^```$")


class Snippet(NamedTuple):
    """A piece of the walk, and what it prints."""

    code: str
    printed: str


def snippets() -> list[Snippet]:
    found = SNIPPET.findall(DOCUMENT.read_text(encoding="utf-8"))
    return [Snippet(*one) for one in found]


def run(code: str, names: dict[str, Any]) -> str:
    """The output of `code` without trailing spaces and empty lines."""
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, str(DOCUMENT), "exec"), names)  # noqa: S102 - That is the test.
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


def make_store() -> None:
    """Make the store and its tier as the document says, in this folder."""
    found = COMMANDS.search(DOCUMENT.read_text(encoding="utf-8"))
    assert found is not None
    imported, linked = (shlex.split(line) for line in found[1].splitlines())
    assert imported[0] == "tierledger"
    result = invoke(*(part.replace("$PWD", str(Path.cwd())) for part in imported[1:]))
    assert result.exit_code == 0, result.output
    assert linked[:2] == ["ln", "-s"]
    Path(linked[3]).symlink_to(linked[2])


def test_the_walk_prints_what_it_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").symlink_to(DOCUMENT.parents[1] / "tests")
    monkeypatch.chdir(tmp_path)
    make_store()
    names: dict[str, Any] = {}

    outputs = [(one.code, run(one.code, names)) for one in snippets()]

    assert outputs == [tuple(one) for one in snippets()]
    assert len(outputs) >= 9
    assert names["spark"] is spark
