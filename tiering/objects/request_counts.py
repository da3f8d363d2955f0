"""How often a store was asked, and for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from tierledger.events.errors import CorruptRemoteData


class Operation(StrEnum):
    """What a storage manager was doing when it asked."""

    COPY = "copy_log_segment_data"
    FETCH_LOG = "fetch_log_segment"
    FETCH_INDEXES = "fetch_indexes"
    DELETE = "delete_log_segment_data"
    LIST = "list_tier"
    """Everything there is, for an audit."""


class Request(StrEnum):
    """What it asked for. A list of many objects, and a delete of many, is one request here."""

    PUT = "put"
    GET = "get"
    HEAD = "head"
    LIST = "list"
    DELETE = "delete"


class RequestCounts:
    """Counts since it was made; only ever grows. One may serve several managers.

    A request counts when it is sent, once, however often the client below repeats it.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[Operation, Request]] = Counter()
        self.failures: Counter[tuple[Operation, Request]] = Counter()
        """Of those, the ones that gave nothing; an object that is not there is no failure."""
        self.corrupt: Counter[Operation] = Counter()
        """Operations that ended because an object is not what was copied."""
        self.bytes_read = 0
        self.bytes_written = 0

    @contextmanager
    def noting_damage(self, operation: Operation) -> Iterator[None]:
        """Count what is done in here if it ends with `CorruptRemoteData`."""
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
