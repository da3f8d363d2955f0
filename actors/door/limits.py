"""Limits of one client at a host, so that other clients do not have to wait for it."""

from __future__ import annotations

from importlib.metadata import version
from typing import NamedTuple

VERSION_MIN = 1
VERSION_MAX = 1
"""The protocol versions that this release speaks."""

SOFTWARE = f"tierledger {version('tierledger')}"

SERVICE = "tierledger.door.v1.Door"
METHOD = "Converse"
FEED_METHOD = "Feed"

HEALTH_SERVICE = "grpc.health.v1.Health"
HEALTH_CHECK = f"/{HEALTH_SERVICE}/Check"
SERVING = b"\x08\x01"
"""gRPC's own protocol for health checks, and the answer of a host that serves."""

FRAME_BYTES = 512 * 1024
"""Bytes at which a frame is full; further calls or answers go into the next one."""

FRAME_ITEMS = 1000
"""Calls or answers at which a frame is full."""

KEEPALIVE_MS = 10_000
"""After so long without traffic gRPC sends a keepalive ping, which also keeps proxies from
cutting the connection."""

KEEPALIVE_TIMEOUT_MS = 5_000
"""Timeout of a keepalive ping."""


class DoorLimits(NamedTuple):
    """Bounds of one gateway."""

    frame_bytes_max: int = 16 * 1024 * 1024
    """Bytes of a client's frame, which is in memory as a whole."""
    calls_max: int = 4096
    """Calls of a stream without a written answer; at so many it is read no further."""
    connections_max: int = 4096
    subscriptions_max: int = 10_000
    """Subscriptions of one connection: a broker may have replicas of so many partitions."""
    unread_bytes_max: int = 64 * 1024 * 1024
    """Bytes of answers that clients have not read, of all streams of a host; with more the
    stream with the most is cut off."""
    greeting_s: float = 10.0
    """How long a connection may take to greet."""
    reading_s: float = 30.0
    """How long a client may read nothing while an answer waits."""
