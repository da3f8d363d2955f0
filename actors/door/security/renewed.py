"""Values from files, which are read again when the files change, without a restart."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from tierledger.events.errors import InvalidArgument

T = TypeVar("T")


class Renewed(Generic[T]):
    """A value that is loaded from files, and again when one of them has changed."""

    def __init__(
        self, paths: Sequence[str], load: Callable[[], T], complain: Callable[[str], None]
    ) -> None:
        """`load` makes the value, or raises `InvalidArgument`.

        If changed files are wrong, the value stays the former one, and `complain` gets the
        reason, once for each change.

        Raises:
            InvalidArgument: The files are wrong as they are now.
        """
        self._paths = paths
        self._load = load
        self._complain = complain
        self._state = self._look()
        self._value = load()

    def current(self) -> T:
        """The value of the newest valid files; checks the files, so it may block."""
        # Checked before the files are read: the next call sees changes during the read.
        state = self._look()
        if state != self._state:
            self._state = state
            try:
                self._value = self._load()
            except InvalidArgument as error:
                self._complain(str(error))
        return self._value

    def _look(self) -> list[tuple[int, ...] | None]:
        return [_look_at(path) for path in self._paths]


def _look_at(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - A path of text.
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def read(path: str, what: str) -> bytes:
    """The contents of a file.

    Raises:
        InvalidArgument: The file cannot be read; the message names `what` and the path.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - As above.
            return file.read()
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise InvalidArgument(f"{what}: {path} cannot be read: {reason}") from error
