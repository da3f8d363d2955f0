"""docs/pipeline.md lists what the source has."""

import re
from pathlib import Path

from tierledger.pipeline.log_ranges import ROWS_PER_TASK
from tierledger.pipeline.source.options import OPTIONS
from tierledger.pipeline.source.schema import EVENT_SCHEMA

TEXT = (Path(__file__).parents[3] / "docs" / "pipeline.md").read_text(encoding="utf-8")


def table(head: str) -> list[list[str]]:
    """Cells of the table whose first column is called so."""
    found = re.search(rf"^\| {head} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert found is not None
    rows = found[1].splitlines()
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in rows]


def test_every_column_is_listed_with_its_type_and_whether_it_may_be_null() -> None:
    documented = [tuple(row[:3]) for row in table("column")]

    assert documented == [
        (field.name, field.dataType.simpleString(), "yes" if field.nullable else "no")
        for field in EVENT_SCHEMA
    ]


def test_every_option_is_listed() -> None:
    assert [row[0] for row in table("option")] == list(OPTIONS)
    assert f"{ROWS_PER_TASK} if absent" in TEXT
