"""What works at a Spark Connect server of the installed PySpark: prints a line for each."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.models.spark.connect_server import ConnectServer
from tests.models.storage.flipped_bits import flip
from tierledger.pipeline import frames
from tierledger.pipeline.session import spark_session
from tierledger.pipeline.tables.plan import TABLES

TRACE = Path(__file__).parents[1] / "tests" / "traces" / "tier"
PROGRAM = Path(sys.executable).parent / "tierledger"


class Tried:
    """Each thing, done with the recorded tier in a folder of its own."""

    def __init__(self, master: str, folder: Path) -> None:
        """`master`: the server's address."""
        self._master = master
        self._folder = folder
        self._store = f"sqlite:{folder}/ledger.sqlite"
        self._tier = Path(shutil.copytree(TRACE / "tier", folder / "tier"))
        self._command("jobs", "import", TRACE, "--cluster", "walk")
        self._spark: SparkSession = spark_session("versions", master)

    def things(self) -> dict[str, Callable[[], object]]:
        return {
            "events": lambda: self._read("tierledger"),
            "tables": lambda: [self._table(name) for name in TABLES],
            "formats of tables": lambda: [self._read(f"tierledger.{name}") for name in TABLES],
            "in SQL": self._in_sql,
            "records": self._records,
            "damaged records": self._damaged_records,
            "command of a table": lambda: self._command(
                *("tables", "segments", "--out", self._folder / "out", "--engine", "spark")
            ),
            "coverage": lambda: self._command("jobs", "coverage", "--engine", "spark"),
            "audit": lambda: self._command(
                *("jobs", "audit", "--tier", f"local-tiered:{TRACE / 'tier'}", "--engine"),
                "spark",
            ),
            "stream of events": self._stream,
        }

    def _command(self, *words: object) -> str:
        more = ("--store", self._store, "--master", self._master, "--json")
        command = [str(one) for one in (PROGRAM, *words, *more)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return "done"

    def _read(self, kind: str) -> int:
        return self._spark.read.format(kind).option("store", self._store).load().count()

    def _table(self, name: str) -> int:
        damage = frames.Damage(self._spark)
        rows = getattr(frames, name)(self._spark, self._store, damage=damage).count()
        assert not damage.logs()
        return int(rows)

    def _in_sql(self) -> int:
        self._spark.sql(f"CREATE TABLE logged USING tierledger OPTIONS (store '{self._store}')")
        return int(self._spark.sql("SELECT count(*) FROM logged").collect()[0][0])

    def _records(self, **more: str) -> int:
        reading = self._spark.read.format("tierledger.records").options(
            store=self._store, tier=f"local-tiered:{self._tier}", topic="codec-none", **more
        )
        return reading.load().count()

    def _damaged_records(self) -> int:
        flip(min(self._tier.glob("codec-none-0-*/*.log")), -1)
        return self._records(damaged="skip")

    def _stream(self) -> int:
        out = f"{self._folder}/stream"
        stream = self._spark.readStream.format("tierledger").option("store", self._store).load()
        writer = stream.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", f"{self._folder}/checkpoint")
        writer.start(out).awaitTermination()
        return self._spark.read.parquet(out).count()


def main() -> None:
    with TemporaryDirectory() as folder, ConnectServer(Path(folder)) as server:
        print(f"PySpark {pyspark.__version__}", flush=True)
        for name, thing in Tried(server.url, Path(folder)).things().items():
            try:
                told = f"yes: {thing()}"
            except (PySparkException, RuntimeError) as error:
                ours = [one for one in str(error).splitlines() if "tierledger." in one]
                told = f"no: {(ours or [str(error)])[-1]}"
            print(f"{name:<20} {told}", flush=True)


if __name__ == "__main__":
    main()
