"""Files that a command's user gives it to read; `-` is standard input.

Standard input is copied into a file first: readers go over their files more than once, tell
gzip and Parquet by the first bytes, and hand a file's name on to Spark's tasks.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD_INPUT: Final = "-"

NAME: Final = "standard-input"
"""The name of the copy."""

SHOWN: Final = "standard input"
"""What messages call it."""

_MAGICS: Final = ((b"PAR1", "{0}.parquet"), (b"\x1f\x8b", "{0}.{1}.gz"), (b"", "{0}.{1}"))
"""First bytes of a file, and what its name is made of."""


class _Copy:
    """The copies of the command that runs."""

    kept: ExitStack | None = None
    is_read = False
    path: Path | None = None
    """Where it is; messages are printed when it is gone."""


@contextmanager
def command_input() -> Iterator[None]:
    """One command's run; when it ends, its copy of standard input is removed."""
    with ExitStack() as kept:
        _Copy.kept, _Copy.is_read, _Copy.path = kept, False, None
        yield


def is_standard_input(given: object) -> bool:
    return str(given) == STANDARD_INPUT


def naming_input(text: str) -> str:
    """A message that calls the copy what the user knows: standard input."""
    return text if _Copy.path is None else text.replace(str(_Copy.path), SHOWN)


def readable(given: Path, ending: str) -> Path:
    """The file to read: `given`, or the copy of standard input if that is `-`.

    Args:
        given: What the user named.
        ending: The ending of a plain file of its kind: `csv`, `jsonl`.

    Raises:
        InvalidArgument: Standard input is a terminal, or was given twice.
    """
    if not is_standard_input(given):
        return given
    if _Copy.is_read:
        raise InvalidArgument("-: expected standard input to be named once, got it twice")
    if sys.stdin.isatty():
        raise InvalidArgument("-: expected a pipe or a file as standard input, got a terminal")
    assert _Copy.kept is not None, "a command runs"
    _Copy.is_read = True
    folder = Path(_Copy.kept.enter_context(TemporaryDirectory(prefix="tierledger-")))
    copy = folder / NAME
    with copy.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    with copy.open("rb") as file:
        first = file.read(4)
    name = next(name for magic, name in _MAGICS if first.startswith(magic))
    _Copy.path = copy.rename(folder / name.format(NAME, ending))
    return _Copy.path
