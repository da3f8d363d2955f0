"""The slow model of a partition's answers, where tests have always found it."""

from tierledger.simulation.checkers.slow_model import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
    LEGAL,
    PARTITION_DELETE_FINISHED,
    Add,
    Epoch,
    PartitionDelete,
    Record,
    Segment,
    SlowPartition,
    Update,
)

__all__ = [
    "COPY_FINISHED",
    "COPY_STARTED",
    "DELETE_FINISHED",
    "DELETE_STARTED",
    "LEGAL",
    "PARTITION_DELETE_FINISHED",
    "Add",
    "Epoch",
    "PartitionDelete",
    "Record",
    "Segment",
    "SlowPartition",
    "Update",
]
