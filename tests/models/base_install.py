"""A process in which only what `pip install tierledger` brings can be imported."""

import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

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
"""Fails every import of what the first argument names, as if it were not installed."""


def project() -> dict[str, Any]:
    declared: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return declared


def closure(requirements: list[str]) -> set[str]:
    """The names of all distributions that the requirements bring along."""
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
    """The packages that are installed here and that no requirement of the base brings."""
    base = closure(project()["dependencies"]) | {"tierledger"}
    return tuple(
        sorted(
            package
            for package, owners in packages_distributions().items()
            if base.isdisjoint(map(canonicalize_name, owners)) and package.isidentifier()
        )
    )


def run_in_base(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """What `script` does with the arguments where nothing but the base is installed."""
    missing = ",".join(beyond_the_base())
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + script, missing, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
