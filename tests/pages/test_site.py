"""The site of the pages: it builds without a warning, links lead somewhere, one searches."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from typing_extensions import override

from tests.house.test_python_reference import PARTS
from tests.models.pages.chromium import Browser
from tests.pages.test_every_page import CUT

ROOT = Path(__file__).parents[2]


class Links(HTMLParser):
    """What a page leads to and is led to, and what a browser loads with it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(html)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.ids.add(value)
            elif name == "href":
                (self.links if tag == "a" else self.loaded).append(value)
            elif name in {"src", "srcset", "poster", "data"}:
                self.loaded.append(value)


def build(site: Path, pages: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--silent", "site", f"SITE={site}", f"PAGES={pages}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site") / "site"
    done = build(site)
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_link_of_the_site_leads_somewhere(pages: dict[Path, Links]) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links:
            to = urlsplit(link)
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            is_there = target.exists() and (not to.fragment or to.fragment in pages[target].ids)
            if not to.scheme and not is_there:
                dead.append(f"{path.name}: {link}")

    assert len(pages) > 100
    assert not dead


def test_the_page_of_python_names_has_their_signatures(
    site: Path, pages: dict[Path, Links]
) -> None:
    path = site / "docs" / "python.html"
    shown = " ".join(re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8")).split())
    names = {one.rpartition(".")[2] for rows in PARTS.values() for one, _ in rows}

    assert {one.lower() for one in names} <= pages[path].ids
    assert "read( table: str, store: str, *, cluster: str | None = None," in unescape(shown)
    assert "read_prices(path: Path, labels: Path | None = None) -> Prices" in unescape(shown)
    assert "InvalidArgument: A file cannot be read" in shown
    assert "RemoteLogMetadataManager.when_ready(" in shown


def loaded(site: Path, pages: dict[Path, Links]) -> Iterator[str]:
    """All that a browser fetches by itself for some page."""
    for page in pages.values():
        yield from page.loaded
    for path in site.rglob("*.css"):
        yield from re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", path.read_text())


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Links]) -> None:
    found = set(loaded(site, pages))

    assert [one for one in found if ".css" in one]
    assert not [one for one in found if urlsplit(one).scheme not in {"", "data"}]
    assert not [one for one in found if one.startswith("//")]


def test_language_models_get_a_line_for_each_page(site: Path, pages: dict[Path, Links]) -> None:
    lines = (site / "llms.txt").read_text(encoding="utf-8").splitlines()
    listed = re.findall(r"^- \[.+?\]\((\S+)\): .", "\n".join(lines), re.MULTILINE)

    built = {path.relative_to(site).with_suffix(".md").as_posix() for path in pages}
    pages_alone = {one for one in built if one.startswith(("docs/", "kafka-plugin/", "C"))}
    assert {one.removeprefix("_sources/") for one in listed} == pages_alone - {"docs/README.md"}
    assert all((site / one).exists() for one in listed)


def test_one_page_fits_a_phone_and_one_finds_it_by_a_word(site: Path, browser: Browser) -> None:
    with browser.phone():
        browser.driver.get((site / "docs" / "kafka.html").as_uri())
        assert browser.shown("h1")
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert not browser.run(CUT.replace("body *", "article *")), "menus wait outside"

        browser.driver.get((site / "search.html").as_uri() + "?q=unexplained")
        browser.wait_for(
            "document.querySelector('#search-results a[href$=\"docs/deletion.html\"]') !== null"
        )


def test_a_button_copies_what_one_types(site: Path, browser: Browser) -> None:
    copied = "Object.defineProperty(navigator, 'clipboard', {value: {writeText: (text) => {"
    copied += " window.copied = text; return Promise.resolve(); }}})"
    for page, at, told in (
        ("tutorial", 0, "scripts/setup.sh --with-java --with-plugin\n"),
        ("console", 0, "tierledger console --store sqlite:ledger.sqlite\n"),
    ):
        browser.driver.get((site / "docs" / f"{page}.html").as_uri())
        browser.driver.execute_script(copied)
        browser.driver.execute_script(
            "document.querySelectorAll('.copies')[arguments[0]].click()", at
        )
        browser.wait_for("document.querySelector('.copies').textContent === 'copied'")
        assert browser.run("window.copied").startswith(told)
    assert not browser.all(".highlight-text .copies"), "what is printed is not typed"


