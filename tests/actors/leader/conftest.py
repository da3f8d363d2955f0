"""The log that a leader leads."""

import pytest

from tests.models.actor_harness import SlotStore


@pytest.fixture
def store() -> SlotStore:
    return SlotStore()
