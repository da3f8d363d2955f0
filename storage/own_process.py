"""Things that live in one process: threads, connections and locks do not survive a `fork()`."""

from __future__ import annotations

import os
from typing import NoReturn

from typing_extensions import override

from tierledger.events.errors import InvalidArgument

ADVICE = (
    "make one in each process, after the fork, or use multiprocessing's spawn or forkserver"
)


class OwnProcess:
    """The process that made a thing. Neither this nor what refers to it can be pickled."""

    def __init__(self, thing: str, advice: str = ADVICE) -> None:
        """`thing`: what belongs to the present process, for messages."""
        self._thing = thing
        self._advice = advice
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this process is the one that made the thing."""
        return self._pid == os.getpid()

    def check(self) -> None:
        """Return in the process that made the thing, without waiting for anything.

        Raises:
            InvalidArgument: This is another one, forked from it.
        """
        if not self.is_here:
            raise InvalidArgument(
                f"{self._thing} belongs to process {self._pid}, and this is process "
                f"{os.getpid()}, forked from it: {self._advice}"
            )

    @override
    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._thing} belongs to process {self._pid} and cannot be pickled: "
            f"{self._advice}"
        )
