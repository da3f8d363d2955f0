"""How far a scrub has come, kept in a file so that the next run goes on from there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tierledger.events.errors import FormatTooNew, InvalidArgument
from tierledger.storage.durable_files import replace_durably

FORMAT: Final = 1


class Finding(NamedTuple):
    """One damaged object, and what it serves."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int
    """Of the segment."""
    end_offset: int
    """Inclusive."""
    object: str
    position: int | None
    """Bytes from the object's beginning, or from an index's within it; none if not known."""
    message: str
    """What was expected, and what was found."""


class Unread(NamedTuple):
    """A segment of which something could not be read or checked."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    message: str


class Cursor(NamedTuple):
    """The last segment that is done: all before it in the order of a scrub are, too."""

    topic_id: str
    """As text, by which stores have their partitions."""
    partition: int
    start_offset: int
    segment_id: str
    """In hex, which has the order of the ids."""


@dataclass
class Progress:
    """What one round of a scrub has done so far."""

    scope: dict[str, object]
    """What is scrubbed; a file of another scope is refused."""
    cursor: Cursor | None = None
    segments: int = 0
    bytes: int = 0
    seconds: float = 0.0
    """Of all runs."""
    is_complete: bool = False
    findings: list[Finding] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    damaged_logs: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Replace the file, which holds the old or the new progress whatever happens."""
        replace_durably(path, json.dumps({"format": FORMAT, **asdict(self)}).encode())


def load_progress(path: Path, scope: Mapping[str, object]) -> Progress:
    """What `path` holds; a beginning if there is no such file.

    Raises:
        InvalidArgument: It is no progress of a scrub, or of another tier or store.
        FormatTooNew: A newer program wrote it.
    """
    if path.exists() and not path.is_file():  # A device would be read for ever, or replaced.
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
        progress.findings = [Finding(*one) for one in progress.findings]
        progress.unread = [Unread(*one) for one in progress.unread]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidArgument(
            f"{path}: expected the progress of a scrub, got {error}"
        ) from None
    if progress.scope != scope:
        raise InvalidArgument(
            f"{path}: expected the progress of {_told(scope)}, it is of {_told(progress.scope)}"
        )
    return progress


def _made(kind: Any, fields: Any) -> Any:  # noqa: ANN401 - Of JSON.
    return None if fields is None else kind(*fields)


def _told(scope: object) -> str:
    return json.dumps(scope, sort_keys=True)[:500]
