"""The pictures of the documents show pages as they are."""

from pathlib import Path

import pytest

from tests.models.cli.command_line import ORDERS, orders, write
from tests.models.pages.chromium import Browser
from tests.models.pages.pictures import FOLDER, HEIGHTS, frame_in, frame_of
from tests.pages.test_console_in_browser import get, open_at, served, until

PATHS = {"console-cluster": "", "console-partition": f"partitions/{ORDERS}/1"}


def test_each_picture_of_the_documents_can_be_made_anew() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*HEIGHTS} == {*PATHS}


@pytest.mark.parametrize("name", PATHS)
def test_a_picture_shows_what_stands_on_its_page_now(
    name: str, browser: Browser, tmp_path: Path
) -> None:
    write(tmp_path / "store", orders)
    with served(tmp_path / "store", browser) as console:
        until(lambda: "of 1 partition<" in get(console, "/partitions")[2])
        open_at(browser, console, PATHS[name])
        browser.wait_for("document.querySelector('#at, #moved rect') !== null")

        now = frame_of(browser)

    assert frame_in((FOLDER / f"{name}.png").read_bytes()) == now, "`make pictures` is due"
