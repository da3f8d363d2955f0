"""A Spark session, after checks that Spark can work here.

Spark's own errors do not name the cause if Java is missing or pandas is too new. So both are
checked before Spark starts. A master `sc://HOST` is a Spark Connect server: Spark runs there,
and this process needs no Java.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tierledger.events import errors
from tierledger.events.errors import InvalidArgument, NotReady, RemoteStorageError, StoreRefused
from tierledger.events.extras import missing, naming_extras

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_OLDEST = 17
PANDAS_TOO_NEW = 3

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings of every session that is made here, unless the user overrides them."""

OF_A_QUERY = "spark.sql."
"""How the names of settings begin that each session of a running Spark has for itself."""

ON_LOOPBACK = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Further settings where no other machine takes part."""

EVERY_CORE = "local[*]"
"""The master where none is given: all cores of this machine."""

JAVA_TIMEOUT_S = 60

CONNECT = "sc://"
CONNECT_PORT = 15002
"""Where a Spark Connect server listens if its address names no port."""

CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""PySpark sets it in the environment once it is connected: no function then asks Java."""

MASTER = re.compile(
    r"local(\[(\*|\d+)(, *\d+)?\])?|local-cluster\[\d+, *\d+, *\d+\]|yarn|k8s://.+"
    r"|spark://(?P<places>[^,/]+:\d+(,[^,/]+:\d+)*)"
    rf"|{CONNECT}(?P<server>(\[[^]/]+\]|[^]\[/:;,\s]+)(:\d+)?)(/(;.*)?)?"
)
"""Forms of a master's address that Spark accepts."""

MASTER_TIMEOUT_S = 5.0
"""Timeout of a connection to a master; Spark itself tries for 90 s."""

JAVA_END_S = 5.0
"""Time in which Java must end by itself before it is killed."""

OURS = re.compile(r"tierledger\.events\.errors\.(\w+): ([^\n]*)")
"""An error of tierledger in Spark's report of a failed task: its class and message."""

PYTHONS = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?!Traceback)(\S.*)$", re.MULTILINE
)
"""A Python traceback; the group is its last line, the error."""

LOST = re.compile(r"\(TID \d+\) \((\S+) executor \d+\)")
"""A failed task on another machine; the group is the machine."""

WITHOUT_US = re.compile(
    r"No module named '(tierledger|pyspark|pyarrow|pandas)\b|Cannot run program"
    r"|Failed to find the data source: tierledger(\.(records|events|segments|trash|epochs|sizes"
    r"|transitions|anomalies))?\. "
)
"""A Python that cannot run our tasks, or none."""

PACKAGE = re.compile(r"^(?:[a-z]\w*[.])+(?=[A-Z])")

CAUSED = re.compile(r"^(?:Caused by|Exception in thread \"main\")[: ] *(\S.*)$", re.MULTILINE)


