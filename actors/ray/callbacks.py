"""Ends a process when one of its own callbacks fails, which asyncio would only log.

A task that fails is looked at by the task that started it. A callback (a timer, the end of a
task) has nobody: what it was to do is not done, and the process lives on without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from traceback import walk_tb
from typing import Any

from tierledger.storage.process_log import ProcessLog

_log = ProcessLog("tierledger.process")


def end_after_failed_callbacks(failed: Callable[[BaseException], None]) -> None:
    """Call `failed` with the error of each callback of ours that fails on the running loop.

    Errors of libraries' own callbacks are logged: gRPC has some that mean nothing.
    """

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and "handle" in context and is_ours(error):
            failed(error)
        else:
            message = str(context.get("message"))
            _log.error("the loop reports", message=message, exc_info=error)

    asyncio.get_running_loop().set_exception_handler(handle)


def is_ours(error: BaseException) -> bool:
    """Whether the error went through code of ours."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return any(name.startswith("tierledger.") and name != __name__ for name in modules)
