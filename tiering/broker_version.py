"""The version of Kafka whose brokers are meant, where versions follow different rules."""

from __future__ import annotations

import re
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
