"""How every command writes the files that its user names: one way for all of them.

A regular file gets its name, and becomes durable, when it is complete; it replaces an existing
file only with `overwrite`. Links are followed. What is no regular file (`-`, devices, pipes,
/dev/fd/N) is written directly. While a file goes to standard output, the command's messages go
to standard error.
"""

from __future__ import annotations

import errno
import gzip
import os
import signal
import stat
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from tierledger.cli.exit_status import ExitStatus
from tierledger.events.errors import InvalidArgument
from tierledger.storage.durable_files import flush

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD_OUTPUT = "-"

LINKS_MAX = 40
"""How many links are followed, one by one, as the kernel does."""

_STDOUT = 1

UNFINISHED = ".unfinished"
"""The ending of the names of incomplete files; only SIGKILL leaves one behind."""

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors of file systems that have no hard links."""


class _Given:
    """Standard output as a file's place, while the command's messages go elsewhere."""

    stdout: TextIO | None = None


@contextmanager
def command_output() -> Iterator[None]:
    """One command's run; when it ends, standard output is restored."""
    before = sys.stdout
    try:
        yield
    finally:
        sys.stdout, _Given.stdout = before, None


def fills_terminal() -> bool:
    """Whether a file of the command goes to standard output, and that is a terminal."""
    return _Given.stdout is not None and _Given.stdout.isatty()


def require_place(*paths: Path | None, overwrite: bool = False) -> None:
    """Refuse files that surely cannot be written, before the work that would fill them.

    If one is standard output, the command's messages go to standard error from here on.

    Raises:
        InvalidArgument: One exists already, is a folder or in none, may not be written, or two
            are the same.
    """
    places: list[object] = []
    for path in paths:
        if path is None:
            continue
        place = _required(path, overwrite=overwrite)
        if place in places:
            raise InvalidArgument(f"cannot write {path} twice: expected different files")
        places.append(place)
    if _STDOUT in places and _Given.stdout is None:
        _Given.stdout, sys.stdout = sys.stdout, sys.stderr


@contextmanager
def complete_file(path: Path, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A file to write, complete when the block ends well; one named *.gz is gzipped.

    A regular file gets its name only then, and is durable. If the block fails nothing is left.

    Raises:
        InvalidArgument: As in `require_place`, also if the file was created meanwhile.
        OSError: The system refused to write; names the file.
    """
    require_place(path, overwrite=overwrite)
    try:
        with _opened(path, overwrite=overwrite) as file:
            if path.suffix == ".gz":
                # Without name and time, so that one store always gives the same bytes.
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                    yield cast("BinaryIO", packed)
            else:
                yield file
            file.flush()
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(UNFINISHED):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise


@contextmanager
def _opened(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    place = _required(path, overwrite=overwrite)
    if place == _STDOUT:
        assert _Given.stdout is not None, "its place was required"
        yield _Given.stdout.buffer
    elif isinstance(place, int):
        with os.fdopen(os.dup(place), "wb") as file:
            yield file
    elif _is_written_through(place):
        with place.open("wb") as file:
            yield file
    else:
        with _replacing(place, overwrite=overwrite) as file:
            yield file


@contextmanager
def _replacing(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A new file that replaces `path`; two concurrent writers have two files."""
    unfinished = path.with_name(f".tierledger-{token_hex(8)}{UNFINISHED}")
    with _ended_in_order(), _gone_in_the_end(unfinished):
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if overwrite and path.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
        if overwrite:
            unfinished.replace(path)
        else:
            _name(unfinished, path)
    flush(path.parent)


@contextmanager
def _gone_in_the_end(path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Meanwhile SIGTERM raises an exception, as SIGINT does, unless it has a handler."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(_number: int, _frame: object) -> None:
    sys.exit(ExitStatus.TERMINATED)


def _name(unfinished: Path, path: Path) -> None:
    """Give a file its name, unless another file has it."""
    try:
        path.hardlink_to(unfinished)  # Unlike a rename, it replaces nothing.
    except FileExistsError:
        raise _is_there(path) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        unfinished.rename(path)


def _required(path: Path, *, overwrite: bool) -> Path | int:
    """The place that `path` leads to and that can be written: a path or an own descriptor."""
    try:
        descriptor = _descriptor_of(path)
        if descriptor is not None:
            os.fstat(descriptor)
            return descriptor
        if _is_written_through(path):
            places = [path]
        else:
            place = Path(os.path.realpath(path))
            _check(path, place, overwrite=overwrite)
            places = [place, place.parent]
        for one in places:
            if one.exists() and not os.access(one, os.W_OK):
                raise InvalidArgument(f"cannot write {path}: {one} {_closed(one)}")
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}") from error
    except UnicodeError as error:
        raise InvalidArgument(f"cannot write {str(path)!r}: no file has that name") from error
    return places[0]


def _closed(place: Path) -> str:
    """Why a place cannot be written."""
    try:
        is_read_only = bool(os.statvfs(place).f_flag & os.ST_RDONLY)
    except OSError:
        is_read_only = False
    return "is on a read-only file system" if is_read_only else "is not yours to write"


def _is_written_through(path: Path) -> bool:
    """Whether the path exists, and is neither a regular file nor a folder."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _check(path: Path, place: Path, *, overwrite: bool) -> None:
    """Refuse a regular file that cannot or must not be created or replaced at `place`."""
    if place.is_dir():
        raise InvalidArgument(f"cannot write {path}: it is a folder")
    if not place.parent.is_dir():
        raise InvalidArgument(f"cannot write {path}: {place.parent} is no folder")
    if place.exists() and not overwrite:
        raise _is_there(path)


def _is_there(path: Path) -> InvalidArgument:
    return InvalidArgument(
        f"cannot write {path}: it is there already (--overwrite replaces it)"
    )


def _descriptor_of(path: Path) -> int | None:
    """The descriptor of this process that `path` names: `-`, /dev/stdout, /dev/fd/3.

    The caller must not open that name: for a file this would reset the position, and a socket
    cannot be opened.
    """
    if "\0" in str(path):
        raise InvalidArgument(f"cannot write {str(path)!r}: no file has that name")
    if str(path) == STANDARD_OUTPUT:
        return _STDOUT
    folders = {"/dev/fd", f"/proc/{os.getpid()}/fd"}
    for _ in range(LINKS_MAX):
        if path.name.isdecimal() and os.path.realpath(path.parent) in folders:
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None
