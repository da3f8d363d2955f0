"""Every error a caller can catch, in one tree.

    RemoteStorageError                      Kafka's RemoteStorageException
    ├── RetryableError                      it did not happen; trying again is safe
    │   ├── NotReady                        still catching up
    │   ├── NotLeader                       somebody else leads, or nobody does
    │   ├── Overloaded                      too much is waiting already; slow down
    │   └── StorageUnavailable              the medium refused, and kept nothing
    ├── OutcomeUnknown                      it may have happened; repeat the same request id
    ├── RejectedError                       it did not happen and will not
    │   ├── InvalidStateTransition
    │   ├── RemoteResourceNotFound
    │   │   └── PartitionDeleted
    │   ├── CustomMetadataSizeLimitExceeded
    │   ├── NotAuthorized                   wrong certificate or token, or not allowed
    │   └── InvalidArgument                 also a ValueError
    ├── Fenced                              it did not happen; this session is finished
    └── DataError                           stop; a person must look
        ├── CorruptLog
        ├── CorruptCheckpoint
        ├── Quarantined
        ├── MetadataParseError              also a ValueError
        ├── CorruptRemoteData
        ├── StoreRefused
        └── FormatTooNew

These are all that a caller of either client gets, whatever failed below: `actors.service_link`.
The branches are the different things a caller can do. A new class is added only when a caller
would act differently on it; everything else goes in the message, the one argument of each.
Names are Kafka's without "Exception", so that an operator recognises them.

Rule: an error crosses processes by pickle, which rebuilds it as `type(error)(*error.args)`. So
none here has an `__init__`; one added elsewhere passes all that it takes to `super().__init__`.
"""

from __future__ import annotations


class RemoteStorageError(Exception):
    """Anything that tierledger says no with."""


class RetryableError(RemoteStorageError):
    """It did not happen; the same call may succeed later."""


class NotReady(RetryableError):
    """The partition is known here, but has not caught up with its log yet."""


class NotLeader(RetryableError):
    """This process does not lead the partition; ask the coordinator who does."""


class Overloaded(RetryableError):
    """A bounded queue is full; nothing was queued."""


class StorageUnavailable(RetryableError):
    """The medium refused the whole step (it is full, or away); nothing of it was stored."""


class OutcomeUnknown(RemoteStorageError):
    """It may or may not have happened; repeat it with the same request id to find out."""


class RejectedError(RemoteStorageError):
    """It did not happen, and repeating it will not change that."""


class InvalidStateTransition(RejectedError):
    """The lifecycle does not lead from the present state to the wanted one; nothing changed."""


class RemoteResourceNotFound(RejectedError):
    """There is no such partition or segment; nothing changed."""


class PartitionDeleted(RemoteResourceNotFound):
    """The partition's deletion has finished; it answers nothing and takes nothing."""


class CustomMetadataSizeLimitExceeded(RejectedError):
    """The custom metadata is larger than the configured limit; nothing of it was stored."""


class NotAuthorized(RejectedError):
    """One side of a connection is not who it must be, or may not do what it asked for."""


class InvalidArgument(RejectedError, ValueError):
    """The call itself is wrong: a value out of range, or of the wrong form."""


class Fenced(RemoteStorageError):
    """A newer announcement leads; nothing this session sends will be accepted again."""


class DataError(RemoteStorageError):
    """Stored or recorded bytes are not what they must be; a person must look."""


class CorruptLog(DataError):
    """An event of the log does not verify."""


class CorruptCheckpoint(DataError):
    """A checkpoint does not verify; the log behind it may still be whole."""


class Quarantined(DataError):
    """The partition refuses writes and answers from its last good state, if it has one."""


class MetadataParseError(DataError, ValueError):
    """Bytes or a line that should hold Kafka's metadata do not."""


class CorruptRemoteData(DataError):
    """Bytes from the remote tier are not what was copied there."""


class StoreRefused(DataError):
    """The store is not ours to open: foreign, missing, read-only, or in use by a writer."""


class FormatTooNew(DataError):
    """A newer program wrote this; update this one."""
