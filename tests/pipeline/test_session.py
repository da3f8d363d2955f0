"""What must be there before Spark starts; what is not there is named."""

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.session import (
    check_java,
    check_pandas,
    java_version,
    spark_session,
)


def java_that_says(folder: Path, words: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{words}\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11"),
        ("echo 'java version \"1.8.0_402\"' >&2", "is Java 8"),
        ("echo hello >&2", "of an unknown version"),
        ("exit 3", "does not run"),
    ],
)
def test_a_java_that_does_not_do_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_that_says(tmp_path, words)))

    with pytest.raises(InvalidArgument, match=f"needs Java 17 or newer.*{said}"):
        check_java()


def test_a_machine_without_java_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(InvalidArgument, match="no java in PATH"):
        spark_session("never")


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
