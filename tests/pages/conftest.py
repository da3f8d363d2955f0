"""One browser for all tests of pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.pages.chromium import Browser, chromium


@pytest.fixture(scope="session")
def shared_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(shared_browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    """The browser; fails a test in which a page complains."""
    yield shared_browser
    assert shared_browser.complaints() == []
