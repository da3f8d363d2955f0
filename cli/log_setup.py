"""A command's own log goes to stderr, from warnings on; stdout has only results."""

from __future__ import annotations

import logging
import sys


def log_to_stderr() -> None:
    import structlog

    from tierledger.storage.process_log import QueuedLogger

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=lambda *_: QueuedLogger(),
    )


def flush_log() -> None:
    """Wait for the lines that a thread still writes: they come before a command's end."""
    if (logs := sys.modules.get("tierledger.storage.process_log")) is not None:
        logs.LOG.flush(logs.FLUSH_S)
