"""Kafka's checkpoints with one offset per partition, which lie beside partitions' folders."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tierledger.events.errors import CorruptRemoteData
from tierledger.storage.durable_files import replace_durably

LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CHECKPOINT_VERSION: Final = "0"

_ENTRY = re.compile(r"(\S+) (\d{1,10}) (\d{1,19})", re.ASCII)

_writing = threading.Lock()
"""Serializes writes: all partitions of a broker share a file, and several threads write it."""


def read_offsets(path: Path) -> dict[tuple[str, int], int] | None:
    """Offset by topic and partition; none if there is no such file.

    Raises:
        CorruptRemoteData: The file is no checkpoint of version 0.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise _corrupt(path, "text", "other bytes") from None
    if lines[:1] != [CHECKPOINT_VERSION]:
        raise _corrupt(path, f"version {CHECKPOINT_VERSION}", repr("".join(lines[:1])[:32]))
    if lines[1:2] != [str(len(lines) - 2)]:
        count = repr("".join(lines[1:2])[:32])
        raise _corrupt(path, f"a count of {len(lines) - 2} entries", count)
    offsets = {}
    for line in lines[2:]:
        matched = _ENTRY.fullmatch(line)
        if matched is None:
            raise _corrupt(path, "a topic, a partition and an offset", repr(line[:64]))
        offsets[matched[1], int(matched[2])] = int(matched[3])
    return offsets


def write_offset(path: Path, topic: str, partition: int, offset: int) -> None:
    """Set the partition's offset in the file, and keep all others. Durable on return.

    Raises:
        CorruptRemoteData: The file is no checkpoint; it is left unchanged.
    """
    with _writing:
        offsets = read_offsets(path) or {}
        offsets[topic, partition] = offset
        replace_durably(path, _formatted(offsets))


def _formatted(offsets: Mapping[tuple[str, int], int]) -> bytes:
    lines = [CHECKPOINT_VERSION, str(len(offsets))]
    lines += [f"{topic} {number} {offset}" for (topic, number), offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def _corrupt(path: Path, expected: str, got: str) -> CorruptRemoteData:
    return CorruptRemoteData(f"{path}: expected {expected}, got {got}")
