"""The console, served and operated: troubles first, live, any moment, the trash."""

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.webdriver.common.keys import Keys

from tests.cli.test_trash_command import WHY, with_trash
from tests.models.actors.reports import NOW_MS, host, reading
from tests.models.actors.reports import served as report
from tests.models.cli.command_line import HOSTILE, OLD_ORDERS, ORDERS, orders, others, write
from tests.models.pages.chromium import WAIT_S, Browser
from tests.models.pages.rules import beside, broken, broken_in_the_dark
from tests.models.storage.stored_partitions import StoredPartition, finished
from tierledger.actors.coordinator.attendance import MoveReport
from tierledger.cli.commands.console import sight, site
from tierledger.cli.commands.console.histories import Histories
from tierledger.cli.commands.console.serving import Console
from tierledger.cli.commands.status.look import ClusterView
from tierledger.cli.commands.status.view import ServiceIdentity
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.pages.report.model import PartitionLog, Picture, picture_of
from tierledger.events.errors import InvalidArgument, NotReady
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.health.status import Reading, status_of
from tierledger.storage.backends.sqlite.backend import SqliteBackend
from tierledger.storage.catalog import Catalog

LARGE = TopicIdPartition(Uuid(bytes(range(1, 17))), 0, "large")


@contextmanager
def served(store: Path, browser: Browser | None = None) -> Iterator[Console]:
    """A console; the browser leaves it before it ends, as it would complain."""
    console = Console(StoreOptions(f"sqlite:{store}"), "127.0.0.1:0", "--listen")
    console.start()
    try:
        yield console
    finally:
        if browser is not None:
            browser.driver.get("about:blank")
        console.close()


def looks_at(readings: list[Reading]) -> Callable[[object], Awaitable[ClusterView]]:
    """A look at a service that answers with the last of `readings`."""
    identity = ServiceIdentity("test-cluster", "sqlite:/x", "127.0.0.1:1", 7, 0, None)

    async def look(_: object) -> ClusterView:
        return ClusterView("test-cluster", (identity, status_of(readings[-1])))

    return look


def plugin(broker_id: int, **more: object) -> dict[str, object]:
    """A broker's report, as the coordinator's status has it."""
    report = {"broker_id": broker_id, "incarnation": 1, "mode": "handover", "owner_epoch": 2}
    more = {"is_idle": False, "trouble": None, "code": None, "heard_ms_ago": 100, **more}
    return {**report, **more}


COMPARED = MoveReport("tierledger", "holding", 2, 5, 4000, 1, ("orders-1, size: 12 and 11",))


def moving(*plugins: dict[str, object]) -> Reading:
    """A service whose metadata moves; one of its brokers has found a difference."""
    follower = {"task": "import", "round": 7, "trouble": None, "heard_ms_ago": 100, "lag": 0}
    counts = dict.fromkeys(("equal", "recovered", "different", "resolved", "skipped"), 1)
    asked = {"topic": HOSTILE, "key": ["00", 3], "kind": "size", "epoch": 0, "offset": 0}
    answers = {"position": 7, "kafka_number": 12, "replica_number": 11, "contents": ""}
    difference = {**asked, **answers, "kafka": [], "replica": []}
    shadow = {"broker_id": 1, "verification": "differs", "verified": 0, "standing": 1}
    owned = {"owner": "moving", "owner_epoch": 2, "source": "kafka", "heading": "tierledger"}
    return reading(
        {"host-0": host()},
        None,
        **owned,
        owner_since_ms=NOW_MS - 3000,
        give_up_after_ms=20_000,
        attending=list(plugins),
        shadows=[{**shadow, "verified_ms_ago": 9000, **counts, "differences": [difference]}],
        kafka=follower,
        move={**COMPARED._asdict(), "heard_ms_ago": 300},
    )


@pytest.fixture
def console(tmp_path: Path, browser: Browser) -> Iterator[Console]:
    write(tmp_path / "store", orders, others)
    with served(tmp_path / "store", browser) as console:
        yield console


