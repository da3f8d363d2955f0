"""One Spark for all tests here: it takes seconds to start."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.models.spark.class_archive import quick_java
from tests.models.spark.connect_server import ConnectServer
from tierledger.pipeline.session import CONNECT_MODE, spark_session

FEW = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session", autouse=True)
def all_java_is_quick() -> Iterator[None]:
    """Each Spark that a test starts, in whatever process, has a Java that starts quickly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", quick_java())
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores of this machine.

    A test that needs Java when it is gone fails; a run that no longer needs it does not.
    """
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = spark_session(
        "tests", "local[2]", FEW | {"spark.sql.warehouse.dir": str(warehouse)}
    )
    java = SparkContext._gateway.proc  # type: ignore[union-attr]
    yield session
    if java.poll() is None:
        session.stop()
    else:
        warnings.warn(f"Spark's Java is gone: it ended with {java.returncode}", stacklevel=1)


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server, with this Python; none of the tests' own settings reach it."""
    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        yield server.url


@pytest.fixture(scope="module")
def connected(connect_url: str) -> Iterator[SparkSession]:
    """A session at a Spark Connect server. The one of this process is out of sight meanwhile.

    Spark has one kind of session in a process: `functions` of the other do not work.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkContext, "_active_spark_context", None)
        patch.setattr(SparkSession, "_instantiatedSession", None)
        patch.setenv(CONNECT_MODE, "1")
        session = spark_session("tests", connect_url)
        yield session
        session.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a store, of each kind that outlives a process."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:{tmp_path / 'store.sqlite'}"


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'store.sqlite'}"
