"""Where everything that calls, carriers and libraries raise becomes an error of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tierledger.events.errors import NotReady, OutcomeUnknown, RemoteStorageError


@contextmanager
def documenting(
    what: str,
    note: Callable[[BaseException], None] = lambda _: None,
    *,
    is_sent: bool = True,
) -> Iterator[None]:
    """Let nothing out that no document names, and `note` what was raised.

    `is_sent`: what fails may have happened.
    """
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        note(error)
        heard = documented(what, error, is_sent=is_sent)
        if heard is error:
            raise
        raise heard from error


def documented(what: str, error: BaseException, *, is_sent: bool = True) -> BaseException:
    """What a caller hears of `error`, which ended something.

    It may have happened, if `is_sent`. That the call was given up from above stays what it is.
    """
    heard = _documented(what, error)
    if isinstance(heard, OutcomeUnknown) and not is_sent:
        return NotReady(str(heard))
    return heard


def _documented(what: str, error: BaseException) -> BaseException:
    if isinstance(error, OutcomeUnknown) and type(error) is not OutcomeUnknown:
        return OutcomeUnknown(str(error))  # What it says more is for the service's own parts.
    if isinstance(error, RemoteStorageError) or is_cancelled(error):
        return error
    return OutcomeUnknown(f"{what}: {type(error).__name__}: {error}")


def is_cancelled(error: BaseException) -> bool:
    """Whether the call was given up from above, and not by what it waited for."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
