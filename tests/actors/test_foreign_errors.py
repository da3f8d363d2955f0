"""A task that ends by a cancellation which nobody asked for has failed."""

import asyncio

import pytest

from tierledger.actors.foreign_errors import failure_of


async def ended_by(error: BaseException | None) -> None:
    if error is not None:
        raise error


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (None, "None"),
        (KeyError("actor"), "KeyError('actor')"),
        (asyncio.CancelledError(), "OutcomeUnknown('cancelled from within')"),
    ],
)
async def test_a_task_fails_by_an_error_and_by_a_library_that_cancels(
    error: BaseException | None, failure: str
) -> None:
    task = asyncio.create_task(ended_by(error))
    await asyncio.wait([task])

    assert repr(failure_of(task)) == failure


async def test_a_task_that_its_owner_cancels_has_not_failed() -> None:
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    assert failure_of(task) is None
