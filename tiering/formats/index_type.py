"""The five files that go with a segment's log, as Kafka names them."""

from __future__ import annotations

from enum import Enum
from typing import Final


class IndexType(Enum):
    """Kafka's `RemoteStorageManager.IndexType`; the value is the suffix of Kafka's file."""

    OFFSET = "index"
    TIMESTAMP = "timeindex"
    PRODUCER_SNAPSHOT = "snapshot"
    TRANSACTION = "txnindex"
    LEADER_EPOCH = "leader_epoch_checkpoint"


ALL_INDEX_TYPES: Final = frozenset(IndexType)
REQUIRED_INDEX_TYPES: Final = ALL_INDEX_TYPES - {IndexType.TRANSACTION}
"""The indexes of every segment. Without aborted transactions there is no transaction index."""
