"""The log that a leader leads, and a leader in office."""

import pytest

from tests.models.actors.harness import Harness, SlotStore, leading


@pytest.fixture
def store() -> SlotStore:
    return SlotStore()


@pytest.fixture
def harness(store: SlotStore) -> Harness:
    """Of a leader whose session is open."""
    return leading(store)
