"""The public API for Python programs that use a service: `import tierledger.client`.

It has the managers, the types of their arguments and answers, and their errors. It loads
neither Ray nor Spark nor the reader of a tier, and loads gRPC only when it is needed. Nothing
else in tierledger imports it.
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
    LogClosed,
    MetadataParseError,
    NoSuchStore,
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
    __version__: str
    """The version that is installed."""

    from tierledger.actors.door.client.replicas import FedReplica, Replicas

__all__ = [
    "AsyncRemoteLogMetadataManager",
    "BlockingPartitionHistory",
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
    "LogClosed",
    "MetadataParseError",
    "NoSuchStore",
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
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - Slower than all else here.

        return version("tierledger")
    if name not in {"FedReplica", "Replicas"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tierledger.actors.door.client import replicas  # noqa: PLC0415 - It loads gRPC.

    return getattr(replicas, name)
