"""What one client may ask of a host, so that nobody else waits for it."""

from __future__ import annotations

from importlib.metadata import version
from typing import NamedTuple

VERSION_MIN = 1
VERSION_MAX = 1
"""The protocol versions that are spoken here."""

SOFTWARE = f"tierledger {version('tierledger')}"

SERVICE = "tierledger.door.v1.Door"
METHOD = "Converse"
FEED_METHOD = "Feed"

FRAME_BYTES = 512 * 1024
"""Bytes of a frame from which on what is still waiting goes into the next one."""

FRAME_ITEMS = 1000
"""The same for its calls or answers."""

KEEPALIVE_MS = 10_000
"""After so long without a word the other side is asked for a sign of life, which also keeps
what lies between from cutting the connection."""

KEEPALIVE_TIMEOUT_MS = 5_000
"""How long that may take."""


class DoorLimits(NamedTuple):
    """Bounds of one gateway."""

    frame_bytes_max: int = 16 * 1024 * 1024
    """Of what a client sends; a frame is in memory as a whole."""
    calls_max: int = 4096
    """Calls of a connection that have no answer on its way; then it is read no further."""
    connections_max: int = 4096
    subscriptions_max: int = 10_000
    """Of one connection: as many partitions as a broker may have replicas of."""
    unread_bytes_max: int = 64 * 1024 * 1024
    """Answers that wait for one client to read; then it is cut off."""
    greeting_s: float = 10.0
    """How long a connection may take to say who it is."""
    reading_s: float = 30.0
    """How long a client may read nothing while an answer waits."""
