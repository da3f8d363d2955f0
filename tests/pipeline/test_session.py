"""Requirements of Spark: an error names a missing one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierledger.events.errors import InvalidArgument, NotReady, StorageUnavailable
from tierledger.pipeline.session import (
    check_java,
    check_master,
    check_pandas,
    java_version,
    spark_error,
    spark_session,
)
from tierledger.pipeline.tables.plan import TABLES


def java_that_runs(folder: Path, script: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11"),
        ("echo 'java version \"1.8.0_402\"' >&2", "is Java 8"),
        ("echo hello >&2", "of an unknown version"),
        ("exit 3", "does not run"),
    ],
)
def test_a_java_that_does_not_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_that_runs(tmp_path, script)))

    with pytest.raises(InvalidArgument, match=f"needs Java 17 or newer.*{message}"):
        check_java()


def test_a_machine_without_java_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(InvalidArgument, match="no java in PATH"):
        spark_session("never")


@pytest.mark.parametrize(
    ("master", "error", "message"),
    [
        ("foo", InvalidArgument, "got 'foo'"),
        ("local[x]", InvalidArgument, r"local\[N\].*got 'local\[x\]'"),
        ("spark://nobody", InvalidArgument, "spark://HOST:PORT"),
        ("spark://127.0.0.1:1", NotReady, r"answers at spark://127\.0\.0\.1:1 .*refused"),
        ("spark://127.0.0.1:1,127.0.0.1:99999", NotReady, "answers at spark://"),
    ],
)
def test_a_master_that_is_none_is_named_before_java_starts(
    master: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        check_master(master)


def test_a_master_that_is_none_is_told_without_its_token() -> None:
    with pytest.raises(InvalidArgument, match="got 'sc://:/'"):
        check_master("sc://:/;token=hidden-word")


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[2, 3]", "yarn"])
def test_a_master_that_spark_knows_is_taken(master: str) -> None:
    check_master(master)


JAVAS = """An error occurred while calling o69.save.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.Some.method(Some.scala:1)
Caused by: java.io.IOException: writing failed
\tat java.base/java.io.Other.method(Other.java:2)
Caused by: java.nio.file.FileSystemException: /x/y: No space left on device
\t... 20 more
"""
PYTHONS = """[UNKNOWN] Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 7, in main
Traceback (most recent call last):
  File "task.py", line 9, in run
    boom()
ValueError: expected 3, got 4

\tat org.apache.spark.api.python.Reader.read(Reader.scala:5)
Caused by: java.lang.Exception: something later
"""
CONTEXTS = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Asked to run locally with 0 threads
\tat org.apache.spark.SparkContext.init(SparkContext.scala:3)
"""
OURS = """Job aborted. tierledger.events.errors.StorageUnavailable: the database is away
Caused by: java.lang.Exception: something
"""
ELSEWHERE = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most \
recent failure: Lost task 0.3 in stage 1.0 (TID 4) (10.0.0.7 executor 1): {}
Driver stacktrace:
"""
NO_PACKAGE = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "serializers.py", line 9, in loads
ModuleNotFoundError: No module named 'tierledger'

\tat org.apache.spark.api.python.Reader.read(Reader.scala:5)"""
NO_PYTHON = """java.io.IOException: Cannot run program "env/bin/python": error=2
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
Caused by: java.io.IOException: Cannot run program "env/bin/python": error=2
"""
EXITED = """[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.

WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" org.apache.spark.SparkException: HADOOP_CONF_DIR must be set
\tat org.apache.spark.deploy.Submit.error(Submit.scala:4)
"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (JAVAS, "Spark: FileSystemException: /x/y: No space left on device"),
        (PYTHONS, "Spark: ValueError: expected 3, got 4"),
        (CONTEXTS, "Spark: SparkException: Asked to run locally with 0 threads"),
        (EXITED, "Spark: SparkException: HADOOP_CONF_DIR must be set"),
        (
            "[PATH_NOT_FOUND] Path does not exist: x.",
            "Spark: [PATH_NOT_FOUND] Path does not exist: x.",
        ),
        ("", "Spark: no reason given"),
    ],
)
def test_what_spark_raises_is_told_by_its_deepest_cause(text: str, shown: str) -> None:
    assert str(spark_error(text)) == shown


def test_an_error_of_ours_in_a_task_stays_one() -> None:
    error = spark_error(OURS)

    assert type(error) is StorageUnavailable
    assert str(error) == "the database is away"


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (NO_PACKAGE, r"No module named 'tierledger', on 10\.0\.0\.7: .*PYSPARK_PYTHON"),
        (NO_PYTHON, r'program "env/bin/python": .*, on 10\.0\.0\.7: .*PYSPARK_PYTHON'),
        (PYTHONS, r"^Spark: ValueError: expected 3, got 4, on 10\.0\.0\.7$"),
        (
            "tierledger.events.errors.NoSuchStore: no such store: /x",
            r"^no such store: /x, on 10\.0\.0\.7: all machines have to reach the store",
        ),
    ],
)
def test_what_failed_on_another_machine_names_it_and_what_to_do(
    failure: str, shown: str
) -> None:
    assert re.search(shown, str(spark_error(ELSEWHERE.format(failure))))


@pytest.mark.parametrize(
    "name", ["tierledger", *(f"tierledger.{one}" for one in ("events", "records", *TABLES))]
)
def test_a_server_without_tierledger_is_told_what_it_needs(name: str) -> None:
    text = f"[DATA_SOURCE_NOT_FOUND] Failed to find the data source: {name}. Make sure"

    assert "expected tierledger[spark] in the Python" in str(spark_error(text))


def test_a_format_that_nobody_has_is_not_taken_for_a_missing_package() -> None:
    text = (
        "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: tierledger.covers. Make sure"
    )

    assert "expected" not in str(spark_error(text))


def test_a_python_that_is_not_on_the_drivers_machine_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")

    with pytest.raises(InvalidArgument, match=r"got './env.* and PYSPARK_DRIVER_PYTHON cannot"):
        spark_session("never", "local[1]")


def test_newer_versions_of_java_are_understood() -> None:
    assert java_version('openjdk version "17.0.15" 2025-04-15') == 17
    assert java_version('openjdk version "25" 2025-09-16') == 25


def test_a_pandas_that_is_too_new_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tmp_path / "pandas-3.0.1.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: pandas\nVersion: 3.0.1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    with pytest.raises(InvalidArgument, match=r"pandas below 3, and 3\.0\.1 is installed"):
        check_pandas()


def test_a_session_is_for_this_machine_alone(spark: SparkSession) -> None:
    settings = spark.sparkContext.getConf()

    assert settings.get("spark.driver.bindAddress") == "127.0.0.1"
    assert settings.get("spark.ui.enabled") == "false"
    assert spark_session("again", "local[2]") is spark


# In a process of its own: the tests here share a session, which is never ended under them.
FAILING = """
from tierledger.events.errors import RemoteStorageError
from tierledger.pipeline.session import own_session

def failing(batches):
    raise ValueError("no such thing")
    yield

try:
    with own_session("failing", "local[1]") as spark:
        spark.range(1).mapInArrow(failing, "id bigint").collect()
except RemoteStorageError as error:
    print(error)
"""


def test_a_task_that_fails_in_a_session_of_its_own_is_told_in_one_line() -> None:
    """An exception of Java has a message only while its JVM runs."""
    done = subprocess.run(
        [sys.executable, "-c", FAILING], capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("Spark: ValueError: no such thing\n", "")
