"""A real S3 server, which all tests here share; who kills or freezes one starts their own."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from tests.models.s3_server import S3Server

TierPlace: TypeAlias = "tuple[str, dict[str, str]]"
"""A URL and its options, as `open_tier` takes them."""


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def s3_tier(s3_server: S3Server) -> Callable[[], TierPlace]:
    """Call it for an empty place: each call gives another."""
    return lambda: (s3_server.place(), s3_server.options())
