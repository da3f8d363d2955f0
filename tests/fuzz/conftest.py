"""Fuzz tests: they draw until their time is over, and say how to repeat what failed."""

import random
import time
from collections.abc import Iterator

import pytest
import structlog

_log = structlog.get_logger("tests.fuzz")


@pytest.fixture
def draws(request: pytest.FixtureRequest) -> Iterator[random.Random]:
    """One source of choices after another, until `--fuzz-seconds` have passed.

    Each is made from its seed alone, which is logged, and shown when the test fails:
    `--fuzz-seed N --fuzz-seconds 0` repeats exactly that one.
    """
    return _draws(
        request.config.getoption("--fuzz-seed"), request.config.getoption("--fuzz-seconds")
    )


def _draws(seed: int, seconds: float) -> Iterator[random.Random]:
    end = time.monotonic() + seconds
    while True:
        _log.info("repeat with", options=f"--fuzz-seed {seed} --fuzz-seconds 0")
        yield random.Random(seed)
        seed += 1
        if time.monotonic() >= end:
            return
