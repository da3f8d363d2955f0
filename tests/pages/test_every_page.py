"""Each page in a real browser: it fits the window, it runs, and in the dark it is dark."""

import pytest

from tests.models.pages import sample_pages
from tests.models.pages.chromium import Browser
from tests.models.pages.rules import (
    BACKTICKS,
    FAINT,
    NAMELESS,
    SMALL,
    UNMARKED,
    beside,
    broken,
)

CUT = """[...document.querySelectorAll("body *")].filter((one) => {
  const {left, right} = one.getBoundingClientRect();
  const scrolls = (it) => it && (/auto|scroll/.test(getComputedStyle(it).overflowX)
    || scrolls(it.parentElement));
  const width = document.documentElement.clientWidth;
  return one.checkVisibility() && (left < -1 || right > width + 1)
    && !scrolls(one.parentElement);
}).map((one) => one.outerHTML.slice(0, 80)).join()"""
"""What sticks out of the window where nothing scrolls it."""

HIDDEN_CELLS = """[...document.querySelectorAll("td, tbody th")].filter((one) =>
  one.textContent.trim() && one.checkVisibility()
  && one.getBoundingClientRect().right > innerWidth + 1
).map((one) => one.outerHTML.slice(0, 80)).join()"""
"""Cells of tables to which one would have to scroll."""

LEFT_OUT = """[...document.querySelectorAll("td")].filter((one) => one.textContent.trim()
  && one.closest("tr").checkVisibility() && !one.checkVisibility()
).map((one) => one.outerHTML.slice(0, 80)).join()"""
"""Cells with a value that are not shown, though their row is."""

PAGES = {**sample_pages.JOBS, "report": sample_pages.report, "run": sample_pages.run}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_wide_window_and_a_phone(browser: Browser, name: str) -> None:
    browser.open(PAGES[name](), 1400)
    _fits(browser)
    assert not broken(browser)
    with browser.phone():
        browser.open(PAGES[name]())
        _fits(browser)
        assert not broken(browser)
        assert browser.run("innerWidth") == 390
        assert not browser.run(CUT), "what does not fit can be scrolled to"
        browser.run(
            "document.querySelectorAll('details').forEach((one) => { one.open = true })"
        )
        browser.wait_for("document.querySelector('td').checkVisibility()")
        assert not browser.run(HIDDEN_CELLS), "on a phone a row is a list"
        if name in sample_pages.JOBS:
            assert not browser.run(LEFT_OUT), "a number of zero is an answer, too"


@pytest.mark.parametrize("width", [768, 1024])
@pytest.mark.parametrize("name", PAGES)
def test_no_table_is_scrolled_sideways(browser: Browser, name: str, width: int) -> None:
    browser.open(PAGES[name](), width)
    assert browser.run("innerWidth") == width
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    browser.wait_for("document.querySelector('td').checkVisibility()")
    browser.settle()
    assert not browser.run(HIDDEN_CELLS), "a table that does not fit is a list"
    assert not broken(browser)


def test_a_table_is_one_again_where_it_fits(browser: Browser) -> None:
    listed = "document.querySelector('#partitions').classList.contains('listed')"
    browser.open(sample_pages.report(), 400)
    assert browser.run(listed)
    browser.resize(1400)
    browser.wait_for(f"!{listed}")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(listed), "paper is narrow"
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert not browser.run(listed)


def _fits(browser: Browser) -> None:
    assert beside(browser) <= 0
    assert beside(browser, larger=True) <= 0, "with text twice as large"
    assert browser.shown("h1")
    assert browser.shown("main svg, canvas")


def test_what_sticks_out_of_the_window_is_seen(browser: Browser) -> None:
    with browser.phone():
        page = sample_pages.stuck()
        browser.open(page.replace("</h1>", "<div style='width: 600px'>…</div></h1>"))
        assert browser.run(CUT).startswith("<div")


@pytest.mark.parametrize(
    ("rule", "planted"),
    [
        (NAMELESS, "<button style='width: 30px; height: 30px'></button>"),
        (SMALL, "<button style='height: 14px; padding: 0'>a</button>"),
        (FAINT, "<p style='opacity: .5'>pale</p>"),
        (FAINT, "<style>::placeholder { color: #aaa }</style><input placeholder='pale'>"),
        (BACKTICKS, "<p>run `this`</p>"),
        (UNMARKED, "<button style='outline: 0'>a button</button>"),
    ],
)
def test_what_breaks_a_rule_is_seen(browser: Browser, rule: str, planted: str) -> None:
    browser.open(f"<!doctype html><body>{planted}")

    assert browser.run(rule)


@pytest.mark.parametrize(
    ("name", "box"),
    [("report", "#orders-0 rect.served"), ("coverage", ".group rect.bad")],
)
def test_a_finger_is_told_what_a_box_is(browser: Browser, name: str, box: str) -> None:
    with browser.phone():
        browser.open(PAGES[name]())
        one = f"document.querySelector('{box}')"
        browser.run(f"{one}.scrollIntoView({{block: 'center'}})")
        at = browser.run(f"(({{x, y}}) => [x, y])({one}.getBoundingClientRect())")

        browser.tap(at[0] + 5, at[1] + 4)

        browser.wait_for("!document.getElementById('tip').hidden")


def test_a_finger_pins_a_mark_of_a_run(browser: Browser) -> None:
    with browser.phone():
        browser.open(sample_pages.run())
        browser.run("document.querySelector('#picture').scrollIntoView({block: 'center'})")
        names = "document.querySelector('#names button').getBoundingClientRect()"
        picture = "document.querySelector('#picture').getBoundingClientRect()"
        y = browser.run(f"{names}.y + 12")
        left, width = browser.run(f"(({{x, width}}) => [x, width])({picture})")
        pinned = "document.querySelector('#pinned dl') !== null"

        for part in range(0, 100, 2):
            browser.tap(left + width * part / 100, y)
            if browser.run(pinned):
                break

        assert browser.run(pinned)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_dark_where_that_is_asked_for(browser: Browser, name: str) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    browser.open(PAGES[name]())
    light = browser.run(colour)

    asked = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", asked)
    dark, faint = browser.run(colour), browser.run(FAINT)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 24, 29)")
    assert not faint


@pytest.mark.parametrize("planted", ["<script>document.title='x'</script>", "<b onclick=''>"])
def test_a_script_that_is_not_the_pages_own_does_not_run(
    browser: Browser, planted: str
) -> None:
    browser.open(sample_pages.report().replace("</main>", planted + "</main>"))
    if planted.startswith("<b"):
        browser.run("document.querySelector('b[onclick]').click()")

    assert browser.driver.title == "Remote log metadata"
    assert any("Content Security Policy" in one for one in browser.complaints())


def test_the_console_is_heard(browser: Browser) -> None:
    browser.open("<!doctype html><script>nothing.there</script>")

    assert any("nothing is not defined" in one for one in browser.complaints())
