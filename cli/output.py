"""How commands print: results on stdout, everything about them on stderr.

Rule: text from a store or a user is printed through `escaped`, so that no name can move the
cursor or forge a line.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from tierledger.cli.complete_file import fills_terminal
from tierledger.cli.given_file import naming_input
from tierledger.events.errors import NotAuthorized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Item = TypeVar("Item")

_ERRNO = re.compile(r"\[Errno -?\d+\] ")

SHOWN_MAX = 80
"""Characters of a value that are shown in an error."""


def escaped(text: str) -> str:
    """`text` with everything that is not printable spelled out, as Python would."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def shortened(value: object) -> str:
    """A given value as Python writes it, cut if it is too long for a line."""
    text = repr(value)
    return (
        text
        if len(text) <= SHOWN_MAX
        else f"{text[:SHOWN_MAX]}… ({len(str(value))} characters)"
    )


def print_json(value: object) -> None:
    """Print one JSON document on one line."""
    print(json.dumps(value, separators=(",", ":")))


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one pair per line; pairs without a value are left out."""
    shown = [(name, value) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        print(fitted(f"{name:<{width}}  {escaped(str(value))}", sys.stdout, width + 2))


def print_result(text: str, indent: int = 2) -> None:
    """Print a sentence, which a terminal gets in lines that fit; `indent`: of the further."""
    print(fitted(escaped(text), sys.stdout, indent))


def confirm(question: str) -> None:
    """Return if the user says yes; else the command ends.

    Raises:
        InvalidArgument: Nobody can be asked, as the input has ended.
    """
    import typer

    from tierledger.events.errors import InvalidArgument

    try:
        with _ended_by_ctrl_c():
            typer.confirm(escaped(question), abort=True, err=True)
    except typer.Abort as error:
        if not isinstance(error.__context__, EOFError):
            raise
        sys.stderr.write("\n")
        raise InvalidArgument(
            "nobody could be asked, as standard input has ended: expected --yes"
        ) from None


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Meanwhile Ctrl-C raises `KeyboardInterrupt` at once, in an event loop, too.

    A loop's own handler cancels the command's task, which learns of that at its next `await`:
    not while it waits for an answer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Signals are handled in the main thread.
        return
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def print_note(message: str) -> None:
    """Print a note about the result, which does not change it, on standard error."""
    print(fitted(note_line(message), sys.stderr), file=sys.stderr)


def fitted(line: str, stream: TextIO, indent: int = 2) -> str:
    """A line for `stream`: on a terminal, broken between words, and indented from there on."""
    if not stream.isatty():
        return line
    from shutil import get_terminal_size
    from textwrap import wrap

    width = get_terminal_size().columns
    broken = wrap(
        line,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(broken)


def note_line(message: str) -> str:
    """A note in one line, for standard error."""
    return f"note: {escaped(_plain(message))}"


def error_text(error: BaseException) -> str:
    """An error's text for users, and its notes; for the system's, the file and the reason."""
    text = str(error) or f"{type(error).__name__} without a message"
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: " if error.filename is not None else ""
        text = f"{named}{error.strerror}"
    return "; ".join((text, *getattr(error, "__notes__", ())))


def print_error(error: Exception) -> None:
    """Print an error in one line on standard error."""
    print(fitted(error_line(error), sys.stderr), file=sys.stderr)


def error_line(error: Exception) -> str:
    """An error in one line, for standard error."""
    text = error_text(error)
    if isinstance(error, NotAuthorized) and "TIERLEDGER_" not in text:
        text += "; TIERLEDGER_TOKEN names the file of a command's token (docs/security.md)"
    return f"error: {escaped(_plain(text))}"


def _plain(message: str) -> str:
    """`message` without the system's error numbers, at any depth, and with names for users."""
    return naming_input(_ERRNO.sub("", message))


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A counter for what was done; shows progress on stderr if that is a terminal.

    None is shown where a file of the command fills the terminal: the bar would run into it.
    """
    if not sys.stderr.isatty() or fills_terminal():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    count: list[Any] = [BarColumn(), MofNCompleteColumn()]
    if total is None:  # Nobody knows how far it is: a bar would say that it does.
        count = [SpinnerColumn(), TextColumn("{task.completed:,}")]
    columns: list[Any] = [TextColumn("{task.description}"), *count, TimeElapsedColumn()]
    # Only on the same terminal: rich would send what is printed into a file there, too.
    shown_there = sys.stdout.isatty()
    with Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=shown_there
    ) as shown:
        task = shown.add_task(what, total=total)
        yield lambda count: shown.advance(task, count)


def counted(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """Each of `items`, counted by `progress`."""
    with progress(what, total) as on_items:
        for one in items:
            on_items(1)
            yield one
