"""Topics of a living cluster, and what Kafka's own manager knows of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tierledger.conformance.recorded_segments import RecordedTopic
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.metadata import RemoteLogSegmentMetadata
from tierledger.simulation.lives.fake_topic import FakeTopic

Segments: TypeAlias = "dict[Uuid, RemoteLogSegmentMetadata]"


@dataclass
class Topic:
    """One incarnation of a topic, with one partition."""

    tip: TopicIdPartition
    leader: int
    epoch: int = 0
    end: int = 0
    """The next offset to be copied."""
    segments: Segments = field(default_factory=dict)
    """Those that both managers have to know, in order; also after the topic's deletion."""
    by_tierledger: set[Uuid] = field(default_factory=set)
    """Those of them that were finished by tierledger's manager."""
    trash: dict[bytes, int] = field(default_factory=dict)
    """By id: the first offsets of segments that were deleted, and whose data stays."""
    is_hosted: bool = True


class KafkasManager:
    """Kafka's own manager in one process: what it knows, as far as it has read its topic."""

    def __init__(self, topic: FakeTopic) -> None:
        self._topic = topic
        self._read = dict.fromkeys(topic.records, 0)
        self._folded = RecordedTopic(())

    def read(self) -> None:
        """Read on to the end of each metadata partition."""
        for number, some in self._topic.records.items():
            first, self._read[number] = self._read[number], len(some)
            for one in some[first:]:
                if one.record.value is not None:
                    self._folded.apply(one.record.value)

    def known(self, topic: Topic) -> set[Uuid]:
        """The topic's segments that it knows."""
        found = self._folded.partition(topic.tip.topic_id, topic.tip.partition)
        return set(map(Uuid.parse, found.segments))
