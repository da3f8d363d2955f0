"""docs/tables.md lists every column of every table, as it is."""

from pathlib import Path

import pytest

from tierledger.pipeline.table_columns import IDENTITY, Column
from tierledger.pipeline.tables.anomalies import AnomalyKind
from tierledger.pipeline.tables.plan import TABLES

TEXT = (Path(__file__).parents[3] / "docs" / "tables.md").read_text(encoding="utf-8")
TOGETHER = "What every row begins with"


def listed(heading: str) -> list[str]:
    """The lines of the first table under a heading, without its head."""
    _, _, section = TEXT.partition(f"\n## {heading}")
    section = section.partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| `")]


def line_of(column: Column) -> str:
    null = "yes" if column.is_nullable else "no"
    return f"| `{column.name}` | `{column.type}` | {null} | {column.about} |"


@pytest.mark.parametrize("name", TABLES)
def test_a_tables_columns_are_listed_as_they_are(name: str) -> None:
    columns = listed(f"`{name}`: {TABLES[name].about}\n")[: len(TABLES[name].columns)]

    assert columns == [line_of(column) for column in TABLES[name].columns]


def test_what_tables_share_is_listed_once() -> None:
    assert listed(TOGETHER) == [line_of(column) for column in IDENTITY]


def test_every_kind_of_anomaly_is_explained() -> None:
    told = {
        line.split("`")[1] for line in listed("`anomalies`")[len(TABLES["anomalies"].columns) :]
    }

    assert told == {str(kind) for kind in AnomalyKind}
