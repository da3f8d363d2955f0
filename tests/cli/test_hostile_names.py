"""Topics of any name go through service, store, commands and report, and stay names."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import Result

from tests.models.actors.local_world import CLUSTER, LocalWorld, copy, moved, segment
from tests.models.cli.command_line import invoke, lines, refused
from tests.models.storage.written_traces import write_trace
from tierledger.events.identifiers import TopicIdPartition, Uuid

NAMES = {
    "unicode": "Aufträge-注文-🗂",
    "right to left": "\u202eabc\u202c",
    "a path": "../../etc/passwd",
    "dots": "..",
    "slashes": "/a//b/",
    "the longest that Kafka allows": "n" * 249,
    "as long as Kafka allows": "ü" * 249,
    "empty": "",
    "control characters": "\x1b[2J\r\n\x00\t",
    "markup": '<script>alert("1")</script>&amp;[bold]x[/bold]',
    "an option": "--all",
    "an id": str(Uuid(b"q" * 16)),
    "wildcards": "%_*?\\",
}
CONTROLS = {chr(one) for one in range(32)} - {"\n"}
BIDI = "\u202e"


def topic(what: str) -> TopicIdPartition:
    number = list(NAMES).index(what)
    return TopicIdPartition(Uuid(number.to_bytes(16, "big")), 0, NAMES[what])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store in which a service led one partition of each name."""
    path = tmp_path / "store.sqlite"
    asyncio.run(serve_each(path))
    assert all("store.sqlite" in one.name for one in tmp_path.iterdir())
    return path


async def serve_each(path: Path) -> None:
    world = LocalWorld({"metadata.storage.url": f"sqlite:{path}"})
    await world.start()
    tips = [topic(what) for what in NAMES]
    manager = await world.leader(*tips)
    for tip in tips:
        await copy(manager, segment(0, tip))
    await world.restart()  # What is read now comes out of the store.
    reader = await world.follower(*tips)
    for tip in tips:
        assert await reader.highest_offset_for_epoch(tip, 0) == 9
    await world.stop()


def run(store: Path, *arguments: object) -> Result:
    """The command with its store in the environment: a name may look like an option."""
    return invoke(*arguments, env={"TIERLEDGER_STORE": f"sqlite:{store}"})


def test_every_name_is_listed_described_and_found_again(store: Path) -> None:
    listed = lines(run(store, "ls", "--all", "--json", "--cluster", CLUSTER))

    assert sorted(one["topic"] for one in listed) == sorted(NAMES.values())
    for what, name in NAMES.items():
        by_id = run(store, "describe", "--json", "--", topic(what).topic_id)
        (found,) = lines(by_id)
        assert found["topic"] == name
        (by_name,) = lines(run(store, "lookup", "--json", "--", name, 0, 0, 5))
        assert by_name["end_offset"] == 9


def test_no_name_moves_the_cursor_or_forges_a_line(store: Path) -> None:
    shown = [run(store, "ls", "--all"), run(store, "verify")]
    shown += [run(store, "describe", "--", topic(what).topic_id) for what in NAMES]
    shown += [run(store, "log", "--", topic(what).topic_id, 0) for what in NAMES]

    for result in shown:
        assert result.exit_code == 0, result.output
        assert not CONTROLS & set(result.output)
        assert BIDI not in result.output
    table = [line for line in shown[0].stdout.splitlines() if line.strip()]
    assert len(table) == len(NAMES) + 2
    assert "[bold]x[/bold]" in shown[0].stdout


def test_an_unknown_hostile_name_is_one_line_too(store: Path) -> None:
    result = run(store, "describe", "no\x1b[2J\nerror: forged")

    refused(result)
    assert "\x1b" not in result.stderr


def test_a_replay_reports_on_every_name_and_loads_nothing(tmp_path: Path) -> None:
    segments = [segment(0, topic(what)) for what in NAMES]
    trace = write_trace(
        tmp_path / "a\ntrace", [v for one in segments for v in (one, moved(one))]
    )
    page = tmp_path / "page.html"

    result = invoke("replay", trace, "--store", "memory:", "--report", page, "--json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["records"] == 2 * len(NAMES)
    html = page.read_text(encoding="utf-8")
    assert '<script>alert("1")' not in html
    assert "\x1b" not in html
    assert BIDI not in html
    assert "Aufträge-注文-🗂" in html
