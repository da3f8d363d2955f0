"""More lives of a stock broker than `make test-kafka` has time for."""

from pathlib import Path

import pytest

from tests.kafka.test_lives import MANY, lived

pytestmark = [pytest.mark.ray, pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("seed", MANY)
async def test_the_way_is_open_both_ways_whatever_a_broker_went_through(
    seed: int, tmp_path: Path
) -> None:
    await lived(seed, tmp_path)
