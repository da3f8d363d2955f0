"""A Spark session, once it is certain that Spark can work here.

What Spark says when Java is missing or pandas is too new does not name the cause; so we look
before it starts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

JAVA_OLDEST = 17
PANDAS_TOO_NEW = 3

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""What a session of ours is set to, unless the user says otherwise."""

ON_LOOPBACK = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""And that, where no other machine takes part."""

JAVA_TIMEOUT_S = 60


def spark_session(
    app: str, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """The process's Spark session; made if there is none yet.

    Args:
        app: What the session is called, where somebody looks for it.
        master: Where Spark runs: `local[*]`, all cores of this machine, if nobody says.
        config: Spark's settings, beyond `DEFAULTS` or in place of them.

    Raises:
        InvalidArgument: Java or pandas is missing, or of a version that does not work.
    """
    check_java()
    check_pandas()
    # Imported here: it is what needs all that was just checked.
    from pyspark.sql import SparkSession  # noqa: PLC0415

    # Where nobody names it, Spark starts whatever `python3` is; ours has what tasks import.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    where = master or "local[*]"
    settings = {**DEFAULTS, **(ON_LOOPBACK if where.startswith("local") else {})}
    builder = SparkSession.builder.appName(app).master(where)
    for name, value in {**settings, **(config or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_java() -> None:
    """Refuse a machine without a Java that Spark runs on.

    Raises:
        InvalidArgument: There is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if program is None:
        raise InvalidArgument(
            f"Spark needs Java {JAVA_OLDEST} or newer: no java in PATH, and no JAVA_HOME"
        )
    try:
        said = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=JAVA_TIMEOUT_S,
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise InvalidArgument(
            f"Spark needs Java {JAVA_OLDEST} or newer, and {program} does not run: {error}"
        ) from error
    found = java_version(said)
    if found is None or found < JAVA_OLDEST:
        raise InvalidArgument(
            f"Spark needs Java {JAVA_OLDEST} or newer, and {program} is "
            f"{'of an unknown version' if found is None else f'Java {found}'}"
        )


def java_version(said: str) -> int | None:
    """The major version in what `java -version` says; none if it says something else."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return None if found is None else int(found[1])


def check_pandas() -> None:
    """Refuse a pandas that this Spark does not work with.

    Raises:
        InvalidArgument: There is none, or it is too new.
    """
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        found = version("pandas")
    except PackageNotFoundError as error:
        raise InvalidArgument(
            f"Spark needs pandas below {PANDAS_TOO_NEW}, and none is installed"
        ) from error
    if int(found.partition(".")[0]) >= PANDAS_TOO_NEW:
        raise InvalidArgument(
            f"Spark needs pandas below {PANDAS_TOO_NEW}, and {found} is installed"
        )
