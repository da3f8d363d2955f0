"""What every test may rely on: how many examples, what Ray may do, and in which order."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

import tierledger.actors.door  # noqa: F401 - Before any test imports gRPC.
from tierledger.simulation.campaign import with_mistake
from tierledger.simulation.live.postgres_server import PostgresServer

RAY_TESTS = Path(__file__).parent / "ray"
SPARK_TESTS = Path(__file__).parent / "pipeline"

# No deadline per example: on a busy machine it fails what is right; the test's timeout stands.
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile(
    "ci", max_examples=50, deadline=None, derandomize=True, database=None, print_blob=True
)
settings.register_profile("nightly", max_examples=10_000, deadline=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# A shell ignores Ctrl-C in what it runs in the background, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-seconds",
        type=float,
        default=20,
        help="how long each fuzz test draws (default 20 s; `make fuzz` gives more)",
    )
    parser.addoption(
        "--fuzz-seed", type=int, default=0, help="the first seed of each fuzz test (default 0)"
    )
    parser.addoption("--slip", help="plant this slip or mutant in the service, as S05")


def pytest_configure(config: pytest.Config) -> None:
    """Plant a mistake for the whole run, in this process alone: which tests notice?"""
    if (name := config.getoption("--slip")) is not None:
        planted = ExitStack()
        planted.enter_context(with_mistake(name))
        config.add_cleanup(planted.close)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in tests/ray, and run it last: what is quick to fail fails first.

    What needs Spark comes right before.
    """
    for item in items:
        if SPARK_TESTS in item.path.parents:
            item.add_marker("spark")
        if RAY_TESTS in item.path.parents:
            item.add_marker("ray")
    items.sort(key=lambda item: (needs_ray(item), needs_spark(item)))


def needs_ray(item: pytest.Item) -> bool:
    return item.get_closest_marker("ray") is not None


def needs_spark(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None


@pytest.fixture(autouse=True)
def ray_only_where_marked(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Fail an unmarked test that starts Ray: it would be slow, and would hide a wrong import.

    Ray itself is not imported for this; a test that never loads it pays nothing.
    """
    if needs_ray(request.node):
        yield
        return
    if "ray" in sys.modules:
        monkeypatch.setattr("ray.init", refuse_ray)
    yield
    ray = sys.modules.get("ray")
    assert ray is None or not ray.is_initialized(), "mark this test `ray`: it started Ray"


def refuse_ray(*_args: object, **_options: object) -> None:
    pytest.fail("only tests marked `ray` may start Ray")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL that all tests share. Who freezes or kills one starts one of their own."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """An empty place for a store on that server, as `--store` takes it."""
    return postgres_server.place()
