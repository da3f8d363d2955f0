"""A process that can only import the packages that `pip install tierledger` installs."""

import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]

PRELUDE = """
import sys

MISSING = set(sys.argv.pop(1).split(","))

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing)
"""
"""Code by which imports of the packages in the first argument fail, as if not installed."""


def project() -> dict[str, Any]:
    declared: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return declared


def closure(requirements: list[str]) -> set[str]:
    """The names of all distributions that the requirements install, directly or not."""
    found: set[tuple[str, str]] = set()
    waiting = [(Requirement(one), "") for one in requirements]
    while waiting:
        one, extra = waiting.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        for wanted in ("", *one.extras):
            known = (canonicalize_name(one.name), wanted)
            if known not in found:
                found.add(known)
                waiting += [(Requirement(need), wanted) for need in needs_of(one.name)]
    return {name for name, _ in found}


def needs_of(distribution: str) -> list[str]:
    try:
        return requires(distribution) or []
    except PackageNotFoundError:  # Of another platform.
        return []


@cache
def beyond_the_base() -> tuple[str, ...]:
    """The packages that are installed here and do not belong to the base installation."""
    base = closure(project()["dependencies"]) | {"tierledger"}
    return tuple(
        sorted(
            package
            for package, owners in packages_distributions().items()
            if base.isdisjoint(map(canonicalize_name, owners)) and package.isidentifier()
        )
    )


def run_in_base(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `script` with the arguments in a process that has only the base installation."""
    missing = ",".join(beyond_the_base())
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + script, missing, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
