"""Errors cross processes unchanged, and show what the caller can do."""

import inspect
import pickle

import pytest

from tierledger.events import errors
from tierledger.events.errors import (
    DataError,
    Fenced,
    OutcomeUnknown,
    PartitionDeleted,
    RejectedError,
    RemoteResourceNotFound,
    RemoteStorageError,
    RetryableError,
)

CLASSES = [
    member
    for _, member in inspect.getmembers(errors, inspect.isclass)
    if issubclass(member, RemoteStorageError)
]

SAMPLES = [kind(f"a sample of {kind.__name__}") for kind in CLASSES]

BRANCHES = (RetryableError, OutcomeUnknown, RejectedError, Fenced, DataError)


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_survives_the_trip_between_processes(error: RemoteStorageError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.args == error.args
    assert vars(copy) == vars(error)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_belongs_to_one_branch(kind: type[RemoteStorageError]) -> None:
    branches = [branch for branch in BRANCHES if issubclass(kind, branch)]

    assert len(branches) == (0 if kind is RemoteStorageError else 1)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_picture_in_the_module_shows_every_error(kind: type[RemoteStorageError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")


def test_only_wrong_input_is_a_value_error_too() -> None:
    names = [kind.__name__ for kind in CLASSES if issubclass(kind, ValueError)]

    assert names == ["InvalidArgument", "MetadataParseError"]


def test_a_deleted_partition_is_not_found() -> None:
    assert issubclass(PartitionDeleted, RemoteResourceNotFound)
