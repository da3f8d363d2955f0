"""Places in a bucket."""

from collections.abc import Callable
from typing import TypeAlias

import pytest

from tierledger.simulation.live.s3_server import S3Server

TierPlace: TypeAlias = "tuple[str, dict[str, str]]"
"""A URL and its options, as `open_tier` takes them."""


@pytest.fixture
def s3_tier(s3_server: S3Server) -> Callable[[], TierPlace]:
    """Call it for an empty place: each call gives another."""
    return lambda: (s3_server.place(), s3_server.options())
