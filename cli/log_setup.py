"""Where a command's own log goes: stderr, from warnings on, so that stdout is results only."""

from __future__ import annotations

import logging
import sys


def log_to_stderr() -> None:
    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        # Whatever stderr is by then: bound now, it might be closed when it is written to.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
