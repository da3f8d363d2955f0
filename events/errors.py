"""Every error a caller can catch, in one tree.

    RemoteStorageError                      Kafka's RemoteStorageException
    ├── RetryableError                      nothing changed; a retry is safe
    │   ├── NotReady                        the partition is still catching up
    │   ├── NotLeader                       another broker leads, or none does
    │   ├── Overloaded                      back-pressure: a queue is full; slow down
    │   └── StorageUnavailable              the medium refused the step and stored nothing
    ├── OutcomeUnknown                      in doubt; retry with the same request id
    ├── RejectedError                       nothing changed; a retry fails again
    │   ├── InvalidStateTransition
    │   ├── RemoteResourceNotFound
    │   │   └── PartitionDeleted
    │   ├── CustomMetadataSizeLimitExceeded
    │   ├── NotAuthorized                   wrong certificate or token, or not allowed
    │   └── InvalidArgument                 also a ValueError
    ├── Fenced                              nothing changed; this claim has lost the lead
    └── DataError                           stop; an operator has to look
        ├── CorruptLog
        ├── CorruptCheckpoint
        ├── Quarantined
        ├── MetadataParseError              also a ValueError
        ├── CorruptRemoteData
        ├── StoreRefused
        │   ├── NoSuchStore
        │   └── LogClosed
        └── FormatTooNew

Callers of either client get these and no others: `actors/client/service_link.py` converts the
rest. Each branch calls for a different reaction of the caller. A new class is added only if
callers would react differently to it; all else is in the message, the one argument of each.
Names are Kafka's without "Exception", so that an operator recognises them.

Rule: an error crosses processes by pickle, which rebuilds it as `type(error)(*error.args)`. So
no class here has an `__init__`; a class elsewhere passes all its arguments to the base's.
"""

from __future__ import annotations


class RemoteStorageError(Exception):
    """The base of all errors of tierledger."""


class RetryableError(RemoteStorageError):
    """Nothing changed; the same call may succeed later."""


class NotReady(RetryableError):
    """The partition is known here, but has not caught up with its log yet."""


class NotLeader(RetryableError):
    """This host does not lead the partition; ask the coordinator for the one that does."""


class Overloaded(RetryableError):
    """A bounded queue is full; nothing was queued."""


class StorageUnavailable(RetryableError):
    """The medium refused the whole step (it is full, or away); nothing of it was stored."""


class OutcomeUnknown(RemoteStorageError):
    """The call is in doubt; a retry with the same request id finds out what happened."""


class RejectedError(RemoteStorageError):
    """Nothing changed, and a retry would fail again."""


class InvalidStateTransition(RejectedError):
    """The lifecycle has no transition from the present state to the wanted one; no change."""


class RemoteResourceNotFound(RejectedError):
    """There is no such partition or segment; nothing changed."""


class PartitionDeleted(RemoteResourceNotFound):
    """The partition's deletion is finished; it takes no questions and no writes."""


class CustomMetadataSizeLimitExceeded(RejectedError):
    """The custom metadata is larger than the configured limit; nothing of it was stored."""


class NotAuthorized(RejectedError):
    """One side of a connection failed to authenticate, or lacks the right for the call."""


class InvalidArgument(RejectedError, ValueError):
    """An argument of the call is out of range or malformed."""


class Fenced(RemoteStorageError):
    """A newer claim leads; no write under the caller's claim will be accepted again."""


class DataError(RemoteStorageError):
    """Stored or recorded bytes are damaged; an operator has to look."""


class CorruptLog(DataError):
    """An event of the log does not verify."""


class CorruptCheckpoint(DataError):
    """A checkpoint does not verify; its log may still be undamaged."""


class Quarantined(DataError):
    """The partition refuses writes and answers from its last good state, if it has one."""


class MetadataParseError(DataError, ValueError):
    """Bytes, or a line of a file, cannot be parsed as Kafka's metadata."""


class CorruptRemoteData(DataError):
    """Bytes from the remote tier differ from those that were copied there."""


class StoreRefused(DataError):
    """The store cannot be opened: another program's, missing, read-only, or has a writer."""


class NoSuchStore(StoreRefused):
    """There is no store at that place yet; a writer would create it."""


class LogClosed(StoreRefused):
    """The log is closed: the ledger goes on in another store, or is not there as a whole."""


class FormatTooNew(DataError):
    """A newer version of the program wrote the data; update this one."""
