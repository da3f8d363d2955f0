"""Commands take a topic's id for an id, also one that begins with "-"."""

from pathlib import Path

import pytest

from tests.models.cli.command_line import in_process, invoke, lines, run, write
from tests.models.storage.stored_partitions import CLUSTER, StoredPartition, finished
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.backends.sqlite.backend import SqliteBackend

DASHED = ["-wABAgMEBQYHCAkKCwwNDg", "--ABAgMEBQYHCAkKCwwNDg"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a topic of each id, called after it."""

    async def topics(backend: SqliteBackend) -> None:
        for one in DASHED:
            tip = TopicIdPartition(Uuid.parse(one), 0, f"topic of {one}")
            await (await StoredPartition.led(backend, tip)).append(finished(0))

    path = tmp_path / "store.sqlite"
    write(path, topics)
    return path


@pytest.mark.parametrize("dashed", DASHED)
def test_an_id_that_begins_with_a_dash_is_a_topic(store: Path, dashed: str) -> None:
    name = f"topic of {dashed}"

    assert {one["topic_id"] for one in lines(run(store, "ls", "--json"))} == {*DASHED}
    for given in (
        ("describe", dashed),
        ("describe", "--cluster", CLUSTER, dashed, "--json"),
        ("describe", f"--cluster={CLUSTER}", dashed, "--json"),
    ):
        assert name in run(store, *given).stdout, given
    (segment,) = lines(run(store, "segments", dashed, "0", "--json"))
    assert lines(run(store, "lookup", "--json", dashed, 0, 0, 5)) == [segment]
    assert lines(run(store, "segments", name, 0, "--json")) == [segment]
    assert run(store, "log", dashed, 0, "--limit", 2).exit_code == 0
    done, _ = in_process("verify", dashed, "--store", f"sqlite:{store}")
    assert done.returncode == 0, done.stderr


def test_what_is_no_id_is_still_an_option_that_nobody_knows(store: Path) -> None:
    for unknown in ("-w", "-wABAgMEBQYHCAkKCwwND", "--metadata-partitionss"):
        done = run(store, "describe", unknown, DASHED[0])
        assert done.exit_code == 2
        assert "No such option" in done.stderr, done.stderr


@pytest.mark.parametrize("dashed", DASHED)
def test_an_id_that_begins_with_a_dash_is_a_value_of_an_option(
    store: Path, dashed: str
) -> None:
    done = invoke("describe", DASHED[0], "--cluster", dashed, "--store", f"sqlite:{store}")

    assert dashed in done.stderr
    assert "No such option" not in done.stderr
