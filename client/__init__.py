"""What a Python program needs to talk to a service: `import tierledger.client`.

The managers, what they take and answer, and what they raise. Loads neither Ray, Spark nor what
reads a tier; nothing else in tierledger imports it. What needs gRPC is loaded when it is used.
"""

from typing import TYPE_CHECKING

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.client.history import PartitionHistory
from tierledger.actors.client.sync_client import (
    BlockingPartitionHistory,
    RemoteLogMetadataManager,
)
from tierledger.events.errors import (
    CorruptCheckpoint,
    CorruptLog,
    CorruptRemoteData,
    CustomMetadataSizeLimitExceeded,
    DataError,
    Fenced,
    FormatTooNew,
    InvalidArgument,
    InvalidStateTransition,
    MetadataParseError,
    NotAuthorized,
    NotLeader,
    NotReady,
    OutcomeUnknown,
    Overloaded,
    PartitionDeleted,
    Quarantined,
    RejectedError,
    RemoteResourceNotFound,
    RemoteStorageError,
    RetryableError,
    StorageUnavailable,
    StoreRefused,
)
from tierledger.events.identifiers import RemoteLogSegmentId, TopicIdPartition, Uuid
from tierledger.events.lifecycle import RemoteLogSegmentState, RemotePartitionDeleteState
from tierledger.events.metadata import (
    CustomMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition.answers import PartitionSummary

if TYPE_CHECKING:
    from tierledger.actors.client.blocking_replicas import BlockingFedReplica, BlockingReplicas
    from tierledger.actors.door.client.replicas import FedReplica, Replicas

__all__ = [
    "AsyncRemoteLogMetadataManager",
    "BlockingFedReplica",
    "BlockingPartitionHistory",
    "BlockingReplicas",
    "CorruptCheckpoint",
    "CorruptLog",
    "CorruptRemoteData",
    "CustomMetadata",
    "CustomMetadataSizeLimitExceeded",
    "DataError",
    "FedReplica",
    "Fenced",
    "FormatTooNew",
    "InvalidArgument",
    "InvalidStateTransition",
    "MetadataParseError",
    "NotAuthorized",
    "NotLeader",
    "NotReady",
    "OutcomeUnknown",
    "Overloaded",
    "PartitionDeleted",
    "PartitionHistory",
    "PartitionSummary",
    "Quarantined",
    "RejectedError",
    "RemoteLogMetadataManager",
    "RemoteLogSegmentId",
    "RemoteLogSegmentMetadata",
    "RemoteLogSegmentMetadataUpdate",
    "RemoteLogSegmentState",
    "RemotePartitionDeleteMetadata",
    "RemotePartitionDeleteState",
    "RemoteResourceNotFound",
    "RemoteStorageError",
    "Replicas",
    "RetryableError",
    "StorageUnavailable",
    "StoreRefused",
    "TopicIdPartition",
    "Uuid",
]


def __getattr__(name: str) -> object:
    if name not in {"BlockingFedReplica", "BlockingReplicas", "FedReplica", "Replicas"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # They load gRPC.
    from tierledger.actors.client import blocking_replicas  # noqa: PLC0415
    from tierledger.actors.door.client import replicas  # noqa: PLC0415

    return getattr(blocking_replicas if name.startswith("Blocking") else replicas, name)
