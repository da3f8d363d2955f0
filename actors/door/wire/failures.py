"""Errors as messages: their class, their text, and their fate (what the call left behind)."""

from __future__ import annotations

from tierledger.actors.calls import of_request
from tierledger.actors.door import door_pb2 as pb
from tierledger.events import errors
from tierledger.events.errors import RemoteStorageError

TEXT_MAX = 4096
"""Characters of an error's text that are sent."""

_KINDS: dict[type[RemoteStorageError], pb.Kind] = {
    errors.NotReady: pb.NOT_READY,
    errors.NotLeader: pb.NOT_LEADER,
    errors.Overloaded: pb.OVERLOADED,
    errors.StorageUnavailable: pb.STORAGE_UNAVAILABLE,
    errors.OutcomeUnknown: pb.OUTCOME_UNKNOWN,
    errors.InvalidStateTransition: pb.INVALID_STATE_TRANSITION,
    errors.RemoteResourceNotFound: pb.REMOTE_RESOURCE_NOT_FOUND,
    errors.PartitionDeleted: pb.PARTITION_DELETED,
    errors.CustomMetadataSizeLimitExceeded: pb.CUSTOM_METADATA_SIZE_LIMIT_EXCEEDED,
    errors.InvalidArgument: pb.INVALID_ARGUMENT,
    errors.Fenced: pb.FENCED,
    errors.CorruptLog: pb.CORRUPT_LOG,
    errors.CorruptCheckpoint: pb.CORRUPT_CHECKPOINT,
    errors.Quarantined: pb.QUARANTINED,
    errors.MetadataParseError: pb.METADATA_PARSE_ERROR,
    errors.StoreRefused: pb.STORE_REFUSED,
    errors.FormatTooNew: pb.FORMAT_TOO_NEW,
    errors.NotAuthorized: pb.NOT_AUTHORIZED,
}
_FATES: dict[type[RemoteStorageError], pb.Fate] = {
    errors.RetryableError: pb.RETRYABLE,
    errors.OutcomeUnknown: pb.UNKNOWN,
    errors.RejectedError: pb.REJECTED,
    errors.Fenced: pb.FENCED_OFF,
    errors.DataError: pb.DAMAGED,
}
_BY_KIND = {kind: error for error, kind in _KINDS.items()}
_BY_FATE = {fate: error for error, fate in _FATES.items()}


def failure_message(error: BaseException) -> pb.Failure:
    """The message for `error`; errors that are not ours become `OUTCOME_UNKNOWN`."""
    known = _classes_of(error)
    text = str(error) if known else f"{type(error).__name__}: {error}"
    default = pb.OUTCOME_UNKNOWN if not known else pb.KIND_UNSPECIFIED
    return pb.Failure(
        kind=next((_KINDS[one] for one in known if one in _KINDS), default),
        message=text.encode(errors="replace").decode()[:TEXT_MAX],
        fate=fate_of(error),
    )


def fate_of(error: BaseException) -> pb.Fate:
    """What `error` leaves behind; of errors that are not ours nothing is known."""
    return next((_FATES[one] for one in _classes_of(error) if one in _FATES), pb.UNKNOWN)


def _classes_of(error: BaseException) -> tuple[type, ...]:
    return type(error).__mro__ if isinstance(error, RemoteStorageError) else ()


def error_of(failure: pb.Failure) -> RemoteStorageError:
    """The error in a host's message; for an unknown kind, the class that fits its fate."""
    made = _BY_KIND.get(failure.kind) or _BY_FATE.get(failure.fate, errors.OutcomeUnknown)
    error = made(failure.message)
    return of_request(error, failure.request_id) if failure.request_id else error
