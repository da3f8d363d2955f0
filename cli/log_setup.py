"""A command's own log goes to stderr, from warnings on; stdout has only results."""

from __future__ import annotations

import logging
import sys


def log_to_stderr() -> None:
    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        # The stderr of the moment: one that was bound now might be closed when it is used.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
