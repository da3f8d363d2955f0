"""Makes the pictures of the documents anew: `make pictures`.

They show a made-up cluster. Each picture holds what stood on the page beside the data, so that
a test finds out when the page has changed.
"""

import base64
import json
import random
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from tests.models.actors.reports import host, reading, served
from tests.models.cli.command_line import write
from tests.models.pages.chromium import Browser, chromium
from tests.models.storage.stored_partitions import StoredPartition, segment_id
from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.console import sight
from tierledger.cli.commands.console.serving import Console
from tierledger.cli.commands.status.look import ClusterView
from tierledger.cli.commands.status.view import ServiceIdentity
from tierledger.cli.opened_store import StoreOptions
from tierledger.events import log_events as log
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.health.status import Reading, status_of
from tierledger.storage.backends.sqlite.backend import SqliteBackend

FOLDER = Path(__file__).parents[3] / "docs" / "pictures"
WIDTH = 1280
HEIGHTS = {"console-cluster": 1230, "console-partition": 860}

DAY_MS = 86_400_000
DAYS = 90
KEPT_DAYS = 21
SEGMENTS = 160
TOPICS = ("orders", "payments", "clicks", "audit-log", "inventory", "emails", "metrics")
PARTITIONS = 5
PICTURED = TopicIdPartition(Uuid(bytes([1]) * 16), 2, "orders")

FRAME = """[...document.querySelectorAll(
  "nav a, main label, main button, .legend li, #totals span, h2 a, .spans a, #events th"
)].filter((one) => one.checkVisibility()).map((one) => one.textContent.trim())"""
"""What stands on a page whatever it is about."""


def partition_events(tip: TopicIdPartition, now_ms: int) -> Iterator[log.Event]:
    """The log of a partition that tiers more and more, keeps three weeks, changes leaders."""
    chance = random.Random(f"{tip.topic} {tip.partition}")
    weight = TOPICS.index(tip.topic) + 1
    ages = [DAYS * chance.random() ** 1.3 * DAY_MS for _ in range(SEGMENTS)]
    ages.sort(reverse=True)
    position = offset = session = begun = broker = 0
    sizes: list[tuple[float, int]] = []

    def event(age_ms: float, body: log.Body) -> log.Event:
        nonlocal position
        position += 1
        return log.Event(position - 1, session, int(now_ms - age_ms), 1, None, body)

    for number, age_ms in enumerate(ages):
        if number % 23 == 0:
            session, begun = session + 1, offset
            broker = 1 + (session + tip.partition) % 3
            body = log.SessionOpened(
                session, broker, 1, session, session, session - 1, tip.topic, None
            )
            yield event(age_ms, body)
        while sizes and sizes[0][0] - age_ms > KEPT_DAYS * DAY_MS:
            old = sizes.pop(0)[1]
            for state in (2, 3):
                yield event(age_ms, log.SegmentUpdated(segment_id(old), state, broker, 0, None))
        length = chance.randrange(20_000, 60_000)
        end, size = offset + length - 1, length * 2048 * weight
        time_ms = int(now_ms - age_ms)
        epochs = session - 1, max(offset, begun)
        yield event(
            age_ms,
            log.SegmentAdded(
                segment_id(number),
                offset,
                end,
                epochs,
                size,
                time_ms,
                broker,
                time_ms,
                None,
                True,
            ),
        )
        if number < SEGMENTS - 1 or tip != PICTURED:
            yield event(age_ms, log.SegmentUpdated(segment_id(number), 1, broker, 0, None))
        sizes.append((age_ms, number))
        offset = end + 1


async def cluster(backend: SqliteBackend) -> None:
    now_ms = WallClock().now_ms()
    for at, topic in enumerate(TOPICS):
        for number in range(PARTITIONS):
            tip = TopicIdPartition(Uuid(bytes([at + 1]) * 16), number, topic)
            partition = StoredPartition(backend, tip, "shop")
            events = list(partition_events(tip, now_ms - 60_000 * (at + number)))
            for first in range(0, len(events), 100):
                await partition.commit(events[first : first + 100])


def service() -> Reading:
    """A service with a partition in quarantine."""
    of = {"topic_id": str(PICTURED.topic_id)}
    bad = served(3, phase="quarantined", reason="batch 12: its checksum is wrong", **of)
    well = [served(number, **of) for number in (0, 1, 2, 4)]
    return reading({"host-0": host(bad, *well[:2]), "host-1": host(*well[2:])})


async def look(_: object) -> ClusterView:
    identity = ServiceIdentity("shop", "sqlite:ledger.sqlite", "127.0.0.1:4711", 7, 0, None)
    return ClusterView("shop", (identity, status_of(service())))


def with_frame(png: bytes, frame: list[str]) -> bytes:
    """The picture with what stood on the page, as a text of the format."""
    data = b"iTXtframe\0\0\0\0\0" + json.dumps(frame, ensure_ascii=False).encode()
    chunk = struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    end = png.rindex(b"IEND") - 4
    return png[:end] + chunk + png[end:]


def frame_in(png: bytes) -> list[str]:
    """What stood on the page of a picture."""
    begin = png.index(b"iTXtframe")
    (length,) = struct.unpack(">I", png[begin - 4 : begin])
    found: list[str] = json.loads(png[begin + 4 : begin + 4 + length].split(b"\0", 5)[5])
    return found


def frame_of(browser: Browser) -> list[str]:
    """What stands on the page that the browser shows, each text once."""
    return [*dict.fromkeys(browser.run(FRAME))]


def photograph(browser: Browser, name: str) -> None:
    size = {"width": WIDTH, "height": HEIGHTS[name], "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.settle()
    taken = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    png = with_frame(base64.b64decode(taken["data"]), frame_of(browser))
    (FOLDER / f"{name}.png").write_bytes(png)


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as made,
        chdir(made),  # Pages show the store's URL.
        pytest.MonkeyPatch.context() as patched,
        chromium(Path(made)) as browser,
    ):
        patched.setattr(sight, "take_look", look)
        write(Path("ledger.sqlite"), cluster)
        console = Console(StoreOptions("sqlite:ledger.sqlite"), "127.0.0.1:0", "--listen")
        console.start()
        browser.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        browser.driver.get(console.url)
        browser.wait_for("document.querySelector('#trouble-1') !== null")
        told = "document.querySelector('#moved').innerText"
        browser.wait_for(f"{told}.includes('metrics') && !{told}.includes('so far')")
        photograph(browser, "console-cluster")
        browser.driver.get(f"{console.url}partitions/{PICTURED.topic_id}/{PICTURED.partition}")
        browser.wait_for("document.querySelector('#at') !== null")
        photograph(browser, "console-partition")
        browser.driver.get("about:blank")
        console.close()


if __name__ == "__main__":
    main()
