"""An archive of the classes that Spark loads: with it, Spark's Java starts in half the time.

`python -m tests.models.spark.class_archive` makes it, which `scripts/setup.sh` does once.
"""

import os
import subprocess
import sys
from pathlib import Path

from pyspark import SparkContext

from tierledger.pipeline.session import spark_session
from tierledger.simulation.live.server import QUICK_JAVA

ARCHIVE = Path(__file__).parents[3] / ".venv" / "spark.jsa"
SILENTLY = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Java says of each class that an archive does not take that it does not."""
TIMEOUT_S = 300


def quick_java() -> str:
    """Options for a Java that starts quickly. One with other jars does without the archive."""
    archived = [f"-XX:SharedArchiveFile={ARCHIVE}", *SILENTLY] if ARCHIVE.exists() else []
    return " ".join([*QUICK_JAVA, *archived])


def _made(file: Path) -> None:
    """Let a Java in a process of its own write the classes of some work to `file`."""
    options = [*QUICK_JAVA, f"-XX:ArchiveClassesAtExit={file}", *SILENTLY]
    subprocess.run(
        [sys.executable, "-m", __spec__.name, "work"],
        env={**os.environ, "SPARK_SUBMIT_OPTS": " ".join(options)},
        stdout=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=True,
    )


def _work() -> None:
    spark = spark_session("classes", "local[2]", {"spark.sql.shuffle.partitions": "2"})
    java = SparkContext._gateway.proc  # type: ignore[union-attr]
    rows = spark.range(1000).selectExpr("id", "id % 7 AS k", "CAST(id AS STRING) AS text")
    rows.groupBy("k").count().orderBy("k").collect()
    rows.mapInArrow(lambda batches: batches, rows.schema).collect()
    spark.stop()
    assert java.stdin is not None, "its end is what Java waits for"
    java.stdin.close()
    java.wait(TIMEOUT_S)


def main(argv: list[str]) -> None:
    if argv == ["work"]:
        _work()
    elif not ARCHIVE.exists():
        part = ARCHIVE.with_suffix(".part")
        part.unlink(missing_ok=True)
        _made(part)
        part.replace(ARCHIVE)


if __name__ == "__main__":
    main(sys.argv[1:])
