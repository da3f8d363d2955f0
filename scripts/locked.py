"""Prints what extras of tierledger need of requirements.lock: `locked.py service console`.

The lock names beside each package the packages that need it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def needed(lock: str, roots: set[str]) -> str:
    """The entries of `lock` for `roots` and all that they need, in the lock's order."""
    entries = dict(zip(*_split(lock), strict=True))
    found, before = roots & entries.keys(), -1
    while len(found) > before:
        before = len(found)
        found |= {name for name, entry in entries.items() if found & _parents(entry)}
    return "".join(entry for name, entry in entries.items() if name in found)


def _split(lock: str) -> tuple[list[str], list[str]]:
    """The names of the packages, and for each its entry."""
    entries = re.findall(r"^[a-z0-9][^\n]*\n(?: [^\n]*\n)*", lock, re.MULTILINE)
    return [_name(one) for one in entries], entries


def _parents(entry: str) -> set[str]:
    """The packages that need this one."""
    return set(re.findall(r"^    # (?:via|  ) ?([a-z0-9-]+)$", entry, re.MULTILINE))


def roots_of(extras: list[str]) -> set[str]:
    """The packages that tierledger with `extras` names itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = list(project["dependencies"])
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    return {_name(text) for text in texts}


def _name(requirement: str) -> str:
    """The name in `requirement`, as the lock writes it."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return re.sub(r"[._-]+", "-", found[0]).lower()


if __name__ == "__main__":
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    sys.stdout.write(needed(lock, roots_of(sys.argv[1:])))
