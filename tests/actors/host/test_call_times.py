"""How long the store takes is counted by operation, whether the call succeeds or not."""

import asyncio

import pytest

from tierledger.actors.host.call_times import BOUNDS_S, CallTimes
from tierledger.actors.host.timed_backend import TimedBackend
from tierledger.events.errors import StorageUnavailable
from tierledger.storage.backend import Create
from tierledger.storage.backends.memory import MemoryBackend


def calls(times: CallTimes) -> dict[str, int]:
    return {name: told["upto_s"][-1][1] for name, told in times.plain().items()}


async def test_each_call_is_counted_as_what_it_is() -> None:
    times = CallTimes()
    backend = TimedBackend(MemoryBackend(), times)

    await backend.create_each([("a/1", b"1"), ("a/2", b"2")])
    await backend.create("b", b"1")
    await backend.update("b", b"2", expected=b"1")
    await backend.execute_atomically([Create("c", b"")])
    found = [await backend.get("b"), *(await backend.get_each(["a/1", "x"]))]
    listed = [key for key, _ in await backend.get_like("a/", after="a/1", limit=5)]
    assert await backend.last_keys(["a/"]) == ["a/2"]
    assert await backend.remove_like("a/") == 2

    assert found == [b"2", b"1", None]
    assert listed == ["a/2"]
    assert calls(times) == {"append": 1, "list": 2, "read": 2, "remove": 1, "write": 3}


async def test_a_call_that_fails_is_counted_with_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times, inner = CallTimes(), MemoryBackend()
    now_s = [0.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s[0])

    async def fails(*_: object) -> None:
        now_s[0] += 3.0
        raise StorageUnavailable("no disk")

    monkeypatch.setattr(inner, "create_each", fails)

    with pytest.raises(StorageUnavailable):
        await TimedBackend(inner, times).create_each([])

    told = times.plain()["append"]
    assert told["sum_s"] == 3.0
    assert dict(told["upto_s"])[2.5] == 0
    assert dict(told["upto_s"])[5.0] == 1


def test_buckets_are_up_to_their_bound_and_add_up() -> None:
    times = CallTimes()
    for seconds in (0.0, 0.001, 0.0011, 5.0, 60.0):
        times.note("append", seconds)

    upto = dict(times.plain()["append"]["upto_s"])

    assert list(upto) == [*BOUNDS_S, None]
    assert (upto[0.001], upto[0.0025], upto[2.5], upto[5.0], upto[None]) == (2, 3, 3, 4, 5)
