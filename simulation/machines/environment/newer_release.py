"""Releases beside this one: a newer one with a format of its own, and an older one."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from tierledger.storage.serde import HEADER_BYTES, VERSIONS, MsgpackSerDe, Plain, _framed, _seed

NEWER = 0x7F
"""The version number in the batches of a newer release."""


OLDER = 1
"""The version of a partition's value before disputes in a row were counted."""

HEAD_AT, RUN_AT = 8, -1
"""Where the count of disputes stands now: in the value's head, as its last field."""


class OlderSerDe(MsgpackSerDe):
    """Writes checkpoints as the release before this one did, if they have no newer field."""

    @override
    def serialize(self, kind: str, fields: Sequence[Plain]) -> bytes:
        if kind == "partition" and fields[HEAD_AT][RUN_AT] is None:
            older = list(fields)
            older[HEAD_AT] = older[HEAD_AT][:RUN_AT]
            payload = super().serialize(kind, older)[HEADER_BYTES:]
            return _framed(OLDER, _seed(kind, OLDER), payload)
        return super().serialize(kind, fields)


class NewerSerDe(MsgpackSerDe):
    """Reads both formats. It may write the newer one before other hosts can read it."""

    def __init__(self, *, writes_newer: bool) -> None:
        super().__init__()
        self.writes_newer = writes_newer

    @override
    def serialize(self, kind: str, fields: Sequence[Plain]) -> bytes:
        data = super().serialize(kind, fields)
        if self.writes_newer and kind in {"batch", "partition"}:
            return _framed(NEWER, _seed(kind, NEWER), data[HEADER_BYTES:])
        return data

    @override
    def deserialize(self, kind: str, data: bytes) -> list[Plain]:
        if data[:1] == bytes((NEWER,)):
            payload = data[HEADER_BYTES:]
            if _framed(NEWER, _seed(kind, NEWER), payload) == data:
                data = _framed(VERSIONS[kind], _seed(kind, VERSIONS[kind]), payload)
        return super().deserialize(kind, data)
