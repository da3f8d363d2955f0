"""The distribution, as an index and programs that are installed beside it see it."""

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import tierledger.client

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = PROJECT["tool"]["setuptools"]["package-dir"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the files in the wheel that `make wheel` builds."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    source.mkdir()
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, tracked.stdout.split("\0")):
        if name.endswith((".py", ".typed", ".html", ".css", ".js", ".md", ".toml", "LICENSE")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", place, source],
        check=True,
    )
    (built,) = place.glob("*.whl")
    with ZipFile(built) as archive:
        return archive.namelist()


def test_the_wheel_has_every_module_and_what_pages_are_made_of(wheel: list[str]) -> None:
    expected = set()
    for package, folder in FOLDERS.items():
        for kind in ("*.py", "*.html", "*.css", "*.js"):
            for path in (ROOT / folder).rglob(kind):
                below = path.relative_to(ROOT / folder).as_posix()
                expected.add(f"{package.replace('.', '/')}/{below}")

    assert len(expected) > 500
    assert not expected - set(wheel)


def test_each_part_says_that_it_has_types(wheel: list[str]) -> None:
    parts = [package for package in FOLDERS if package.startswith("tierledger.")]

    assert {f"{one.replace('.', '/')}/py.typed" for one in parts} <= set(wheel)


def test_each_dependency_has_a_lowest_version() -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    needed = [*PROJECT["project"]["dependencies"], *(one for extra in extras for one in extra)]

    for text in needed:
        one = Requirement(text)
        kinds = {bound.operator for bound in one.specifier}
        assert one.name == "tierledger" or kinds & {">=", "=="}, text


def test_the_client_tells_its_version() -> None:
    assert tierledger.client.__version__ == version("tierledger")
