"""How long closed segments stay local on purpose: Kafka's `remote.copy.lag.*` (KIP-1241)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tierledger.events.errors import InvalidArgument
from tierledger.tiering.local.log import LocalSegment

UNLIMITED: Final = -1
"""No such limit. Where local retention has none either, time or size lets no segment go."""

_AS_RETENTION: Final = -2
"""Value of `local.retention.*` for that of `retention.*`."""

_DEFAULTS: Final = {"ms": (0, 604_800_000), "bytes": (UNLIMITED, UNLIMITED)}
"""Kafka's own values for `remote.copy.lag.*` and `retention.*`."""


class CopyLag(NamedTuple):
    """A segment may be copied once its age or the bytes behind it reach a limit.

    Both limits are effective ones: Kafka's -1, "as local retention", is resolved. 0 of either
    lets every closed segment go at once, as all brokers do before 4.4. If both are unlimited,
    nothing is ever copied.
    """

    ms: int = 0
    """Age of the segment's newest record. A record from the future is old enough."""
    size: int = UNLIMITED
    """Bytes of the local log behind the segment, the active segment's included."""

    @classmethod
    def of_topic(cls, config: Mapping[str, str]) -> CopyLag:
        """The lag by a topic's configuration, as Kafka describes it: each name and its value.

        Brokers before 4.4 have no such settings, and copy at once.

        Raises:
            InvalidArgument: A value is none that Kafka accepts.
        """
        return cls(_effective(config, "ms"), _effective(config, "bytes"))

    def due(self, closed: Sequence[LocalSegment], end: int, now_ms: int) -> int:
        """How many segments may be copied at `now_ms`, of those before number `end`.

        `closed` begins with the first segment to copy and goes on to the active one, whose
        bytes count. The first segment that stays keeps all behind it.
        """
        behind = sum(one.size_in_bytes for one in closed)
        for number, one in enumerate(closed[:end]):
            behind -= one.size_in_bytes
            if not self._lets_go(now_ms - one.max_timestamp_ms, behind):
                return number
        return end

    def _lets_go(self, age_ms: int, behind: int) -> bool:
        if 0 in self:
            return True
        by_time = self.ms > 0 and not 0 <= age_ms < self.ms
        return by_time or 0 < self.size <= behind


COPY_AT_ONCE: Final = CopyLag()
"""What brokers do before 4.4, and by default."""


def _effective(config: Mapping[str, str], unit: str) -> int:
    at_once, retention = _DEFAULTS[unit]
    lag = _number(config, f"remote.copy.lag.{unit}", at_once, UNLIMITED)
    if lag != UNLIMITED:
        return lag
    local = _number(config, f"local.retention.{unit}", _AS_RETENTION, _AS_RETENTION)
    if local != _AS_RETENTION:
        return local
    return _number(config, f"retention.{unit}", retention, UNLIMITED)


def _number(config: Mapping[str, str], name: str, default: int, lowest: int) -> int:
    text = config.get(name, str(default))
    try:
        value = int(text)
    except ValueError:
        value = lowest - 1
    if value < lowest:
        raise InvalidArgument(f"{name}: expected {lowest} or more, got {text[:80]!r}")
    return value
