"""A real browser, in which pages are opened and operated."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.common.exceptions import (
    ElementClickInterceptedException,
    StaleElementReferenceException,
)
from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",  # The sandbox refuses root; only our own pages are opened here.
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--force-device-scale-factor=1",
)

WAIT_S = 60.0
"""How long a page may take to become as a test expects, on a busy machine."""


class Browser:
    """A browser with one window; `open` shows a page in it."""

    def __init__(self, driver: Chrome, folder: Path) -> None:
        self.driver = driver
        self._folder = folder
        self._width = 0

    def open(self, html: str, width: int = 1400) -> None:
        path = self._folder / "page.html"
        path.write_text(html, encoding="utf-8")
        self.resize(width)
        self.complaints()  # Drop those of the page before.
        self.driver.get(path.as_uri())

    def resize(self, width: int) -> None:
        """Make the window so wide, if it is not."""
        if width != self._width:
            self.driver.set_window_size(width, 900)
            self._width = width

    def complaints(self) -> list[str]:
        """Errors, refusals and warnings in the console since the last call."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [one["message"] for one in entries]

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401 - The script's value.
        return self.driver.execute_script(f"return {script}", *arguments)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def point_at(self, selector: str) -> None:
        """Scroll the element to the window's middle, and move the mouse to it.

        At the window's edge drivers miss the element.
        """

        def point(one: WebElement) -> None:
            self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", one)
            self.settle()
            self.hands.move_to_element(one).perform()

        self._do(selector, point)

    def settle(self) -> None:
        """Wait until the page knows that it was scrolled: it then hides its tooltip."""
        self.driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def shown(self, selector: str) -> list[str]:
        """The texts of all matching elements that are visible, also outside of the window."""
        found: list[str] = self.run(
            "[...document.querySelectorAll(arguments[0])]"
            ".filter((one) => one.checkVisibility()).map((one) => one.textContent.trim())",
            selector,
        )
        return found

    def text(self, selector: str) -> str:
        """The text of the first such element, empty while it is hidden.

        It is read in one step: the console puts new elements into its page at any time.
        """
        text: str | None = self.run(
            "((one) => one && (one.checkVisibility() ? one.innerText.trim() : ''))"
            "(document.querySelector(arguments[0]))",
            selector,
        )
        assert text is not None, f"the page has no {selector}"
        return text

    def click(self, selector: str) -> None:
        self._do(selector, WebElement.click)

    def type(self, selector: str, keys: str) -> None:
        self._do(selector, lambda one: one.send_keys(keys))

    def _do(self, selector: str, action: Callable[[WebElement], None]) -> None:
        """Act on the first such element, or on the one that the page has put in its place.

        Again if the page has moved it meanwhile, so that something else was met.
        """

        def done(_: Chrome) -> bool:
            action(self.one(selector))
            return True

        moved = [StaleElementReferenceException, ElementClickInterceptedException]
        WebDriverWait(self.driver, WAIT_S, 0.02, ignored_exceptions=moved).until(done)

    @contextmanager
    def phone(self) -> Iterator[None]:
        """A window of 390 pixels and a finger, while the block lasts."""
        screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd(
                "Emulation.setTouchEmulationEnabled", {"enabled": False}
            )
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def tap(self, x: float, y: float) -> None:
        """Touch the window there for a moment."""
        self.settle()
        for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
            event = {"type": kind, "touchPoints": points}
            self.driver.execute_cdp_cmd("Input.dispatchTouchEvent", event)

    @property
    def hands(self) -> ActionChains:
        """A pointer that moves at once."""
        return ActionChains(self.driver, duration=0)

    def wait_for(self, script: str) -> None:
        """Wait until `script` is true; changes are painted by the next frame."""
        wait = WebDriverWait(self.driver, WAIT_S, poll_frequency=0.02)
        wait.until(lambda _: self.run(script), f"{script} did not come true")


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Chromium with a profile of its own in `folder`.

    Raises:
        RuntimeError: Chromium or its driver is not installed.
    """
    program = next(filter(None, map(shutil.which, NAMES)), None)
    service = shutil.which("chromedriver")
    if program is None or service is None:
        raise RuntimeError(
            "needs Chromium or Chrome and its chromedriver: "
            "run scripts/setup.sh --with-browser, which installs both or says how to"
        )
    options = ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    driver = Chrome(options=options, service=Service(service))
    try:
        yield Browser(driver, folder)
    finally:
        driver.quit()
