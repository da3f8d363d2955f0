"""House rules that no linter knows. Each failure names the remedy."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = (
    "client",
    "events",
    "storage",
    "tiering",
    "pipeline",
    "actors",
    "pages",
    "simulation",
    "health",
    "conformance",
    "moving",
    "cli",
    "benchmarks",
)

VAGUE_NAMES = {"utils", "util", "helpers", "common", "misc", "base", "manager"}
TEXT_SUFFIXES = {
    "", ".cfg", ".css", ".html", ".in", ".ini", ".js", ".json", ".lock", ".md", ".py", ".sh",
    ".toml",
}  # fmt: skip
NO_TEXT_OF_OURS = {"LICENSE"}

# Put together from halves, so that this file does not break its own rules.
REMINDER = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.~-])/(?:home|root|work|Users)/\w"),
    "the number of an issue": re.compile(r"\b(?:[Ii]ssue|PR|GH)[ -]#?\d+|(?<![\w&/])#\d+\b"),
    "a package host": re.compile(r"\b(?:files\.)?(?:py" + r"pi|pythonhosted)\.(?:org|io)\b"),
}


def sources() -> list[Path]:
    return [path for part in (*PARTS, "tests") for path in sorted((ROOT / part).rglob("*.py"))]


def texts() -> Iterator[Path]:
    """Every file that is, or could be, committed and is meant for reading."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    # Without git (an unpacked archive) the sources are what can be told from what was built.
    for path in [ROOT / name for name in listed] or sources():
        readable = path.suffix in TEXT_SUFFIXES and path.name not in NO_TEXT_OF_OURS
        if readable and path.is_file():
            yield path


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def used(tree: ast.AST) -> Iterator[str]:
    """Imported names, and attributes of names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


SOURCES = sources()


@cache
def product() -> dict[str, frozenset[str]]:
    """Each file of the product, and what it uses."""
    return {
        name(path): frozenset(used(ast.parse(path.read_text())))
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] in PARTS[:-1]
    }


def users(names: set[str]) -> set[str]:
    """The files of the product that use one of `names`."""
    found = {path for path, uses in product().items() if uses & names}
    assert found, f"nothing uses one of {names}: the rule looks for what is not there"
    return found


def test_a_module_is_named_after_what_it_holds() -> None:
    vague = [name(path) for path in SOURCES if path.stem.strip("_") in VAGUE_NAMES]

    assert not vague, "name the noun that the file is about"


TWINS = ("simulation/checkers/slow/",)
"""What is written a second time, to check the first, has the first one's names."""

SHARED = {
    "Operation",  # Of a history, as checkers of histories call it; of a tier, as Kafka does.
    "Ready",  # An observation is called after what it saw.
    "Entry",
    "_Asking",
    "_Lives",
}
"""Names that the simulator has twice, or has beside the product. No new ones, please."""


def test_a_class_has_a_name_of_its_own() -> None:
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        if not name(path).startswith(("tests/", *TWINS)):
            for one in ast.parse(path.read_text()).body:
                if isinstance(one, ast.ClassDef) and one.name not in SHARED:
                    found.setdefault(one.name, []).append(name(path))

    twice = {one: paths for one, paths in found.items() if len(paths) > 1}

    assert len(found) > 1000
    assert not twice, "say what it is of, or make the two one: a search finds both"


IMPORTING = {
    "client/__init__.py",  # Programs of others import from it.
    "actors/door/__init__.py",  # What it imports has to come before gRPC.
}
"""Packages that are there for more than their modules."""


def test_a_package_starts_with_a_docstring_and_nothing_else() -> None:
    packages = {name(path) for path in SOURCES if path.name == "__init__.py"} - IMPORTING
    kinds = {
        path: [type(one) for one in ast.parse((ROOT / path).read_text()).body]
        for path in packages
    }

    more = [path for path, found in kinds.items() if found != [ast.Expr]]

    assert packages
    assert not more, "import from the module that defines it, not from the package"


RAY_SHELLS = ("actors/ray/", "simulation/live/ray_faults.py", "moving/standby.py")


def test_ray_is_imported_only_by_its_shells() -> None:
    importing = {path for path, uses in product().items() if any(map(of_ray, uses))}

    others = {path for path in importing if not path.startswith(RAY_SHELLS)}

    assert importing
    assert not others, "go through a module of actors/ray"


def of_ray(name: str) -> bool:
    return name.partition(".")[0] == "ray"


ENVIRONMENT_READERS = {
    "cli/settings.py",
    "actors/ray/cluster.py",  # Ray takes some of its settings from there and nowhere else.
    "actors/door/without_fork_handlers.py",  # So does gRPC.
    "pipeline/session.py",  # And Spark.
}


SIGNALLERS = ("actors/processes.py", "simulation/live/", "benchmarks/failover.py")
"""The others are drills: they strike what they have started."""


def test_a_pid_is_no_process() -> None:
    signalling = users({"os.kill", "os.killpg"})

    others = {path for path in signalling if not path.startswith(SIGNALLERS)}

    assert not others, "send it through actors/processes.py"


LOGGERS = {
    "storage/process_log.py",
    "cli/commands/simulate/live.py",  # Results only.
    "simulation/service/verdict.py",  # A world's log, in which lines fail.
}
"""Who may touch structlog."""

TELLING = ("actors", "storage", "tiering", "moving", "health", "events")


def test_a_process_tells_by_the_log_that_cannot_fail() -> None:
    telling = {path for path, uses in product().items() if any(map(of_structlog, uses))}
    printing = {
        name(path)
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] in TELLING or path.stem == "serve"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id in {"print", "print_note", "print_error"}
    }

    assert telling == LOGGERS, "log by a ProcessLog (storage/process_log.py)"
    assert not printing, "log by a ProcessLog; `serve` puts its results into RESULTS"


def of_structlog(name: str) -> bool:
    return name.partition(".")[0] == "structlog"


def test_the_environment_is_read_in_one_place() -> None:
    reading = users({"os.environ", "os.getenv"})

    assert reading == ENVIRONMENT_READERS, "take it as a setting"


def test_nobody_leaves_a_reminder_in_the_code() -> None:
    left = [name(path) for path in texts() if REMINDER.search(path.read_text())]

    assert not left, "do it, or say in a comment why it is as it is"


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_text_is_about_the_project_alone(what: str) -> None:
    found = [
        f"{name(path)}: {match[0]}"
        for path in texts()
        for match in FORBIDDEN[what].finditer(path.read_text())
    ]

    assert not found, f"{what} means nothing to a reader elsewhere"


def test_the_lock_names_no_host_and_hashes_everything() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^[\w.-]+==\S+.*$", lock, flags=re.MULTILINE)

    assert "://" not in lock
    assert pins
    assert lock.count("--hash=") >= len(pins)
    assert all(pin.endswith("\\") for pin in pins), "a package without a hash"


def test_every_folder_with_code_is_a_package_that_is_installed() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {
        f"tierledger.{'.'.join(path.parent.relative_to(ROOT).parts)}"
        for path in SOURCES
        if path.relative_to(ROOT).parts[0] != "tests"
    }

    missing = folders - set(setuptools["packages"])

    assert not missing, "add it to packages in pyproject.toml"


def test_every_decision_is_linked_from_the_architecture() -> None:
    architecture = ROOT / "docs" / "architecture.md"
    text = architecture.read_text() if architecture.exists() else None
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))

    unlinked = [path.name for path in decisions if text is not None and path.name not in text]

    assert decisions
    assert not unlinked
