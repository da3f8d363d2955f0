"""The tier of a world: of which segments there is data, and who has deleted what.

It forbids nothing: laws judge what was done to it.
"""

from __future__ import annotations

from typing import NamedTuple

from tierledger.actors.calls import PartitionKey
from tierledger.events.errors import NotReady
from tierledger.simulation.machines.environment.clockwork import Clockwork, ProcessLife
from tierledger.simulation.machines.environment.recording import Recording


class Erased(NamedTuple):
    """The data of a segment was deleted."""

    time: int
    """Nanoseconds, as in histories."""
    process: str
    key: PartitionKey
    segment_id: bytes
    is_purge: bool
    """Whether the service gave it to a guard; else a broker deleted the segment."""


class WorldTier:
    """The data of segments."""

    def __init__(self, clock: Clockwork, recording: Recording) -> None:
        self.there: dict[bytes, PartitionKey] = {}
        self.erased: list[Erased] = []
        self.away_until = 0
        """Until when (us) it deletes nothing."""
        self._clock, self._recording = clock, recording

    def put(self, key: PartitionKey, segment_id: bytes) -> None:
        """A broker has copied a segment."""
        self.there[segment_id] = key

    def erase(
        self, life: ProcessLife, key: PartitionKey, segment_id: bytes, *, is_purge: bool
    ) -> None:
        """Delete the data of a segment; what is not there is deleted, too.

        Raises:
            NotReady: The tier is away.
        """
        if self._clock.now < self.away_until:
            self._recording.mark("tier away")
            raise NotReady("the tier is away")
        if self.there.pop(segment_id, None) is None:
            if is_purge and any(one.segment_id == segment_id for one in self.erased):
                self._recording.mark("data purged twice")
            return
        self._recording.mark("data purged" if is_purge else "data deleted")
        what = "purge" if is_purge else "delete"
        self._recording.event(what, life.name, segment_id.hex())
        self._recording.moment(life.name, what, segment_id.hex()[:8], None, key.partition)
        now = self._clock.now * 1000
        self.erased.append(Erased(now, life.name, key, segment_id, is_purge))
