"""docs/python.md has the public names, each with what its docstring begins with."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import tierledger.client
import tierledger.tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
PARTS = {
    title: re.findall(r"^\| `([\w.]+)` \| (.+) \|$", text, re.MULTILINE)
    for title, _, text in (part.partition("\n") for part in PAGE.split("\n## ")[1:])
}
IMPORTED = re.compile(
    r"^from (tierledger[\w.]*) import (?:\(([^)]+)\)|([^(\n]+))$", re.MULTILINE
)


def named(part: str, name: str) -> object:
    """What a row is about; its name begins where the part's title ends."""
    module, _, last = f"{part.strip('`')}.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize(
    ("part", "name", "said"),
    [(part, name, said) for part, rows in PARTS.items() for name, said in rows],
)
def test_a_name_is_there_and_is_what_its_docstring_says(
    part: str, name: str, said: str
) -> None:
    docstring = inspect.getdoc(named(part, name))

    assert docstring is not None
    assert said == " ".join(docstring.partition("\n\n")[0].split())


def test_the_public_packages_are_listed_whole() -> None:
    for package in (tierledger.client, tierledger.tables):
        assert [name for name, _ in PARTS[f"`{package.__name__}`"]] == package.__all__


def test_what_examples_import_is_listed() -> None:
    listed = {f"{part.strip('`')}.{name}" for part, rows in PARTS.items() for name, _ in rows}
    modules = {one.rpartition(".")[0] for one in listed}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    imported = {
        f"{module}.{name.partition(' as ')[0].strip()}"
        for path in pages
        for module, many, one in IMPORTED.findall(path.read_text(encoding="utf-8"))
        for name in (many or one).split(",")
        if name.strip()
    }

    assert len(imported) > 5
    assert imported <= listed | modules
