"""The version of Kafka whose brokers are meant, where versions follow different rules."""

from __future__ import annotations

import re
from bisect import bisect_right
from operator import itemgetter
from typing import NamedTuple

from typing_extensions import override

from tierledger.events.errors import InvalidArgument


class BrokerVersion(NamedTuple):
    """A version of Kafka; what comes after the minor number changes no rule."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> BrokerVersion:
        """The version in `text`: 4.3, 4.3.1, 3.9.0-rc1.

        Raises:
            InvalidArgument: It is no version, or one without tiered storage (before 3.6).
        """
        found = re.fullmatch(r"(\d{1,4})\.(\d{1,4})([.-][\w.-]*)?", text, re.ASCII)
        version = None if found is None else cls(int(found[1]), int(found[2]))
        if version is None or version < OLDEST:
            raise InvalidArgument(
                f"expected a version of Kafka from {OLDEST} on, like {NEWEST}, "
                f"got {text[:80]!r}"
            )
        return version

    @classmethod
    def of_metadata_version(cls, level: int) -> BrokerVersion:
        """The version whose brokers support `level` and no newer one of `metadata.version`.

        Brokers from a release that is not known here count as the newest known version.

        Raises:
            InvalidArgument: They are from before tiered storage.
        """
        found = bisect_right(_FIRST_LEVELS, level, key=itemgetter(0))
        if found == 0:
            raise InvalidArgument(
                f"expected brokers from {OLDEST} on, which support metadata.version "
                f"{_FIRST_LEVELS[0][0]} or more, got {level}"
            )
        return _FIRST_LEVELS[found - 1][1]

    @property
    def keeps_at_limit(self) -> bool:
        """Whether a segment exactly as old as `retention.ms` stays; before 4.3 it goes."""
        return self >= _SINCE_4_3

    @property
    def sizes_leave_out_copies(self) -> bool:
        """Whether RemoteLogSizeBytes leaves out segments that are being copied."""
        return self >= _SINCE_4_3

    @override
    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


OLDEST = BrokerVersion(3, 6)
_SINCE_4_3 = BrokerVersion(4, 3)
NEWEST = BrokerVersion(4, 4)
"""The newest version that is known here; what is not told otherwise follows its rules."""

_FIRST_LEVELS = (
    (12, OLDEST),
    (15, BrokerVersion(3, 7)),
    (20, BrokerVersion(3, 8)),
    (21, BrokerVersion(3, 9)),
    (22, BrokerVersion(4, 0)),
    (26, BrokerVersion(4, 1)),
    (28, BrokerVersion(4, 2)),
    (30, _SINCE_4_3),
    (31, NEWEST),
)
"""The first level of `metadata.version` that each release brought."""