def spark_session(
    app: str, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """The process's Spark session; made if there is none yet.

    Args:
        app: The session's name in Spark's UI.
        master: Where Spark runs; `local[*]`, all cores of this machine, if none is given.
            `sc://HOST:PORT` is a Spark Connect server.
        config: Spark's settings, which extend and override `DEFAULTS`. A Connect server takes
            those alone that a session may set.

    Raises:
        InvalidArgument: Java or an extra is missing or has an unsupported version, or the
            master's address is invalid.
        NotReady: No master answers at that address.
    """
    _check(where := master or EVERY_CORE)
    return _builder(app, where, config or {}).getOrCreate()


def _check(master: str) -> None:
    if not master.startswith(CONNECT):
        check_java()
    check_pandas()
    check_master(master)


def _builder(app: str, master: str, config: Mapping[str, str]) -> SparkSession.Builder:
    # Imported here: it needs what is checked before.
    with naming_extras():
        from pyspark.sql import SparkSession  # noqa: PLC0415

    if not master.startswith(CONNECT):
        _choose_python()
    builder: SparkSession.Builder = SparkSession.builder.appName(app)
    for name, value in {**_settings(master), **config}.items():
        builder = builder.config(name, value)
    return builder


def _choose_python() -> None:
    """Let Spark run one Python on all machines, in tasks and for formats.

    By default that is the `python3` in PATH, which may lack what tasks import. For formats it
    is `PYSPARK_DRIVER_PYTHON`, on other machines too, even if that is the name of a notebook.
    """
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if shutil.which(python) is None:
        raise InvalidArgument(
            "PYSPARK_PYTHON: expected a Python that is on this machine, too, since Spark plans "
            f"with it what it reads (docs/spark.md); got {python!r}, and PYSPARK_DRIVER_PYTHON "
            "cannot name another"
        )
    os.environ["PYSPARK_DRIVER_PYTHON"] = python


def _settings(master: str) -> dict[str, str]:
    if master.startswith(CONNECT):
        of_a_query = {name: v for name, v in DEFAULTS.items() if name.startswith(OF_A_QUERY)}
        return {**of_a_query, "spark.remote": master}
    here = ON_LOOPBACK if master.startswith("local") else {}
    return {**DEFAULTS, **here, "spark.master": master}


@contextmanager
def own_session(app: str, master: str | None = None) -> Iterator[SparkSession]:
    """A Spark session while the block lasts, without output on standard error.

    If this process has a session already, that one is used, and stays afterwards.

    Raises:
        InvalidArgument: As `spark_session`.
        RemoteStorageError: Spark or a task failed. An error of tierledger keeps the class that
            the task raised. The message is the deepest known cause.
    """
    _check(where := master or EVERY_CORE)
    if where.startswith(CONNECT):
        with _connected_session(app, where) as session:
            yield session
        return
    with naming_extras():
        from pyspark import SparkContext  # noqa: PLC0415

    if SparkContext._active_spark_context is not None:
        with plain_errors():
            yield spark_session(app, master)
        return
    with tempfile.TemporaryFile("w+", errors="replace") as stderr:
        java: subprocess.Popen[bytes] | None = None
        # Block Ctrl-C while Java starts: a Java process that is abandoned then never ends.
        former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with plain_errors(stderr):  # Inside, since Java must still run to give its errors.
                try:
                    java = _started_java(_settings(where), stderr)
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, former)
                session = spark_session(app, master, {"spark.log.level": "OFF"})
                try:
                    yield session
                finally:
                    session.stop()
        finally:
            if java is not None:
                _end_java(java)


@contextmanager
def _connected_session(app: str, server: str) -> Iterator[SparkSession]:
    """A session of its own at a Spark Connect server, whatever others this process has."""
    former = os.environ.get(CONNECT_MODE)
    try:
        with plain_errors():
            session = _builder(app, server, {}).create()
            try:
                yield session
            finally:
                session.stop()
    finally:
        if former is None:
            os.environ.pop(CONNECT_MODE, None)


def _started_java(settings: Mapping[str, str], stderr: IO[str]) -> subprocess.Popen[bytes]:
    """Start the Java process in which this process's Spark sessions run.

    `stderr` is the file for its standard error.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    conf = SparkConf().setAll(list(settings.items()))
    gateway: Any = launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)
    java: subprocess.Popen[bytes] = gateway.proc
    return java


def _end_java(java: subprocess.Popen[bytes]) -> None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415
    from pyspark import SparkContext  # noqa: PLC0415

    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None  # The next session starts another.
    # Otherwise py4j reports each dropped Python object to the ended Java, and logs errors.
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    with suppress(subprocess.TimeoutExpired, OSError):
        java.communicate(timeout=JAVA_END_S)  # This closes its input, at which Java ends.
    java.kill()
    java.wait()


@contextmanager
def plain_errors(stderr: IO[str] | None = None) -> Iterator[None]:
    """Turn Spark's errors in the block into `RemoteStorageError`s with one line.

    `stderr` is the file with Java's standard error.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JError) as error:
        texts = [str(error), str(getattr(error, "_stackTrace", None) or "")]
        if stderr is not None:
            stderr.seek(0)
            texts.append(stderr.read())
        raise spark_error("\n".join(texts)) from error


