"""Counters of the requests to an object store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from tierledger.events.errors import CorruptRemoteData


class Operation(StrEnum):
    """The storage manager's operation that sent a request."""

    COPY = "copy_log_segment_data"
    FETCH_LOG = "fetch_log_segment"
    FETCH_INDEXES = "fetch_indexes"
    DELETE = "delete_log_segment_data"
    LIST = "list_tier"
    """The listing of the whole tier, for an audit."""
    CLEAN = "clean_tier"
    """A clean-up of what no log knows."""
    COLUMNS = "column_files"
    """Of a store's column files, which are in no tier."""
    BACKUPS = "backups"
    """Of a store's backups, which are in no tier."""


class RequestKind(StrEnum):
    """Kinds of requests. A list or a deletion of many objects counts as one request."""

    PUT = "put"
    GET = "get"
    HEAD = "head"
    LIST = "list"
    DELETE = "delete"
    MOVE = "move"


class RequestCounts:
    """Counts since this object was made; they only grow. Several managers may share it.

    A request is counted once, when it is sent, however often the client retries it.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[Operation, RequestKind]] = Counter()
        self.failures: Counter[tuple[Operation, RequestKind]] = Counter()
        """Requests that failed; a missing object is no failure."""
        self.corrupt: Counter[Operation] = Counter()
        """Operations that failed because an object is not what was copied."""
        self.bytes_read = 0
        self.bytes_written = 0

    @contextmanager
    def noting_damage(self, operation: Operation) -> Iterator[None]:
        """Count the operation in `corrupt` if the block raises `CorruptRemoteData`."""
        try:
            yield
        except CorruptRemoteData:
            self.corrupt[operation] += 1
            raise

    def of(self, operation: Operation) -> int:
        return sum(
            count for (for_what, _), count in self.requests.items() if for_what == operation
        )

    def total(self) -> int:
        return self.requests.total()
