"""The progress of a scrub, kept in a file so that the next run goes on from there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tierledger.events.errors import FormatTooNew, InvalidArgument
from tierledger.storage.durable_files import replace_durably

FORMAT: Final = 1


class DamagedObject(NamedTuple):
    """One damaged object, and the segment that it belongs to."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int
    """First offset of the segment."""
    end_offset: int
    """Inclusive."""
    object: str
    position: int | None
    """Bytes from the start of the object, or of an index within it; none if not known."""
    message: str
    """What was expected, and what was found."""


class UnreadSegment(NamedTuple):
    """A segment that could not be read or checked completely."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    message: str


class Cursor(NamedTuple):
    """The last segment that is done; all segments before it in scrub order are done, too."""

    topic_id: str
    """In text form, since stores order their partitions by it."""
    partition: int
    start_offset: int
    segment_id: str
    """In hex, which sorts like the ids' bytes."""


@dataclass
class Progress:
    """The progress of one round of a scrub, over any number of runs."""

    scope: dict[str, object]
    """The tier and store that are scrubbed; a file of another scope is refused."""
    cursor: Cursor | None = None
    segments: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Duration of all runs."""
    is_complete: bool = False
    findings: list[DamagedObject] = field(default_factory=list)
    unread: list[UnreadSegment] = field(default_factory=list)
    damaged_logs: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Replace the file atomically: after a crash it has the old or the new progress."""
        replace_durably(path, json.dumps({"format": FORMAT, **asdict(self)}).encode())


def load_progress(path: Path, scope: Mapping[str, object]) -> Progress:
    """The progress in `path`; a new one if there is no such file.

    Raises:
        InvalidArgument: The file is no progress of a scrub, or is of another `scope`.
        FormatTooNew: A newer program wrote the file.
    """
    if path.exists() and not path.is_file():  # A device might be read endlessly, or replaced.
        raise InvalidArgument(f"{path}: expected the progress of a scrub, got no regular file")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Progress(dict(scope))
    try:
        found = json.loads(data)
        version = found.pop("format")
        if isinstance(version, int) and version > FORMAT:
            raise FormatTooNew(f"{path}: expected format {FORMAT}, found {version}")
        progress = Progress(**found)
        progress.cursor = _made(Cursor, progress.cursor)
        progress.findings = [DamagedObject(*one) for one in progress.findings]
        progress.unread = [UnreadSegment(*one) for one in progress.unread]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidArgument(
            f"{path}: expected the progress of a scrub, got {error}"
        ) from None
    if progress.scope != scope:
        raise InvalidArgument(
            f"{path}: expected the progress of {_text(scope)}, it is of {_text(progress.scope)}"
        )
    return progress


def _made(kind: Any, fields: Any) -> Any:  # noqa: ANN401 - Of JSON.
    return None if fields is None else kind(*fields)


def _text(scope: object) -> str:
    return json.dumps(scope, sort_keys=True)[:500]
