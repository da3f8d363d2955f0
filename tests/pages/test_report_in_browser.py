"""The report, operated: filter, sort, fold, zoom, tooltips, keys, and the lists of segments."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.models.pages import sample_pages
from tests.models.pages.chromium import Browser


@pytest.fixture
def report(browser: Browser) -> Browser:
    browser.open(sample_pages.report("payments"))
    return browser


def test_the_filter_leaves_partitions_of_that_name(report: Browser) -> None:
    assert report.text("#count") == "3 of 3 partitions"

    report.type("#filter", "PAYments")

    assert report.text("#count") == "1 of 3 partitions"
    assert report.shown(".partition h2") == ["payments-1"]
    assert report.shown("#partitions tbody a") == ["payments-1"]


def test_only_partitions_with_findings_are_left(report: Browser) -> None:
    report.click("#look")

    assert report.shown(".partition h2") == ["orders-0"]
    report.click("#look")
    assert len(report.shown(".partition h2")) == 3


def test_a_heading_sorts_by_its_numbers_and_back(report: Browser) -> None:
    deleted = "#partitions td:nth-child(7)"

    report.click("#partitions th:nth-child(7) button")
    assert report.shown(deleted) == ["27", "1", "0"]
    report.click("#partitions th:nth-child(7) button")

    assert report.shown(deleted) == ["0", "1", "27"]
    assert report.one("#partitions th[aria-sort]").text.startswith("deleted")


def test_partitions_fold_and_a_link_unfolds_its_own(report: Browser) -> None:
    report.click("#fold")
    assert not report.shown(".partition .plot")

    report.click("#partitions a[href='#orders-0.2']")
    report.wait_for("document.getElementById('orders-0.2').open")

    assert len(report.all(".partition[open]")) == 1
    report.click("#unfold")
    assert len(report.all(".partition[open]")) == 3


def test_what_was_asked_for_is_in_the_address_and_a_link_shows_it_again(
    report: Browser,
) -> None:
    report.type("#filter", "orders")
    report.click("#look")
    report.click("#partitions th:nth-child(3) button")
    address = report.run("location.href")

    report.driver.get("about:blank")
    report.driver.get(address)

    assert report.shown(".partition h2") == ["orders-0"]
    assert report.run("document.getElementById('filter').value") == "orders"
    assert report.one("#partitions th[aria-sort]").text.startswith("recovered")


def test_pointing_at_a_bar_tells_of_its_segment(report: Browser) -> None:
    assert not report.shown("#tip")

    report.point_at("#orders-0 rect.served")

    told = dict(zip(report.shown("#tip dt"), report.shown("#tip dd"), strict=True))
    assert (told["start"], told["end"], told["state"]) == ("0", "9", "served")
    assert (told["size"], told["finished"]) == ("1000 B", "2023-11-14T22:13:22.000Z")
    report.point_at("h1")
    assert not report.shown("#tip")


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ("#orders-0 .whole rect.hole", "10 offsets"),
        ("#orders-0 rect.overlap", "are in several segments"),
        ("#orders-0 rect.b", "session 1: broker 1 (leader)"),
        ("#orders-0\\.2 rect.flag", "DELETE_PARTITION_MARKED by broker 1"),
    ],
)
def test_pointing_at_anything_else_tells_what_it_is(
    report: Browser, selector: str, told: str
) -> None:
    report.point_at(selector)

    assert told in report.text("#tip")


def test_arrows_walk_along_a_lane_and_escape_lets_go(report: Browser) -> None:
    lane = report.one("#orders-0 .plot .lane:nth-child(2) svg")

    lane.send_keys(Keys.ARROW_RIGHT)
    assert "start\n0" in report.text("#tip")
    lane.send_keys(Keys.END)
    assert "start\n40" in report.text("#tip")
    assert len(report.all("rect.at")) == 1
    lane.send_keys(Keys.ESCAPE)

    assert not report.shown("#tip")
    assert not report.all("rect.at")


def test_zoom_widens_a_partitions_drawings_and_no_others(report: Browser) -> None:
    width = "[...document.querySelectorAll('.plot')].map((one) => one.clientWidth)"
    before = report.run(width)

    report.click("#orders-0 [data-zoom='2']")
    report.click("#orders-0 [data-zoom='2']")
    assert [round(a / b) for a, b in zip(report.run(width), before, strict=True)] == [
        4, 4, 1, 1, 1, 1,
    ]  # fmt: skip
    report.click("#orders-0 [data-zoom='0.5']")
    assert round(report.run(width)[0] / before[0]) == 2
    report.click("#orders-0 [data-zoom='all']")

    assert report.run(width) == before


def test_zoom_to_what_is_left_shows_no_deleted_epochs(report: Browser) -> None:
    report.click("#payments-1 [data-zoom='live']")

    left = report.run(
        "document.querySelector('#payments-1 rect.served').getBoundingClientRect().left"
    )
    label = report.run(
        "document.querySelector('#payments-1 .label').getBoundingClientRect().right"
    )
    width = report.run(
        "document.querySelector('#payments-1 .lane:nth-child(2) svg').clientWidth"
    )
    assert width > 8 * 1000
    assert 0 <= left - label < 100


def test_epochs_of_which_nothing_is_left_unfold(report: Browser) -> None:
    assert report.text("#payments-1 .folded summary") == "27 epochs of which nothing is left"
    assert len(report.shown("#payments-1 .offsets rect.deleted")) == 0

    report.click("#payments-1 .folded summary")

    assert len(report.shown("#payments-1 .offsets rect.deleted")) == 27


def test_segments_are_listed_as_text_on_demand(report: Browser) -> None:
    assert not report.all("#orders-0 .list table")

    report.click("#orders-0 .list summary")
    report.wait_for("document.querySelector('#orders-0 .list table')")

    assert len(report.shown("#orders-0 .list tbody tr")) == 6
    assert report.shown("#orders-0 .list tbody td:nth-child(2)") == [
        "0",
        "20",
        "25",
        "35",
        "40",
        "50",
    ]
