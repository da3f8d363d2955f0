"""The distribution, as an index and programs that are installed beside it see it."""

import subprocess
import sys
import tarfile
import tomllib
import venv
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

import tierledger.client

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = PROJECT["tool"]["setuptools"]["package-dir"]
TYPES = ROOT / ".mypy_cache" / "programs"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's files, as a clone has them."""
    source = tmp_path_factory.mktemp("source")
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
    return source


@pytest.fixture(scope="module")
def wheels(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What pip makes of it: a wheel, and with `pip install -e` one that leads to the source.

    The wheel is that of the source distribution, as an index has it: both are looked at.
    """
    distribution = built("sdist", source, tmp_path_factory.mktemp("sdist"))
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(distribution) as archive:
        archive.extractall(unpacked, filter="data")
    (folder,) = unpacked.iterdir()
    return {
        "wheel": built("wheel", folder, tmp_path_factory.mktemp("wheel")),
        "editable": built("editable", source, tmp_path_factory.mktemp("editable")),
    }


def built(kind: str, source: Path, place: Path) -> Path:
    """What the build backend makes of the folder `source`."""
    build = f"from setuptools import build_meta as at; at.build_{kind}({str(place)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, check=True)
    (made,) = place.iterdir()
    return made


@pytest.fixture
def wheel(wheels: dict[str, Path]) -> list[str]:
    """The names of the files in the wheel."""
    with ZipFile(wheels["wheel"]) as archive:
        return archive.namelist()


@pytest.fixture(params=["wheel", "editable"])
def python(wheels: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The Python of an environment in which nothing but the package is installed."""
    venv.create(tmp_path / "environment")
    (packages,) = tmp_path.glob("environment/lib/python*/site-packages")
    with ZipFile(wheels[request.param]) as archive:
        archive.extractall(packages)
    return tmp_path / "environment" / "bin" / "python"


def test_a_strict_program_finds_the_types_of_an_installed_client(
    python: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from tierledger.client import RemoteLogMetadataManager\n"
        "reveal_type(RemoteLogMetadataManager().add_remote_log_segment_metadata)\n"
    )

    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(TYPES)]
    checked = subprocess.run(
        [*mypy, "--python-executable", python, program.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout
    assert "metadata.RemoteLogSegmentMetadata) -> int" in checked.stdout


def test_spark_finds_each_format_of_an_installed_package(python: Path) -> None:
    look = "import pkgutil; print(*(one.name for one in pkgutil.iter_modules()))"
    found = subprocess.run([python, "-c", look], capture_output=True, text=True, check=True)

    formats = {one for one in FOLDERS if one.startswith("pyspark_")} | {"pyspark_tierledger"}
    assert formats <= set(found.stdout.split())


def test_the_wheel_has_every_module_and_what_pages_are_made_of(
    wheels: dict[str, Path],
) -> None:
    expected = {}
    for package, folder in FOLDERS.items():
        for kind in ("*.py", "*.html", "*.css", "*.js"):
            for path in (ROOT / folder).rglob(kind):
                below = path.relative_to(ROOT / folder).as_posix()
                expected[f"{package.replace('.', '/')}/{below}"] = path.read_bytes()

    with ZipFile(wheels["wheel"]) as archive:
        there = {name: archive.read(name) for name in archive.namelist()}
    assert len(expected) > 500
    assert not expected.items() - there.items()


def test_an_index_takes_the_metadata(wheels: dict[str, Path]) -> None:
    with ZipFile(wheels["wheel"]) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith("/METADATA")]
        text = archive.read(name)

    told = Metadata.from_email(text, validate=True)  # It raises what an index would say.

    assert told.description_content_type == "text/markdown"
    assert told.description == (ROOT / "README.md").read_text(encoding="utf-8")
    assert told.license_expression == "Apache-2.0"
    assert told.license_files == ["LICENSE"]
    assert told.summary
    assert told.keywords


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
