"""A command's own log goes to stderr, from warnings on; stdout has only results."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tierledger.storage.process_log import LogFormat


def log_to_stderr(form: LogFormat = "text") -> None:
    from tierledger.storage.process_log import log_as

    log_as(form, logging.WARNING)


def flush_log() -> None:
    """Wait for the lines that a thread still writes: they come before a command's end."""
    if (logs := sys.modules.get("tierledger.storage.process_log")) is not None:
        logs.LOG.flush(logs.FLUSH_S)
