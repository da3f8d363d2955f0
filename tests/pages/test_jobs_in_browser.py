"""The pages of jobs, operated: find, fold, share as a link, and tell what a thing is."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.models.pages import sample_pages
from tests.models.pages.chromium import Browser

HEIGHT_MAX = 4000
"""Pixels of a page about 806 segments, at any width."""


def test_what_is_missing_dominates_and_the_page_stays_short(browser: Browser) -> None:
    html = sample_pages.lossy_audit()
    browser.open(html)

    shares = browser.run(
        "[...document.querySelectorAll('.big .lane')].map((lane) => "
        "lane.querySelector('rect.bad')?.getBoundingClientRect().width / "
        "lane.querySelector('svg').clientWidth)"
    )
    assert shares[0] == pytest.approx(766 / 806, abs=0.01), "of what should be there"
    assert shares[1] is None, "nothing of it is there"
    assert browser.text(".verdict").startswith("766 of 806")
    assert browser.text("#count") == "60 of 60 partitions, 766 of 766 findings"
    heights = [browser.run("document.documentElement.scrollHeight")]
    with browser.phone():
        browser.open(html)
        heights.append(browser.run("document.documentElement.scrollHeight"))
        assert browser.run("document.documentElement.scrollWidth") == 390
    assert max(heights) < HEIGHT_MAX


def test_what_a_topic_has_before_and_after_stays_together(browser: Browser) -> None:
    browser.open(sample_pages.retention())

    lanes = browser.run(
        "[...document.querySelectorAll('#topics .lane')].map((lane) => "
        "[getComputedStyle(lane).borderTopWidth, "
        "lane.querySelector('svg').ariaLabel.split(' ').slice(0, 2)])"
    )
    assert [line for line, _ in lanes] == ["1px", "0px"] * 4
    assert lanes[0][1][0] == lanes[1][1][0], "both name the topic"
    assert [label[1] for _, label in lanes] == ["before:", "after:"] * 4


def test_a_long_list_is_cut_and_says_how_much_is_left(browser: Browser) -> None:
    browser.open(sample_pages.lossy_audit())

    assert len(browser.shown(".group > summary")) == 40
    assert browser.text("#more") == "Show 20 more"
    browser.click("#more")

    assert len(browser.shown(".group > summary")) == 60
    assert not browser.shown("#more")


def test_words_and_kinds_find_and_a_link_shows_the_same_again(browser: Browser) -> None:
    browser.open(sample_pages.audit())
    browser.type("#find", "payments-1")
    browser.click("[data-kind='orphan']")

    def view() -> tuple[list[str], list[str], str]:
        return (
            browser.shown(".group > summary b"),
            browser.shown(".group[open] .item td.word"),
            browser.text("#count"),
        )

    found = view()
    address = browser.run("location.href")
    browser.driver.get("about:blank")
    browser.driver.get(address)

    assert found == (["payments-1"], ["orphan"], "1 of 4 partitions, 1 of 18 findings")
    assert view() == found
    assert browser.one("[data-kind='orphan']").get_attribute("aria-pressed") == "true"


def test_a_link_to_a_partition_shows_and_unfolds_it(browser: Browser) -> None:
    browser.open(sample_pages.lossy_audit())
    last = browser.all(".group")[-1]
    assert not last.is_displayed()
    name = last.get_attribute("id")

    browser.run(f"location.hash = {name!r}")
    browser.wait_for(f"document.getElementById({name!r}).open")

    assert browser.all(".group")[-1].is_displayed()


def test_a_finger_and_the_keyboard_are_told_what_a_mouse_is(browser: Browser) -> None:
    with browser.phone():
        browser.open(sample_pages.coverage())
        hole = "document.querySelector('.group rect.bad')"
        browser.run(f"{hole}.scrollIntoView({{block: 'center'}})")
        at = browser.run(f"(({{x, y}}) => [x, y])({hole}.getBoundingClientRect())")

        browser.tap(at[0] + 3, at[1] - 4)  # A little beside it.

        browser.wait_for("!document.getElementById('tip').hidden")
        assert browser.text("#tip").startswith("hole: offsets 100 to 199")
    browser.one(".group svg").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert browser.text("#tip").startswith("hole: offsets 100 to 199")
    browser.one(".group svg").send_keys(Keys.ESCAPE)
    assert not browser.shown("#tip")


def test_the_thinnest_box_is_seen_on_a_phone(browser: Browser) -> None:
    with browser.phone():
        browser.open(sample_pages.lone_segments())

        boxes = browser.run(
            "[...document.querySelectorAll('.group rect')]"
            ".map((one) => one.getBoundingClientRect().toJSON())"
        )
        right = browser.run(
            "document.querySelector('.group svg').getBoundingClientRect().right"
        )
    assert len(boxes) == 3
    assert min(one["width"] for one in boxes) >= 4
    assert max(one["right"] for one in boxes) <= right + 0.1