def spark_error(text: str) -> RemoteStorageError:
    """The error of tierledger that ended a task, or else the deepest cause in `text`.

    It names the machine of a task that failed on another one.
    """
    lost = LOST.search(text)
    where = "" if lost is None else f", on {lost[1]}"
    for name, message in OURS.findall(text):
        kind = getattr(errors, name, RemoteStorageError)
        if where and issubclass(kind, StoreRefused):
            where += ": all machines have to reach the store, which no file of one does"
        error: RemoteStorageError = kind(f"{message}{where}")
        return error
    lines = [line.removeprefix(": ").strip() for line in text.splitlines() if line.strip()]
    found = PYTHONS.findall(text) or CAUSED.findall(text)
    if not found and len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        found = lines[1:2]
    (cause, *_) = found[-1:] or lines[:1] or ["no reason given"]
    if WITHOUT_US.search(cause):
        where += (
            ": expected tierledger[spark] in the Python that PYSPARK_PYTHON names, under that "
            "path on all machines of Spark (docs/spark.md)"
        )
    # Java classes are shown without their packages, which do not help a user.
    return RemoteStorageError(f"Spark: {PACKAGE.sub('', cause)}{where}")


def check_master(master: str) -> None:
    """Refuse a master where Spark cannot run, before Java starts, which takes seconds.

    Raises:
        InvalidArgument: Spark does not support such an address.
        NotReady: Nothing accepts a connection at that address.
    """
    shown = master.partition(";")[0]  # A token may follow.
    known = MASTER.fullmatch(master)
    if known is None:
        raise InvalidArgument(
            "where Spark runs (--master): expected local[*], local[N], spark://HOST:PORT, "
            f"k8s://URL, yarn or {CONNECT}HOST:PORT; got {shown!r}"
        )
    places = known["places"] or known["server"]
    trouble: OSError | None = None
    for place in places.split(",") if places else []:
        host, port = _host_and_port(place)
        try:
            socket.create_connection((host, port), MASTER_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            trouble = OSError(str(error))
        else:
            return
    if trouble is not None:
        raise NotReady(f"no Spark master answers at {shown} (--master): {trouble}") from trouble


def _host_and_port(place: str) -> tuple[str, int]:
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        host, port = place, str(CONNECT_PORT)
    return host.strip("[]"), int(port)


def check_java() -> None:
    """Refuse a machine without a Java that Spark runs on.

    Raises:
        InvalidArgument: Java is missing, does not run, or is too old.
    """
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if program is None:
        raise InvalidArgument(
            f"Spark needs Java {JAVA_OLDEST} or newer: no java in PATH, and no JAVA_HOME"
        )
    try:
        output = subprocess.run(
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
    found = java_version(output)
    if found is None or found < JAVA_OLDEST:
        raise InvalidArgument(
            f"Spark needs Java {JAVA_OLDEST} or newer, and {program} is "
            f"{'of an unknown version' if found is None else f'Java {found}'}"
        )


def java_version(output: str) -> int | None:
    """The major version in the output of `java -version`; none if it has none."""
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return None if found is None else int(found[1])


def check_pandas() -> None:
    """Refuse a pandas that this Spark does not work with.

    Raises:
        InvalidArgument: pandas is missing, or too new.
    """
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        found = version("pandas")
    except PackageNotFoundError as error:
        raise missing("pandas") from error
    if int(found.partition(".")[0]) >= PANDAS_TOO_NEW:
        raise InvalidArgument(
            f"Spark needs pandas below {PANDAS_TOO_NEW}, and {found} is installed"
        )
