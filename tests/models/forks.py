"""Work in a process that is forked from the test's."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def in_a_fork(work: Callable[[], str]) -> bytes:
    """What `work` returns in a process that is forked here."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(there, work().encode())
        finally:
            os._exit(0)
    os.close(there)
    os.waitpid(child, 0)
    with os.fdopen(here, "rb") as told:
        return told.read()


@contextmanager
def living_fork() -> Iterator[None]:
    """A process that was forked here, and lives until the end of the block."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        os.close(there)
        os.read(here, 1)
        os._exit(0)
    os.close(here)
    try:
        yield
    finally:
        os.close(there)
        os.waitpid(child, 0)
