"""A driver on a cluster: counts a store's events, then runs the command `tables segments`.

python -m tests.models.spark.cluster_job MASTER STORE OUT
"""

import sys

from tierledger.cli.whole_program import app
from tierledger.pipeline.session import spark_session


def main(master: str, store: str, out: str) -> None:
    spark = spark_session("cluster", master)
    reading = spark.read.format("tierledger").options(store=store, rows_per_task="20")
    sys.stdout.write(f"{reading.load().count()} events\n")
    app(["tables", "segments", "--master", master, "--store", store, "--out", out])


if __name__ == "__main__":
    main(*sys.argv[1:])
