"""Settings of all tests: number of examples, Ray, the order of tests."""

import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

import tierledger.actors.door  # noqa: F401 - Before any test imports gRPC.
from tests.models.actors import coordinator_invariants as of_coordinators
from tests.models.actors import host_invariants as of_hosts
from tests.models.actors import partition_invariants as of_partitions
from tierledger.actors.coordinator import machine as coordinator
from tierledger.actors.host import machine as host
from tierledger.actors.host import machine_guard as partition
from tierledger.simulation.campaign.campaign import with_mistake
from tierledger.simulation.live.postgres_server import PostgresServer
from tierledger.simulation.live.processes import children, signal_all
from tierledger.simulation.live.s3_server import S3Server
from tierledger.simulation.live.server import STARTED

HERE = Path(__file__).parent

SERVERS = {"ray": "ray", "chaos": "ray", "pipeline": "spark"}
"""Folders whose tests need a large server; those on one kind of it run one after another."""

QUICK = ("actors", "events", "house", "storage", "tiering")
"""Folders of `make test-core`; of several workers one begins with them, before Spark's."""

LONGEST = ("kafka", "moving", "simulation")
"""Folders with files that take minutes: none of them may be the last that a worker begins."""

LOG_CHARACTERS = 8_000
"""How much of each server's log is shown below a failure."""

WORKER_END_S = 60.0
"""How long after Ctrl-C a worker may take to stop the servers that it started."""

TIMEOUT_AGAIN_S = 30.0
"""Pause before a test that has not ended by its timeout is failed again."""

# No deadline per example: on a busy machine it fails what is right; the test's timeout stands.
settings.register_profile("dev", max_examples=30, deadline=None)
settings.register_profile(
    "ci", max_examples=30, deadline=None, derandomize=True, database=None, print_blob=True
)
settings.register_profile("nightly", max_examples=10_000, deadline=None, print_blob=True)
coordinator.CHECKS.append(of_coordinators.check)
host.CHECKS.append(of_hosts.check)
partition.CHECKS.append(of_partitions.check)

settings.load_profile("ci" if os.environ.get("CI") else "dev")

# A shell ignores Ctrl-C in what it runs in the background, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-seconds",
        type=float,
        default=4,
        help="how long each fuzz test draws (default 4 s; `make fuzz` gives more)",
    )
    parser.addoption(
        "--fuzz-seed", type=int, default=0, help="the first seed of each fuzz test (default 0)"
    )
    parser.addoption("--slip", help="plant this slip or mutant in the service, as S05")


def pytest_configure(config: pytest.Config) -> None:
    """Plant a mistake for the whole run, in the tests' processes alone: which tests notice?"""
    if (name := config.getoption("--slip")) is not None:
        planted = ExitStack()
        planted.enter_context(with_mistake(name))
        config.add_cleanup(planted.close)
    if is_worker(config):
        config.pluginmanager.register(Worker())
    elif config.getoption("dist") != "no":
        config.pluginmanager.register(Workers())
        config.option.loadscopereorder = False  # They come in an order of ours.


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, object, object]:
    """Fail a test that hangs until it ends.

    pytest-timeout raises once, and an event loop that is in a callback only logs the error.
    """
    is_set = yield
    if left_s := signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.setitimer(signal.ITIMER_REAL, left_s, TIMEOUT_AGAIN_S)
    return is_set


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def folder_of(path: str | Path) -> str:
    """The folder under `tests` that a test is in."""
    return Path(path).relative_to(HERE).parts[0]


class ByServer(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types.
    """A file of tests is one worker's; so are all tests on Ray, and all on Spark."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return SERVERS.get(folder_of(HERE.parent / file), file)


class Workers:
    """The end of a run with workers: after Ctrl-C each has time to stop its servers."""

    def __init__(self) -> None:
        self._workers: list[WorkerController] = []

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: Producer
    ) -> LoadFileScheduling:
        return ByServer(config, log)

    @pytest.hookimpl
    def pytest_testnodeready(self, node: WorkerController) -> None:
        self._workers.append(node)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Before xdist, which gives them 15 s and then leaves their servers behind."""
        if exitstatus != pytest.ExitCode.INTERRUPTED:
            return
        signal_all(children(os.getpid()), signal.SIGINT)
        for node in self._workers:
            with suppress(node.channel.TimeoutError, node.channel.RemoteError):
                node.channel.waitclose(WORKER_END_S)


class Worker:
    @pytest.hookimpl
    def pytest_keyboard_interrupt(self) -> None:
        """Let a worker's end run undisturbed, although it gets more than one signal."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show below a failure how the logs of running servers end."""
    report = yield
    if report.failed:
        running = [server for server in STARTED if server.is_running]
        report.sections += [
            (f"log of {server.name}", server.log()[-LOG_CHARACTERS:]) for server in running
        ]
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs Ray or Spark, and order the rest around it.

    One process runs Spark's and then Ray's last: what is quick to fail fails first. Of several
    the first begins with Ray's, and short files come at the end, so that none works on alone.
    """
    for item in items:
        folder = folder_of(item.path)
        if folder in {"ray", "pipeline"}:
            item.add_marker(SERVERS[folder])
    if is_worker(config):
        items.sort(key=worker_order)
    else:
        items.sort(key=lambda item: (needs_ray(item), needs_spark(item)))


def worker_order(item: pytest.Item) -> int:
    folder = folder_of(item.path)
    if SERVERS.get(folder) == "ray":
        return 0
    if folder in QUICK:
        return 1
    if folder in SERVERS:
        return 2
    return 3 if folder in LONGEST else 4


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


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server that all tests share. Who freezes or kills one starts one of their own."""
    with S3Server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """An empty place for a store on that server, as `--store` takes it."""
    return postgres_server.place()
