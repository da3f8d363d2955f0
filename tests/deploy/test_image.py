"""The container image: of locked packages alone, without rights, and with a health check.

Whether it builds and serves needs an image of Debian, which no registry of packages has;
docs/packages.md tells what was tried.
"""

from __future__ import annotations

import re
from importlib.metadata import requires

from packaging.requirements import Requirement

from scripts.locked import needed, roots_of
from scripts.render_chart import ROOT
from tierledger.health.server import READY_PATH

FILE = (ROOT / "deploy" / "container" / "Containerfile").read_text()
LOCK = (ROOT / "requirements.lock").read_text()
EXTRAS = re.findall(
    r"scripts/locked.py ([a-z ]+) >", (ROOT / "scripts" / "image.sh").read_text()
)[0].split()


def instructions() -> list[list[str]]:
    """Name and text of each instruction."""
    text = re.sub(r"^#.*\n", "", FILE, flags=re.MULTILINE).replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line]


def closure(roots: set[str]) -> set[str]:
    """What these packages need, as they say themselves, on this machine."""
    found: set[str] = set()
    todo = [(name, "") for name in roots]
    while todo:
        name, extra = todo.pop()
        found.add(name)
        for text in requires(name) or ():
            one = Requirement(text)
            if one.marker is not None and not one.marker.evaluate({"extra": extra}):
                continue
            below = re.sub(r"[._-]+", "-", one.name).lower()
            todo += [(below, each) for each in ("", *one.extras) if below not in found]
    return found


def test_the_lock_of_the_image_has_all_that_the_service_needs_with_hashes() -> None:
    part = needed(LOCK, roots_of(EXTRAS))
    entries = re.findall(r"^([a-z0-9-]+)==\S+(.*(?:\n .*)*)", part, re.MULTILINE)

    assert closure(roots_of(EXTRAS)) <= {name for name, _ in entries}
    assert all("--hash=sha256:" in rest for _, rest in entries)
    assert set(part.splitlines()) <= set(LOCK.splitlines())
    assert "pyspark==" not in part
    assert "mypy==" not in part


def test_the_image_has_what_each_store_of_the_chart_needs() -> None:
    assert {"service", "bucket", "console"} <= set(EXTRAS)


def test_nothing_is_installed_but_by_hash_or_from_the_wheel() -> None:
    installed = [text for _, text in instructions() if "/pip install" in text]

    assert len(installed) == 2
    for one in installed:
        assert "--require-hashes" in one or "--no-index" in one


def test_it_runs_as_nobody_in_particular_and_tells_whether_it_is_ready() -> None:
    given = dict(instructions()[-10:])

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", given["USER"])
    assert READY_PATH in given["HEALTHCHECK"]
    assert given["STOPSIGNAL"] == "SIGTERM"
    assert given["CMD"] == '["serve", "--metrics-port", "9464"]'
    assert ":9464" in given["HEALTHCHECK"]


def test_it_names_no_secret() -> None:
    assert not re.search(r"password|secret|token", FILE, re.IGNORECASE)
