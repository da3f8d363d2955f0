"""Processes that are started beside an open door."""

import signal
import subprocess
from collections import Counter
from pathlib import Path

from tests.actors.door.clients import door_of, raw, served

STARTED = 200
"""With gRPC's handlers of fork() a fifth of them was aborted."""


def as_ray_does() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


async def test_no_process_that_is_started_beside_an_open_stream_is_aborted(
    tmp_path: Path,
) -> None:
    statuses: Counter[int] = Counter()

    async with served(tmp_path) as world, raw(await door_of(world)) as client:
        await client.greet()
        for _ in range(STARTED):
            started = subprocess.Popen(["true"], preexec_fn=as_ray_does)  # noqa: ASYNC220, PLW1509
            statuses[started.wait(30)] += 1

    assert statuses == {0: STARTED}
