"""docs/spark.md: every snippet runs, in order, and prints what stands below it."""

import asyncio
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.models.spark.tier import import_metadata
from tests.models.tiering import tier_trace

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"
SNIPPET = re.compile(r"(?ms)^```python\n(.*?)^```\n(?:\n^```\n(.*?)^```$)?")


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


def test_the_walk_prints_what_it_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(import_metadata(f"sqlite:{tmp_path / 'ledger.sqlite'}"))
    (tmp_path / "tier").symlink_to(tier_trace.TREE)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}

    outputs = [(one.code, run(one.code, names)) for one in snippets()]

    assert outputs == [tuple(one) for one in snippets()]
    assert len(outputs) >= 9
    assert names["spark"] is spark
