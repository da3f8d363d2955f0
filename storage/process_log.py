"""The log of our processes. Telling can neither fail nor wait, whatever happens to the log.

Lines go into a bounded queue, and a thread writes them. If the log's file system is full, the
reader of a pipe has stopped, or stderr is closed, lines are dropped and counted; the count is
written as soon as there is room again. So a step may log where it likes. Code that logs a
failure still acts first: a process that cannot go on must not depend on what tells so.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, MutableMapping
from queue import SimpleQueue
from typing import Any, Literal, NoReturn, TextIO, TypeAlias

import structlog

LogFormat: TypeAlias = Literal["text", "json"]

LINES_MAX = 2000
"""Lines that wait to be written; more are dropped."""

LINE_CHARACTERS = 32 * 1024
"""Characters of one line, which may hold a traceback; the rest is cut off."""

FLUSH_S = 0.5
"""How long the end of a process waits for its last lines to be written."""


class Lines:
    """Takes lines from any thread, without waiting or raising; a thread writes them."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        """`write` may block, and may raise anything: then its line is lost, and counted."""
        self.told_lost: Callable[[int], str] = "{} lines of this log are lost".format
        """The line that tells how many lines are lost."""
        self._write = write
        self._waiting: SimpleQueue[str | threading.Event] = SimpleQueue()
        self._writer: threading.Thread | None = None
        self._lock = threading.Lock()
        self._lost = 0
        """Lines that were lost since the log last told how many."""

    def put(self, line: str) -> None:
        """Have `line` written, or dropped if too many wait."""
        if self._waiting.qsize() >= LINES_MAX:
            self.lose(1)
        else:
            self._waiting.put(line[:LINE_CHARACTERS])
            self._start()

    def lose(self, count: int) -> None:
        """Count lines that are lost."""
        with self._lock:
            self._lost += count

    def flush(self, timeout_s: float) -> bool:
        """Wait until the lines so far are written or lost, for `timeout_s` at most."""
        if self._writer is None:
            return True
        done = threading.Event()
        self._waiting.put(done)
        self._start()
        return done.wait(timeout_s)

    def _start(self) -> None:
        if self._writer is not None and self._writer.is_alive():
            return  # A forked process does not have its parent's threads.
        # There is no new thread while the interpreter ends, or if the system has none left.
        with self._lock, contextlib.suppress(RuntimeError):
            if self._writer is None or not self._writer.is_alive():
                self._writer = threading.Thread(target=self._run, daemon=True)
                self._writer.start()

    def _run(self) -> None:
        while True:
            item = self._waiting.get()
            if isinstance(item, str):
                self._try(item)
            else:
                item.set()

    def _try(self, line: str) -> None:
        lost = self._lost
        try:
            if lost:
                self._write(f"{self.told_lost(lost)}\n".encode())
                self.lose(-lost)
            self._write(f"{line}\n".encode(errors="backslashreplace"))
        except Exception:  # noqa: BLE001 - Nobody could be told.
            self.lose(1)


class Descriptor:
    """Writes to a stream's file, past its buffer, which would keep what it cannot write."""

    def __init__(self, stream: Callable[[], TextIO | None]) -> None:
        """`stream` gives the stream of the moment; None: it is closed."""
        self._stream = stream
        self._is_torn = False
        """Whether the last line was written in part."""

    def write(self, line: bytes) -> None:
        """Write all of `line`, or raise; after a torn line the next begins a new one."""
        stream = self._stream()
        if stream is None:
            raise OSError("the stream is closed")
        try:
            descriptor = stream.fileno()
        except OSError:  # No file, but memory.
            stream.write(line.decode(errors="replace"))
            return
        left = b"\n" + line if self._is_torn else line
        while left:
            # What is left is a part, unless nothing was written yet.
            written = os.write(descriptor, left)
            left = left[written:]
            self._is_torn = bool(left)


LOG = Lines(Descriptor(lambda: sys.stderr).write)
"""What this process logs, on stderr: Ray has a file for that of each of its processes."""

RESULTS = Lines(Descriptor(lambda: sys.stdout).write)
"""What a service's process has to say on stdout."""

for _lines in (LOG, RESULTS):
    atexit.register(_lines.flush, FLUSH_S)


def end_at_once(status: int) -> NoReturn:
    """End this process without any clean-up, once its last lines are written if they can be."""
    LOG.flush(FLUSH_S)
    RESULTS.flush(FLUSH_S)
    os._exit(status)


class QueuedLogger:
    """A logger for structlog, whose lines go to `LOG`."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def msg(self, message: str) -> None:
        LOG.put(message)

    debug = info = warning = error = critical = exception = msg


class ProcessLog:
    """A logger whose methods never raise and never wait; a line that cannot be made is lost.

    It follows a program's configuration of structlog; without one, lines go to `LOG`.
    """

    def __init__(self, name: str) -> None:
        self._by_default = structlog.wrap_logger(QueuedLogger())
        self._as_configured = structlog.get_logger(name)

    def debug(self, event: str, **details: object) -> None:
        self._tell("debug", event, details)

    def info(self, event: str, **details: object) -> None:
        self._tell("info", event, details)

    def warning(self, event: str, **details: object) -> None:
        self._tell("warning", event, details)

    def error(self, event: str, **details: object) -> None:
        self._tell("error", event, details)

    def exception(self, event: str, **details: object) -> None:
        """Log an error with the exception that is being handled."""
        self._tell("exception", event, details)

    def tell(self, level: str, event: str, details: dict[str, Any]) -> None:
        """Log at the level that is named."""
        self._tell(level, event, details)

    def _tell(self, level: str, event: str, details: dict[str, Any]) -> None:
        try:
            is_configured = structlog.is_configured()
            logger = self._as_configured if is_configured else self._by_default
            getattr(logger, level)(event, **details)
        except Exception:  # noqa: BLE001 - Telling fails nobody: not by its text, nor its place.
            LOG.lose(1)


def log_as(form: LogFormat, level: int = logging.NOTSET) -> None:
    """Log in this process in that form, from that level on.

    As `json` each line is one object: `time`, `level`, `logger`, `event`, what the event tells,
    and perhaps an `exception`.
    """
    processors: list[Any] | None = None
    if form == "json":
        processors = [
            _named,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            _json_line,
        ]
        LOG.told_lost = _lost_as_json
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *names: QueuedLogger(*names[:1]),
    )


def _named(
    logger: QueuedLogger, _: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    event["logger"] = logger.name
    return event


def _json_line(_: object, __: str, event: MutableMapping[str, Any]) -> str:
    first = {key: event.pop(key) for key in ("time", "level", "logger", "event")}
    event = {**first, **event}
    line = _packed(event)
    if len(line) > LINE_CHARACTERS:  # What is cut in the middle would be no JSON.
        known = ("time", "level", "logger", "event", "request", "exception")
        part = LINE_CHARACTERS // 16
        line = _packed({key: str(event[key])[:part] for key in known if key in event})
    return line


def _lost_as_json(lines: int) -> str:
    return _packed({"level": "warning", "event": "lines of this log are lost", "lines": lines})


def _packed(event: MutableMapping[str, Any]) -> str:
    return json.dumps(event, default=str, ensure_ascii=False)
