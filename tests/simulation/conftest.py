"""Tests that run worlds are marked; those of checkers and records are quick."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
WORLDS = {HERE / name for name in ("machines", "mutants", "service")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if WORLDS & {item.path, *item.path.parents}:
            item.add_marker(pytest.mark.simulation)
