"""A command of tierledger in a process of its own."""

import asyncio
import subprocess
import sys
import time


async def command_s(*arguments: str, is_nice: bool = False) -> float:
    """How many seconds that command took; a nice one leaves the processor to others."""
    command = [*(["nice"] if is_nice else []), sys.executable, "-m", "tierledger.cli.main"]
    told = [*command, *arguments]
    begun = time.perf_counter()
    running = await asyncio.create_subprocess_exec(*told, stdout=subprocess.DEVNULL)
    assert await running.wait() == 0, told
    return time.perf_counter() - begun
