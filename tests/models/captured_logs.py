"""The log's lines in a test, without a trace in the tests behind it."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog
from structlog.testing import capture_logs


@contextmanager
def captured_logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """What is logged meanwhile.

    structlog counts as configured from then on, so that lines of later tests in the process
    would go to standard output, into their results.
    """
    structlog.reset_defaults()  # An earlier test may have left out some levels.
    try:
        with capture_logs() as lines:
            yield lines
    finally:
        structlog.reset_defaults()
