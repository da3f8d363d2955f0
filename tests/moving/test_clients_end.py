"""The end of a client of Kafka's brokers takes no longer than it may."""

import asyncio

import pytest

from tierledger.pipeline.imports import topic


async def test_an_end_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "END_S", 0.01)
    was_cancelled = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled.set()
            raise

    await topic.ended(hangs())

    async with asyncio.timeout(10):
        await was_cancelled.wait()


async def test_an_end_that_fails_is_told() -> None:
    async def fails() -> None:
        raise OSError("the socket is gone")

    with pytest.raises(OSError, match="the socket is gone"):
        await topic.ended(fails())


async def test_an_end_that_cancels_itself_cancels_nobody_else() -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError

    await topic.ended(cancels())
