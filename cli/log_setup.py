"""A command's own log goes to stderr, from warnings on; stdout has only results."""

from __future__ import annotations

import logging


def log_to_stderr() -> None:
    import structlog

    from tierledger.storage.process_log import QueuedLogger

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=lambda *_: QueuedLogger(),
    )
