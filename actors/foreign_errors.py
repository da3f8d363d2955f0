"""Turns errors of calls, transports and libraries into those of `events.errors`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tierledger.events.errors import NotReady, OutcomeUnknown, RemoteStorageError


@contextmanager
def documenting(
    what: str,
    note: Callable[[BaseException], None] = lambda _: None,
    *,
    is_sent: bool = True,
) -> Iterator[None]:
    """Turn every error of the block into a documented one, and `note` the original.

    `is_sent`: the request may have been carried out, although the block failed.
    """
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        note(error)
        raised = documented(what, error, is_sent=is_sent)
        if raised is error:
            raise
        raise raised from error


def documented(what: str, error: BaseException, *, is_sent: bool = True) -> BaseException:
    """The documented error in place of `error`, which ended the request `what`.

    Unforeseen errors become `OutcomeUnknown` if `is_sent`, else `NotReady`. The cancellation of
    the caller's own task is returned as it is.
    """
    raised = _documented(what, error)
    if isinstance(raised, OutcomeUnknown) and not is_sent:
        return NotReady(str(raised))
    return raised


def _documented(what: str, error: BaseException) -> BaseException:
    if isinstance(error, OutcomeUnknown) and type(error) is not OutcomeUnknown:
        return OutcomeUnknown(str(error))  # Its subclasses are for the service itself.
    if isinstance(error, RemoteStorageError) or is_cancelled(error):
        return error
    return OutcomeUnknown(f"{what}: {type(error).__name__}: {error}")


def is_cancelled(error: BaseException) -> bool:
    """Whether `error` cancels the present task itself, and not what that waited for."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def failure_of(task: asyncio.Task[Any]) -> BaseException | None:
    """Why a task that is done failed; None if it did not, or if it was cancelled.

    A task that nobody cancelled, but that ends by a library's cancellation, has failed.
    """
    if not task.cancelled():
        return task.exception()
    return None if task.cancelling() else OutcomeUnknown("cancelled from within")
