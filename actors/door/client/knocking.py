"""Knocking at a door: whether a client could come in there now."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio

from tierledger.actors.door.client.streams import BROKEN, NO_SECURITY, channel_to
from tierledger.actors.door.limits import HEALTH_CHECK, SERVING
from tierledger.actors.door.security.settings import ClientSecurity
from tierledger.events.errors import RemoteStorageError

KNOCK_S = 1.5
"""How long a host may take to connect and answer."""


async def opens(door: str, security: ClientSecurity = NO_SECURITY) -> bool:
    """Whether the host at `door` says on a new connection, and in time, that it serves.

    Nothing else than connecting shows that: an open connection may outlive the way to it.
    """
    try:
        channel = channel_to(door, security)
    except RemoteStorageError:
        return False
    check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH_CHECK)
    try:
        async with asyncio.timeout(KNOCK_S):
            return await check(b"") == SERVING
    except (*BROKEN, TimeoutError):
        return False
    finally:
        await channel.close()
