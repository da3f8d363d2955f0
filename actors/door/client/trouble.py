"""Finds out why a connection to a door failed, where gRPC's error does not say so plainly.

After a failure the door is tried once more without gRPC, only for the reason; no token is sent.
"""

from __future__ import annotations

import asyncio
import ssl

from tierledger.actors.door.addresses import DoorAddress
from tierledger.actors.door.security.settings import ClientSecurity

TRIED_S = 2.0

HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The first bytes of an HTTP/2 client (RFC 9113, 3.4), with no settings of its own."""


async def trouble_with(door: str, security: ClientSecurity) -> str | None:
    """What is wrong with TLS, on the door's side or ours; None if the cause is another."""
    address = DoorAddress.parse(door)
    try:
        async with asyncio.timeout(TRIED_S):
            if security.tls:
                return await _tls_trouble(address, security)
            return await _plaintext_trouble(address)
    except (OSError, TimeoutError):  # Also TLS errors without a known cause.
        return None


async def _tls_trouble(address: DoorAddress, security: ClientSecurity) -> str | None:
    context = ssl.create_default_context(cafile=security.ca)
    if security.pair is not None:
        context.load_cert_chain(*security.pair)
    context.set_alpn_protocols(["h2"])
    try:
        # A host that is ending closes the connection, too; the second try tells them apart.
        answer = await _first_byte(address, context) or await _first_byte(address, context)
    except ssl.SSLCertVerificationError as error:
        if security.ca is None and "issuer" in error.verify_message:
            return None  # This machine's list of authorities differs from gRPC's.
        return f"the host's certificate is not accepted: {error.verify_message}"
    except ssl.SSLError as error:
        if error.reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST"}:
            return "the host does not speak TLS; expected a URL of tierledger://…"
        if "alert" in str(error).lower():
            return f"the host refuses our certificate, or has none for us: {error.reason}"
        return None
    if answer:
        return None
    shown = "none was shown" if security.pair is None else "ours is not one it accepts"
    return f"the host asks for a client's certificate, and {shown}"


async def _plaintext_trouble(address: DoorAddress) -> str | None:
    context = ssl.create_default_context()
    context.check_hostname = False  # This only tests whether the door speaks TLS.
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        await _first_byte(address, context)
    except ssl.SSLError:
        return None
    return "the host speaks TLS; expected a URL of tierledgers://…"


async def _first_byte(address: DoorAddress, context: ssl.SSLContext) -> bytes:
    """The first byte after the handshake; empty if the connection is closed instead."""
    reader, writer = await asyncio.open_connection(
        address.host, address.port, ssl=context, server_hostname=address.host
    )
    try:
        writer.write(HTTP2_GREETING)
        return await reader.read(1)
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()