def test_a_phone_shows_a_table_of_four_columns_and_has_room_for_a_finger(
    site: Path, browser: Browser
) -> None:
    with browser.phone():
        browser.driver.get((site / "docs" / "comparison.html").as_uri())
        cut = "(({scrollWidth, clientWidth}) => scrollWidth - clientWidth)"
        assert browser.run(f"{cut}(document.querySelector('.table-wrapper'))") <= 0
        lower = "[...document.querySelectorAll('.mobile-header label, .mobile-header button,"
        lower += " .sidebar-tree a, .copies')].filter((one) => one.checkVisibility()"
        lower += " && one.getBoundingClientRect().height < 39.5).map((one) => one.outerHTML)"
        browser.run("document.querySelector('label[for=__navigation]').click()")
        assert browser.run(lower) == []


def test_nothing_moves_for_who_wants_less_motion(site: Path, browser: Browser) -> None:
    moving = "[...document.querySelectorAll('*')].filter((one) => {"
    moving += " const style = getComputedStyle(one);"
    moving += " return style.scrollBehavior === 'smooth' || style.transitionDuration !== '0s';"
    moving += "}).length"
    browser.driver.get((site / "docs" / "tutorial.html").as_uri())
    moves = browser.run(moving)
    less = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", less)
    moves_less = browser.run(moving)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    assert moves > 0
    assert moves_less == 0


def test_pages_that_tell_how_it_is_are_found_before_those_that_tell_how_it_came_to_be(
    site: Path, browser: Browser
) -> None:
    browser.driver.get((site / "search.html").as_uri() + "?q=retention")
    browser.wait_for("document.querySelector('#search-results a[href*=\"adr/0012\"]') !== null")
    found = browser.run(
        "[...document.querySelectorAll('#search-results li a')]"
        ".map((one) => one.getAttribute('href'))"
    )
    of_history = ["adr/" in one or "CHANGELOG" in one for one in found]

    assert of_history.index(True) > 10
    assert all(of_history[of_history.index(True) :])


def test_an_option_in_a_table_is_not_broken_behind_its_hyphens(
    site: Path, browser: Browser
) -> None:
    browser.resize(1280)
    browser.driver.get((site / "docs" / "commands.html").as_uri())
    higher_than_a_line = browser.run(
        "[...document.querySelectorAll('td code')].filter((one) =>"
        "one.textContent.startsWith('--') && one.getBoundingClientRect().height > 30)"
        ".map((one) => one.textContent)"
    )

    assert not higher_than_a_line


def test_a_link_that_leads_nowhere_and_a_page_that_nobody_lists_fail_the_build(
    tmp_path: Path,
) -> None:
    docs = tmp_path / "pages" / "docs"
    docs.mkdir(parents=True)
    (docs / "conf.py").write_bytes((ROOT / "docs" / "conf.py").read_bytes())
    shutil.copytree(ROOT / "docs" / "site", docs / "site")
    (tmp_path / "pages" / "README.md").write_text("# It\n\nOne.\n")
    (docs / "README.md").write_text("# All\n\n## Part\n\n- [Other](other.md): what it holds\n")
    (docs / "other.md").write_text(
        "# Other\n\n[a](unlisted.md#no-such-part) [b](nothing.md) [c](#nowhere)\n"
    )
    (docs / "unlisted.md").write_text("# Unlisted\n")

    done = build(tmp_path / "site", tmp_path / "pages")

    assert done.returncode != 0
    for what in ("no-such-part", "nothing.md", "nowhere", "docs/unlisted.md: WARNING"):
        assert what in done.stderr