def get(console: Console, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    connection = HTTPConnection(urlsplit(console.url).netloc, timeout=WAIT_S)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()
    finally:
        connection.close()


def until(is_so: Callable[[], bool]) -> None:
    """Return once it is so; the console looks at its own intervals, and tells only pages."""
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def open_at(browser: Browser, console: Console, path: str = "") -> None:
    browser.complaints()
    browser.resize(1280)
    browser.driver.get(console.url + path)


def test_troubles_come_first_and_say_what_to_do(browser: Browser, console: Console) -> None:
    open_at(browser, console)
    browser.wait_for("document.querySelector('.verdict') !== null")
    browser.wait_for("document.querySelector('#totals b').textContent === '4'")

    assert "no-service" in browser.text("#trouble-1")
    assert "What to do: start it with" in browser.text("#trouble-1")
    assert [one.split()[0] for one in browser.shown("#sizes .label b")] == ["orders"]
    browser.click("#sizes .label a")
    browser.wait_for("document.querySelectorAll('#list tbody tr').length === 2")
    assert browser.run("location.search") == "?find=orders"


def test_what_moved_over_time_is_drawn_by_topic(browser: Browser, console: Console) -> None:
    open_at(browser, console)
    browser.wait_for("document.querySelectorAll('#moved .lane').length === 4")
    browser.wait_for("!document.querySelector('#moved').innerText.includes('so far')")
    labels = browser.shown("#moved .label")
    drawn = [
        len(browser.all(f"#moved .lane:nth-child({row}) rect.{look}"))
        for row in (1, 2, 3)
        for look in ("good", "leaving")
    ]
    newest = browser.text("#totals")
    browser.click("#over-time .spans a:nth-child(3)")
    browser.wait_for("document.querySelector('[aria-current=true]').innerText === '24 hours'")

    assert labels[0].startswith("all topics tiered 20.5 KiB in 21 segments")
    assert "deleted 2.0 KiB in 2 segments" in labels[0]
    assert labels[1].startswith("orders")
    assert labels[2].startswith("gone")
    assert drawn == [1] * 6, "it was years ago, within seconds"
    assert re.search(r"\d+ d \d+ h\nsince the newest copy", newest)
    assert browser.text("#moved") == "Nothing was tiered or deleted in the last 24 hours."


def test_a_page_is_new_without_being_loaded_again(
    browser: Browser, console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "LISTED_S", sight.ROUND_S)
    open_at(browser, console, "partitions?find=large")
    browser.wait_for("document.querySelector('#count').textContent === '0 of 4 partitions'")
    browser.run("(window.isTheSame = true)")

    async def grow(count: int) -> None:
        backend = await SqliteBackend.open(tmp_path / "store")
        partition = StoredPartition(backend, LARGE)
        await partition.open()
        for number in range(count):
            await partition.append(finished(number))
        await backend.close()

    asyncio.run(grow(3))

    browser.wait_for("document.querySelectorAll('#list tbody tr').length === 1")
    browser.wait_for("document.querySelectorAll('#list td.ago').length === 2")
    assert browser.shown("#list tbody td")[3] == "3"
    assert browser.run("window.isTheSame")


def test_the_slider_shows_any_moment_and_what_changed_since(
    browser: Browser, console: Console
) -> None:
    open_at(browser, console, "partitions?find=orders&sort=position&down=1")
    browser.wait_for("document.querySelectorAll('#list tbody tr').length === 2")
    browser.driver.get(browser.run("document.querySelector('#list tbody a').href"))
    # The browser skips a picture that it has not painted yet.
    is_painted = "document.querySelector('#picture').innerText.includes('UTC')"
    browser.wait_for(is_painted)
    newest = int(browser.run("document.querySelector('#at').max"))
    now = browser.text("#picture")

    browser.run("(document.querySelector('#at').value = 10)")
    browser.run("document.querySelector('#at').dispatchEvent(new Event('change'))")
    browser.wait_for("document.querySelector('#then').textContent.includes('position 10, 2')")
    browser.wait_for(is_painted)
    then = browser.text("#picture")
    first = browser.shown("#events tbody tr td:first-child")[0]
    address = browser.run("location.search")
    browser.driver.get(f"{browser.driver.current_url}&since=4")
    changes = browser.text("#changes")

    assert newest == 43
    assert "size 18.6 KiB in 19 segments" in now.replace("\n", " ")
    assert "2 deleted" not in then
    assert now != then
    assert first == "10"
    assert address == "?at=10"
    assert "6\nevents" in changes
    assert "What changed after position 4" in changes


def test_a_moment_that_takes_long_to_draw_says_so(
    browser: Browser, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def waiting(log: PartitionLog) -> Picture:
        assert gate.wait(WAIT_S)
        return picture_of(log)

    until(lambda: "read so far" not in get(console, "/partitions")[2])
    open_at(browser, console, f"partitions/{ORDERS}/1")
    monkeypatch.setattr(site, "picture_of", waiting)
    move = "((at) => { at.value = 10; ['input', 'change'].forEach((one) => "
    move += "at.dispatchEvent(new Event(one))) })(document.querySelector('#at'))"
    is_drawn = "document.querySelector('#then').textContent.startsWith('the past: after')"

    browser.run(move)
    said = browser.text("#then")
    is_busy = "document.querySelector('#picture').ariaBusy === 'true'"
    was_busy = browser.run(is_busy)
    gate.set()
    browser.wait_for(is_drawn)
    browser.run(move)
    browser.wait_for(is_drawn)

    assert said == "after position 10, about 2023-11-14T22:13:25Z, being drawn"
    assert was_busy
    assert not browser.run(is_busy)


def test_the_slider_goes_on_by_keys(browser: Browser, console: Console) -> None:
    until(lambda: "read so far" not in get(console, "/partitions")[2])
    open_at(browser, console, f"partitions/{ORDERS}/1")

    browser.type("#at", Keys.ARROW_LEFT)
    browser.hands.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT).perform()

    browser.wait_for("document.querySelector('#then').textContent.includes('position 40, 2')")
    assert browser.run("document.activeElement.id") == "at", "the next key moves it, too"
    assert browser.run("location.search") == "?at=40"


def test_a_long_log_has_a_first_picture_until_it_was_read(
    browser: Browser, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, gate = Histories.events, threading.Event()

    async def waiting(self: Histories, catalog: Catalog, tip: TopicIdPartition) -> object:
        await asyncio.to_thread(gate.wait)
        return await read(self, catalog, tip)

    monkeypatch.setattr(Histories, "events", waiting)
    monkeypatch.setattr(site, "EVENTS_MIN", 40)
    until(lambda: "Nothing was seen" not in get(console, "/")[2])
    open_at(browser, console, f"partitions/{ORDERS}/1")
    first = browser.text("main")
    boxes = len(browser.all("#picture rect.good"))
    gate.set()
    browser.wait_for("document.querySelector('#at') !== null")

    assert "Its log of 44 events is being read" in first
    assert boxes == 1 + 18, "one of the legend; two segments are being deleted, or are gone"
    assert "18 served" in browser.text("#picture")


def test_what_is_deleted_and_kept_has_a_page(browser: Browser, tmp_path: Path) -> None:
    asyncio.run(with_trash(tmp_path / "kept"))
    with served(tmp_path / "kept", browser) as console:
        open_at(browser, console, "trash")
        browser.wait_for("document.querySelectorAll('#kept tbody tr').length === 1")
        browser.wait_for("document.querySelector('#held').innerText.includes('does not run')")

        row = browser.text("#kept tbody tr")

    assert WHY in row
    assert "0 to 19" in row


def test_a_move_is_shown_as_it_goes(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "store", orders)
    readings = [moving(plugin(1, is_idle=True), plugin(2))]
    monkeypatch.setattr(sight, "take_look", looks_at(readings))
    with served(tmp_path / "store", browser) as console:
        open_at(browser, console, "move")
        browser.wait_for("document.querySelectorAll('.steps li').length === 8")
        browser.run("(window.isTheSame = true)")
        now = browser.text(".steps [aria-current]")
        readings.append(moving(plugin(1, is_idle=True), plugin(2, is_idle=True)))
        browser.wait_for(
            "document.querySelector('[aria-current=step]').innerText.includes('taken over')"
        )
        steps = browser.shown(".steps b")

        assert now.startswith("under way brokers hold their writes")
        assert now.endswith("not yet: broker 2")
        assert steps == ["done"] * 5 + ["under way"] + ["to come"] * 2
        assert browser.run("window.isTheSame")
        assert "moves from kafka to tierledger" in browser.text("#owner")
        assert "given back in 17 s" in browser.text("#owner")
        assert "brokers hold their writes" in browser.text("#holding")
        assert "standing" in browser.text("#comparison tbody tr")
        assert "kafka says 12, replica says 11" in browser.text("#comparison .differences")
        assert "5 times, the last 4 s ago" in browser.text("#told")
        assert browser.shown("#told li") == ["orders-1, size: 12 and 11"]
        assert browser.shown("#plugins tbody td:first-child") == ["1", "2"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "partitions",
        pytest.param("trash", marks=pytest.mark.long),
        pytest.param("move", marks=pytest.mark.long),
        "partitions/{orders}/1",
    ],
)
def test_a_page_can_be_read_and_operated_at_a_desk_and_on_a_phone(
    path: str, browser: Browser, console: Console
) -> None:
    until(lambda: "read so far" not in get(console, "/partitions")[2])
    for window in (nullcontext(), browser.phone()):
        open_at(browser, console, "move")
        with window:
            browser.driver.get(console.url + path.format(orders=ORDERS))
            browser.wait_for("document.querySelector('main section, #list') !== null")

            assert beside(browser) <= 0
            assert beside(browser, larger=True) <= 0, "with text twice as large"
            assert not broken(browser)
            assert not broken_in_the_dark(browser)
            rows = browser.all("#list tbody tr")
            assert all(one.size["height"] < 130 for one in rows), "several are seen at a time"


def test_no_page_is_scrolled_sideways_on_a_tablet(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(with_trash(tmp_path / "store"))
    write(tmp_path / "store", orders, others)
    monkeypatch.setattr(sight, "take_look", looks_at([moving(plugin(1), plugin(2))]))
    width = "document.documentElement.scrollWidth - innerWidth"
    cut = "[...document.querySelectorAll('.scroll')].filter((one) => one.querySelector('td')"
    cut += " && one.scrollWidth > one.clientWidth).map((one) => one.outerHTML.slice(0, 90))"
    with served(tmp_path / "store", browser) as console:
        open_at(browser, console)
        browser.resize(768)
        for path in ("", "partitions", f"partitions/{ORDERS}/1", "trash", "move"):
            browser.driver.get(console.url + path)
            browser.wait_for("document.querySelector('td') !== null")
            assert browser.run("innerWidth") == 768
            assert browser.run(width) <= 0
            assert browser.run(cut) == []


STRANGE = "x" * 249, f"{HOSTILE}</script><img src=x onerror=document.title='hit'>"


async def strange(backend: SqliteBackend) -> None:
    for at, topic in enumerate(STRANGE, 1):
        tip = TopicIdPartition(Uuid(bytes([20 + at]) * 16), 0, topic)
        partition = await StoredPartition.led(backend, tip)
        await partition.fill(range(3))


@pytest.mark.parametrize("is_phone", [True, pytest.param(False, marks=pytest.mark.long)])
def test_names_that_are_long_or_hostile_stay_names(
    is_phone: bool, browser: Browser, tmp_path: Path
) -> None:
    write(tmp_path / "store", strange)
    with served(tmp_path / "store", browser) as console:
        open_at(browser, console)
        with browser.phone() if is_phone else nullcontext():
            width = browser.run("innerWidth")
            long_named = f"partitions/{Uuid(bytes([21]) * 16)}/0"
            for path, shows in (
                ("", "#moved rect"),
                ("partitions", "#list td.ago"),
                (long_named, "#at"),
            ):
                browser.driver.get(console.url + path)
                browser.wait_for(f"document.querySelector('{shows}') !== null")
                assert browser.run("document.documentElement.scrollWidth") <= width
            told = "".join(browser.shown("h1"))
            browser.driver.get(f"{console.url}partitions?find=name")
            browser.wait_for("document.querySelectorAll('#list tbody tr').length === 1")
            name = browser.text("#list tbody a")

        assert told == "x" * 249 + "-0"
        assert name.startswith("evil\\u001b[2J\\u000aname</script><img")
        assert browser.driver.title == "Partitions"


def test_a_service_that_does_not_answer_is_told_until_it_does(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "store", orders)
    readings, silence = [reading({"host-0": host()})], list[NotReady]()
    look = looks_at(readings)

    async def silent(options: object) -> ClusterView:
        if silence:
            raise silence[-1]
        return await look(options)

    monkeypatch.setattr(sight, "take_look", silent)
    monkeypatch.setattr(sight, "SERVICE_S", 0.2)
    with served(tmp_path / "store", browser) as console:
        open_at(browser, console)
        browser.wait_for("document.querySelector('#screen dl') !== null")
        browser.run("(window.isTheSame = true)")
        silence.append(NotReady("no door of the service answers"))
        browser.wait_for("document.querySelector('#sight .blind') !== null")
        blind = browser.text("#sight")
        still = browser.text("#screen")
        silence.clear()
        browser.wait_for("document.querySelector('#sight .blind') === null")

        assert re.fullmatch(
            r"blind since \d{4}-\d\d-\d\dT[\d:.]+Z: no door of the service answers", blind
        )
        assert "host-0" in still, "what was seen last stays"
        assert browser.run("window.isTheSame")


def test_a_console_that_is_gone_is_noticed_and_taken_up_again(
    browser: Browser, tmp_path: Path
) -> None:
    write(tmp_path / "store", orders)
    options = StoreOptions(f"sqlite:{tmp_path / 'store'}")
    with served(tmp_path / "store") as console:
        open_at(browser, console)
        browser.wait_for("document.querySelector('#totals b').textContent === '1'")
        browser.run("(window.isTheSame = true)")

    browser.wait_for("document.querySelector('#line').textContent.startsWith('no answer')")
    write(tmp_path / "store", others)
    again = Console(options, urlsplit(console.url).netloc, "--listen")
    again.start()
    try:
        browser.wait_for("document.querySelector('#line').textContent === ''")
        browser.wait_for("document.querySelector('#totals b').textContent === '4'")
        assert browser.run("window.isTheSame")
        browser.complaints()  # The browser's own, about the lost connection.
        browser.driver.get("about:blank")
    finally:
        again.close()


def test_a_damaged_log_is_told_and_all_others_are_shown(tmp_path: Path) -> None:
    write(tmp_path / "store", orders, others)

    async def damage(backend: SqliteBackend) -> None:
        tip = TopicIdPartition(OLD_ORDERS, 0, "orders")
        await StoredPartition(backend, tip).flip(0)

    write(tmp_path / "store", damage)
    with served(tmp_path / "store") as console:
        until(lambda: "4 of 4 partitions<" in get(console, "/partitions")[2])
        rows = get(console, "/partitions?look=1")[2]
        status, _, page = get(console, f"/partitions/{OLD_ORDERS}/0")
        well = get(console, f"/partitions/{ORDERS}/1")[0]

    assert rows.count('<td class="bad"') == 1
    assert f">{OLD_ORDERS}-0</bdi>" in rows, "its topic is not known"
    assert (status, well) == (503, 200)
    assert "batch 0" in page


def test_it_answers_this_machine_alone_and_only_reads(console: Console) -> None:
    until(lambda: get(console, f"/partitions/{LARGE.topic_id}/0")[0] != 503)
    rebound = get(console, "/", Host="evil.example:80")
    missing = get(console, f"/partitions/{LARGE.topic_id}/0")
    wrong = get(console, "/partitions/nothing/0")
    status, headers, _ = get(console, "/partitions")
    moment = f"/partitions/{ORDERS}/1?at=5"
    tag = get(console, moment)[1]["etag"]
    same = get(console, moment, **{"If-None-Match": tag})
    later = get(console, moment.replace("at=5", "at=6"), **{"If-None-Match": tag})
    connection = HTTPConnection(urlsplit(console.url).netloc, timeout=WAIT_S)
    connection.request("POST", "/")

    assert rebound[0] == 421
    assert (missing[0], wrong[0]) == (404, 404)
    assert "has no partition 0" in missing[2]
    assert "for an id, got" in wrong[2]
    assert status == 200
    assert headers["x-frame-options"] == "DENY"
    assert (same[0], later[0]) == (304, 200), "the past does not change"
    assert connection.getresponse().status == 405
    connection.close()


def test_a_partition_in_quarantine_and_a_follower_behind_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "store", orders, others)
    of = {"topic_id": str(ORDERS)}
    bad = report(1, phase="quarantined", reason="a checksum is wrong", position=2010, **of)
    follower = report(1, "follower", position=10, **of)
    found = reading({"host-0": host(bad), "host-1": host(follower)})
    monkeypatch.setattr(sight, "take_look", looks_at([found]))
    with served(tmp_path / "store") as console:
        until(lambda: "1 of 4 partitions" in get(console, "/partitions?look=1")[2])
        cluster = get(console, "/")[2]
        rows = get(console, "/partitions?look=1&sort=behind&down=1")[2]

    assert 'class="verdict bad" id="trouble-1"><b>quarantined</b>' in cluster
    assert "a checksum is wrong" in cluster
    assert 'partition <a href="/partitions?find=orders-1"><bdi>orders-1</bdi></a>' in cluster
    assert ">orders-1</bdi>" in rows
    assert '<td class="n">2,000</td>' in rows


def test_a_page_that_is_open_before_its_store_is_there_gets_all_of_it(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "SERVICE_S", 0.2)
    with served(tmp_path / "store", browser) as console:
        until(lambda: "blind since" in get(console, "/")[2])
        open_at(browser, console)
        before = browser.text("h1")
        write(tmp_path / "store", orders)
        browser.wait_for("document.querySelector('#totals b').textContent === '1'")

        assert before == "Cluster not known yet"
        assert browser.text("h1") == browser.driver.title == "Cluster test-cluster"
        browser.wait_for("document.querySelector('#sight').textContent === ''")


def test_a_store_that_is_not_there_is_said_with_the_time(tmp_path: Path) -> None:
    with served(tmp_path / "none") as console:
        until(lambda: "blind since" in get(console, "/")[2])
        page = get(console, "/")[2]

    assert str(tmp_path / "none") in page


def test_a_mistake_of_the_console_is_not_taken_for_calm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "store", orders)
    nothing: dict[object, object] = {}
    monkeypatch.setattr(sight, "take_look", nothing.__getitem__)
    with served(tmp_path / "store") as console:
        until(lambda: "the console has failed: KeyError" in get(console, "/")[2])


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        ("0.0.0.0:0", "--listen: 0.0.0.0 can be reached from other machines"),
        ("127.0.0.1", "--listen: expected HOST:PORT"),
        ("127.0.0.1:99999", "--listen: expected HOST:PORT"),
    ],
)
def test_an_address_for_others_is_refused(listen: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Console(StoreOptions(f"sqlite:{tmp_path / 's'}"), listen, "--listen")


def test_an_address_that_is_taken_is_named(console: Console) -> None:
    taken = urlsplit(console.url).netloc

    with pytest.raises(InvalidArgument) as refused:
        Console(StoreOptions(None), taken, "--listen")

    assert str(refused.value) == (
        f"--listen: cannot listen at {taken}: Address already in use"
        "; --listen 127.0.0.1:0 takes a free port"
    )


SHOWN_AT = "document.querySelector('#then').textContent.includes('position %d, 2')"


def open_partition(browser: Browser, console: Console, query: str = "") -> None:
    page = f"partitions/{ORDERS}/1{query}"
    until(lambda: get(console, f"/{page}")[0] == 200)
    open_at(browser, console, page)


def test_a_page_that_could_not_be_shown_is_shown_as_soon_as_it_can_be(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "SERVICE_S", 0.2)
    with served(tmp_path / "store", browser) as console:
        until(lambda: "blind since" in get(console, "/")[2])
        open_at(browser, console, f"partitions/{ORDERS}/1")
        before = browser.text("main")
        write(tmp_path / "store", orders)
        browser.wait_for("document.querySelector('#at') !== null")
        browser.complaints()  # The browser's own, about the status 503.

    assert "the store cannot be read" in before


def test_a_link_to_a_part_of_the_page_shows_the_same_page(
    browser: Browser, console: Console
) -> None:
    open_partition(browser, console)
    browser.run("(window.isTheSame = true)")

    browser.click("#log h2 a")
    browser.wait_for("location.hash === '#log'")
    browser.settle()

    assert browser.run("window.isTheSame")


def test_steps_to_other_moments_are_one_entry_of_the_history(
    browser: Browser, console: Console
) -> None:
    open_partition(browser, console)
    browser.type("#at", Keys.HOME)
    browser.wait_for(SHOWN_AT % 0)

    for _ in range(3):
        browser.click("[data-step='1']")
    browser.wait_for(SHOWN_AT % 3)
    browser.type("#at", Keys.ARROW_RIGHT)
    browser.wait_for(SHOWN_AT % 4)
    address = browser.run("location.search")
    browser.driver.back()
    browser.wait_for(SHOWN_AT % 43)

    assert address == "?at=4"
    assert browser.run("location.search") == ""
    assert browser.run("document.querySelector('#at').value") == "43"


def test_all_of_a_page_follows_the_slider(browser: Browser, console: Console) -> None:
    open_partition(browser, console, "?since=10")
    changes = browser.text("#changes")
    assert not browser.shown("#back a")

    browser.type("#at", Keys.ARROW_LEFT)
    browser.wait_for(SHOWN_AT % 42)
    assert browser.text("#changes") != changes
    browser.type("[name=segment]", "A" + Keys.ENTER)
    browser.wait_for("location.search.includes('segment=A')")
    assert "at=42" in browser.run("location.search"), "of the moment that is shown"
    browser.click("#back a")
    browser.wait_for(SHOWN_AT % 43)

    browser.type("[name=segment]", "A" + Keys.ENTER)
    browser.wait_for("location.search.includes('segment=A')")
    assert browser.run("location.search") == "?segment=A", "what is newest goes on"


def test_a_moment_is_asked_for_by_its_time(browser: Browser, console: Console) -> None:
    open_partition(browser, console)
    browser.type("#as_of", "2023-11-14T22:13:30.500Z" + Keys.ENTER)
    browser.wait_for(SHOWN_AT % 21)
    address = browser.run("location.search")
    browser.type("#at", Keys.ARROW_RIGHT)
    browser.wait_for(SHOWN_AT % 22)

    assert address == "?as_of=2023-11-14T22%3A13%3A30.500Z"
    assert browser.run("location.search") == "?at=22"
    page = f"/partitions/{ORDERS}/1?as_of="
    assert "the log begins at 2023-11-14T" in get(console, f"{page}2001-01-01")[2]
    assert "as of: expected" in get(console, f"{page}yesterday")[2]
    assert get(console, f"{page}2h")[0] == 200


def test_text_that_is_selected_stays_and_is_said_to_be_old(
    browser: Browser, console: Console, tmp_path: Path
) -> None:
    open_at(browser, console, "partitions")
    browser.wait_for("document.querySelectorAll('#list td.n').length > 20")
    browser.run("getSelection().selectAllChildren(document.querySelector('#list td'))")
    held = "document.querySelector('#list').dataset.held !== undefined"

    write(tmp_path / "store", strange)
    browser.wait_for(held)
    selected = browser.run("getSelection().toString().trim()")
    browser.run("getSelection().removeAllRanges()")
    browser.wait_for("document.querySelectorAll('#list tbody tr').length === 6")

    assert selected.startswith("evil")
    assert not browser.run(held)


@pytest.mark.parametrize(
    ("name", "leads_to"),
    [
        ("partitions", "/partitions"),
        ("deleting", "/partitions?sort=deleting&down=1"),
        ("in the trash", "/trash"),
    ],
)
def test_a_total_leads_to_what_it_counts(
    name: str, leads_to: str, browser: Browser, console: Console
) -> None:
    until(lambda: "so far" not in get(console, "/")[2])
    open_at(browser, console)
    names = browser.shown("#totals li span")

    browser.click(f"#totals li:nth-child({names.index(name) + 1}) a")

    browser.wait_for(f"location.pathname + location.search === '{leads_to}'")


def test_a_segment_leads_to_its_events(browser: Browser, console: Console) -> None:
    segment = "document.querySelector('[name=segment]')?.value"
    open_partition(browser, console)
    browser.click("#picture .list summary")
    browser.wait_for("document.querySelector('#picture .list td a') !== null")
    first = browser.text("#picture .list td a")
    browser.click("#picture .list td a")
    browser.wait_for(f"{segment} === '{first}'")
    rows = browser.shown("#events tbody td:nth-child(3)")
    browser.driver.back()
    browser.wait_for(f"{segment} === ''")
    open_partition(browser, console)
    browser.type("#picture .plot .lane:nth-child(2) svg", Keys.ARROW_RIGHT + Keys.ENTER)
    browser.wait_for(f"{segment} === '{first}'")
    with browser.phone():
        open_partition(browser, console)
        one = "document.querySelector('#picture rect.good[data-s]')"
        browser.run(f"{one}.scrollIntoView({{block: 'center'}})")
        at = browser.run(f"(({{x, y}}) => [x, y])({one}.getBoundingClientRect())")
        browser.tap(at[0] + 3, at[1] + 4)
        browser.wait_for("!document.getElementById('tip').hidden")
        assert "its events" in browser.text("#tip")
        browser.tap(at[0] + 3, at[1] + 4)
        browser.wait_for(f"{segment}.length > 20")

    assert rows[-1] == "SegmentAdded"


def test_what_is_old_is_said_at_the_end_of_a_long_page_too(
    browser: Browser, console: Console
) -> None:
    with browser.phone():
        open_partition(browser, console)
        browser.run("scrollTo(0, document.documentElement.scrollHeight)")
        heading = browser.run("document.querySelector('h1').offsetTop")
        console.close()
        browser.wait_for("document.querySelector('#line').textContent.startsWith('no answer')")
        box = "document.querySelector('#line').getBoundingClientRect()"

        assert browser.run(f"{box}.top > 0 && {box}.bottom <= innerHeight + 1")
        assert browser.run("document.querySelector('h1').offsetTop") == heading
        browser.complaints()
        browser.driver.get("about:blank")


def test_what_was_asked_for_and_what_is_ticked_agree_after_going_back(
    browser: Browser, console: Console
) -> None:
    open_at(browser, console, "partitions")
    browser.click("[name=look]")
    browser.click(".controls button")
    browser.wait_for("location.search.includes('look=1')")
    browser.driver.back()
    browser.wait_for("location.search === ''")

    browser.wait_for("!document.querySelector('[name=look]').checked")
