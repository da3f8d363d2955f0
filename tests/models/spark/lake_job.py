"""The program of docs/lake.md in a process that may be killed, in the present folder.

python -m tests.models.spark.lake_job stops: waits for a line before and behind each merge
python -m tests.models.spark.lake_job ends: merges twice, the second time without a checkpoint
"""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from tierledger.pipeline import lake

ROOT = Path(__file__).parents[3]
JARS = ROOT / ".venv" / "delta"
TABLE, CHECKPOINT, FOUND = "events", "events-checkpoint", "found"
"""What the program makes, and the table as plain Parquet."""

CONNECTOR = re.compile(r'"spark.jars.packages": "io.delta:(delta-spark_[\d.]+_[\d.]+:[\d.]+)",')
SETTINGS = {
    "spark.jars": ",".join(map(str, sorted(JARS.glob("*.jar")))),
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.log.level": "OFF",
}
ROWS = "100"
"""Rows of a micro-batch, so that there are several."""

Merge = Callable[[DataFrame, int], None]


def program() -> str:
    """The page's program, with the connector that is here, and small micro-batches."""
    text = (ROOT / "docs" / "lake.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
    named = CONNECTOR.search(code)
    assert named is not None
    jar = named[1].replace(":", "-") + ".jar"
    assert (JARS / jar).exists(), f"scripts/setup.sh --with-delta fetches {jar}"
    assert "100_000" in code
    return CONNECTOR.sub(f"**{SETTINGS!r},", code).replace("100_000", ROWS)


def stopping(merging: Callable[[str], Merge]) -> Callable[[str], Merge]:
    """`merging_into`, whose merges wait for the parent process at both ends."""

    def into(table: str) -> Merge:
        merge = merging(table)

        def stopped(batch: DataFrame, number: int) -> None:
            _wait("before")
            merge(batch, number)
            _wait("behind")

        return stopped

    return into


def _wait(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    sys.stdin.readline()


def main(mode: str) -> None:
    if mode == "stops":
        lake.merging_into = stopping(lake.merging_into)  # type: ignore[assignment]
    names: dict[str, Any] = {}
    exec(compile(program(), "docs/lake.md", "exec"), names)  # noqa: S102 - That is the test.
    names["bring_up_to_date"]()
    if mode == "ends":
        shutil.rmtree(CHECKPOINT)
        names["bring_up_to_date"]()
        place = Path.cwd()
        table = names["spark"].read.format("delta").load(str(place / TABLE))
        table.write.parquet(str(place / FOUND))


if __name__ == "__main__":
    main(*sys.argv[1:])
