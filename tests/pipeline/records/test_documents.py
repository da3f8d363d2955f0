"""docs/records.md lists what the format has."""

from pathlib import Path

from tierledger.pipeline.records.options import OPTIONS
from tierledger.pipeline.records.source import SCHEMA_WITH_DAMAGE

TEXT = (Path(__file__).parents[3] / "docs" / "records.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| `")
]


def test_every_column_is_listed_with_its_type_and_whether_it_may_be_null() -> None:
    assert [row[:3] for row in ROWS if len(row) == 4] == [
        [f"`{field.name}`", field.dataType.simpleString(), "yes" if field.nullable else "no"]
        for field in SCHEMA_WITH_DAMAGE
    ]


def test_every_option_is_listed_with_its_meaning() -> None:
    listed = {row[0]: row[1] for row in ROWS if len(row) == 2}

    assert listed == {f"`{name}`": meaning for name, meaning in OPTIONS.items()}
