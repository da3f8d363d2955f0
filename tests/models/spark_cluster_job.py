"""A driver on a cluster: counts a store's events and its segments.

python -m tests.models.spark_cluster_job MASTER STORE
"""

import json
import sys

from tierledger.pipeline.session import spark_session
from tierledger.pipeline.tables import frames as tables


def main(master: str, store: str) -> None:
    spark = spark_session("cluster", master)
    reading = spark.read.format("tierledger").options(store=store, rows_per_task="20")
    found = {
        "events": reading.load().count(),
        "segments": tables.segments(spark, store).count(),
    }
    spark.stop()
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
