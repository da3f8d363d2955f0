"""The seal in Kafka's metadata topic: a record that Kafka's own manager cannot read.

A broker whose manager does not know segments takes them for gone, and deletes. One whose
manager has not read its metadata deletes nothing. Kafka's manager ends where it cannot read, so
behind a seal it is never ready.
"""

from __future__ import annotations

_PREFIX = b"tierledger seal "

SEAL = _PREFIX + (
    b"1: tierledger owns the remote log metadata of this cluster. Kafka's own manager ends "
    b"here, so that no broker deletes segments that only tierledger knows. "
    b"Start brokers with tierledger's plugin. The way back: tierledger handover --to kafka"
)
"""The value of a seal; the number is its version."""


def is_seal(value: bytes | None) -> bool:
    """Whether a record's value is a seal, of any version."""
    return value is not None and value.startswith(_PREFIX)
