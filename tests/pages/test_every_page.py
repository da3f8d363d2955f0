"""Each page in a real browser: it fits the window, it runs, and in the dark it is dark."""

import pytest

from tests.models.pages import sample_pages
from tests.models.pages.chromium import Browser

PAGES = {**sample_pages.JOBS, "report": sample_pages.report, "run": sample_pages.run}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_wide_and_a_narrow_window(browser: Browser, name: str) -> None:
    for width in (1400, 480):
        browser.open(PAGES[name](), width)

        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.shown("h1")
        assert browser.shown("main svg, canvas")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_dark_where_that_is_asked_for(browser: Browser, name: str) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    browser.open(PAGES[name]())
    light = browser.run(colour)

    asked = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", asked)
    dark = browser.run(colour)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 24, 29)")


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
