"""Commands that read a log say that a wrong clock has carried its time ahead."""

import json
from pathlib import Path

import pytest

from tests.models.cli.command_line import ORDERS, lines, run, write
from tests.models.storage.stored_partitions import TIME_MS, StoredPartition, finished
from tierledger.actors.wall_clock import WallClock
from tierledger.events.identifiers import TopicIdPartition
from tierledger.storage.backends.sqlite.backend import SqliteBackend

DAY_MS = 86_400_000
AHEAD = "is 399 d 23 h ahead of now: a clock was wrong"


@pytest.fixture
def jumped(tmp_path: Path) -> Path:
    """A log of which some events were written while the clock was 400 days ahead."""

    async def written(backend: SqliteBackend) -> None:
        partition = await StoredPartition.led(backend, TopicIdPartition(ORDERS, 1, "orders"))
        await partition.append(finished(0))
        ahead_ms = WallClock().now_ms() + 400 * DAY_MS
        await partition.open(time_ms=ahead_ms)
        await partition.append(finished(1))
        await partition.close()

    write(tmp_path / "jumped.sqlite", written)
    return tmp_path / "jumped.sqlite"


@pytest.mark.parametrize(
    "asked",
    [
        ("ls",),
        ("describe", "orders", 1),
        ("describe", "orders", 1, "--as-of", "1h"),
        ("segments", "orders", 1, "--as-of", "1h"),
        ("lookup", "orders", 1, 0, 5, "--as-of", "1h"),
        ("log", "orders", 1),
        ("jobs", "stuck", "--engine", "local"),
    ],
    ids=lambda asked: " ".join(map(str, asked)),
)
def test_a_log_that_is_ahead_is_remarked_on_and_is_no_error(
    jumped: Path, asked: tuple[object, ...]
) -> None:
    result = run(jumped, *asked)

    assert result.exit_code == 0, result.output
    assert f"orders-1 {AHEAD}" in result.stderr


def test_json_tells_by_how_much_a_log_is_ahead(jumped: Path, store: Path) -> None:
    for asked in (("ls",), ("describe", "orders", 1), ("ls", "--as-of", "1h")):
        (found,) = lines(run(jumped, *asked, "--json"))
        assert 399 * DAY_MS < found["log_time_ahead_ms"] <= 400 * DAY_MS
    assert {one["log_time_ahead_ms"] for one in lines(run(store, "ls", "--json"))} == {0}

    (stuck,) = lines(run(jumped, "jobs", "stuck", "--engine", "local", "--json"))
    (ahead,) = stuck["ahead"]
    assert (ahead["topic"], ahead["partition"]) == ("orders", 1)
    assert ahead["log_time_ahead_ms"] == pytest.approx(400 * DAY_MS, rel=0.01)


def test_a_table_is_written_with_a_remark_on_logs_that_are_ahead(
    jumped: Path, tmp_path: Path
) -> None:
    asked = ("tables", "segments", "--engine", "local", "--out", tmp_path / "t")

    told = json.loads(run(jumped, *asked, "--format", "json", "--json").stdout)

    assert [one["topic"] for one in told["ahead"]] == ["orders"]


def test_log_names_the_event_at_which_log_time_leaps(jumped: Path, store: Path) -> None:
    plain = lines(run(jumped, "log", "orders", 1, "--json"))
    leaps = {one["position"]: one["leap_ms"] for one in plain if "leap_ms" in one}

    assert list(leaps) == [4]
    assert leaps[4] == pytest.approx(plain[4]["log_time_ms"] - TIME_MS, abs=5)
    assert "before position 4, and the brokers' own times do not" in (
        run(jumped, "log", "orders", 1).stderr
    )
    assert "leap" not in run(store, "log", "orders", 1, "--json").output
