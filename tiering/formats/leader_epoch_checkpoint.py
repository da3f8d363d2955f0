"""Kafka's leader-epoch-checkpoint: each leader epoch and the offset at which it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tierledger.events.errors import CorruptRemoteData

CHECKPOINT_VERSION: Final = 0

_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_ENTRY = re.compile(r"(\d{1,10}) (\d{1,19})", re.ASCII)


def parse_leader_epochs(data: bytes, name: str) -> dict[int, int]:
    """The epochs in `data` with their start offsets, ascending; `name` is for errors.

    Raises:
        CorruptRemoteData: `data` is no checkpoint of version 0, or its entries do not ascend.
    """
    try:
        lines = data.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise _corrupt(name, "ASCII text", repr(data[:32])) from None
    if lines[-1] == "":
        lines.pop()
    if len(lines) < 2:
        raise _corrupt(name, "a version and a count", repr(data[:32]))
    if lines[0] != str(CHECKPOINT_VERSION):
        raise _corrupt(name, f"version {CHECKPOINT_VERSION}", repr(lines[0][:32]))
    if _NUMBER.fullmatch(lines[1]) is None or int(lines[1]) != len(lines) - 2:
        raise _corrupt(name, f"a count of {len(lines) - 2} entries", repr(lines[1][:32]))
    epochs: dict[int, int] = {}
    last = (-1, -1)
    for line in lines[2:]:
        matched = _ENTRY.fullmatch(line)
        if matched is None:
            raise _corrupt(name, "an epoch and an offset", repr(line[:64]))
        epoch, offset = int(matched[1]), int(matched[2])
        if epoch <= last[0] or offset < last[1]:
            raise _corrupt(name, f"an epoch after {last[0]} from {last[1]} on", line)
        epochs[epoch] = offset
        last = (epoch, offset)
    return epochs


def format_leader_epochs(epochs: Mapping[int, int]) -> bytes:
    """The checkpoint that Kafka would write for `epochs`."""
    lines = [str(CHECKPOINT_VERSION), str(len(epochs))]
    lines += [f"{epoch} {offset}" for epoch, offset in sorted(epochs.items())]
    return ("\n".join(lines) + "\n").encode("ascii")


def _corrupt(name: str, expected: str, got: str) -> CorruptRemoteData:
    return CorruptRemoteData(f"{name}: expected {expected}, got {got}")
