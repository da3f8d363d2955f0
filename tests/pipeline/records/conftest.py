"""The store beside the tier that a broker wrote, which no test here changes."""

import asyncio

import pytest

from tests.models.spark.tier import import_metadata


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:{tmp_path_factory.mktemp('records') / 'store.sqlite'}"
    asyncio.run(import_metadata(url))
    return url
