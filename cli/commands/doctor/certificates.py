"""The dates of certificates: in files of this machine, and as servers show them."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tierledger.actors.wall_clock import WallClock
from tierledger.cli.commands.doctor.check import Check
from tierledger.cli.commands.doctor.given import KAFKA, SERVICE
from tierledger.cli.commands.doctor.seen import CheckSeen, UnseenError
from tierledger.cli.output import error_text
from tierledger.cli.settings import DOOR_VARIABLES, door_config
from tierledger.events.errors import RemoteStorageError
from tierledger.events.typed_fields import time_text
from tierledger.storage.kafka_brokers import KEYSTORE, TRUSTSTORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from cryptography.x509 import Certificate

    from tierledger.cli.commands.doctor.given import Given

DAYS_WARNED = 14
"""Days before its end from which on a certificate is a warning."""

DAY_MS = 86_400_000

SHOWN_S = 3.0
"""How long a server may take to show its certificate."""

_RENEW = "renew it; it is read again at the next connection, so nothing needs a restart"


async def _certificates(given: Given) -> AsyncIterator[CheckSeen]:
    files = {DOOR_VARIABLES["TIERLEDGER_CA"], DOOR_VARIABLES["TIERLEDGER_CERTIFICATE"]}
    paths = [path for name, path in door_config().items() if name in files]
    servers: list[str] = []
    with suppress(UnseenError, RemoteStorageError):  # Other checks tell it.
        doors, tls = await given.doors() if given.has(SERVICE) else ([], False)
        servers += doors if tls else []
        if (record := await given.record()) is not None:
            security = record.settings.security
            named = (security.certificate, security.ca, security.client_ca)
            paths += [one for one in named if one]
    if given.has(KAFKA):
        settings = given.brokers.settings()
        paths += [settings[name] for name in (TRUSTSTORE, KEYSTORE) if name in settings]
        if "ssl_context" in given.brokers.client_options():
            servers += (await given.each_broker()).addresses.values()
    # What the record names may be on another machine.
    there = await asyncio.to_thread(
        lambda: [one for one in dict.fromkeys(paths) if _is_file(one)]
    )
    for path in there:
        for one in _of_file(path):
            yield one
    for one in await asyncio.gather(*map(_of_server, dict.fromkeys(servers))):
        yield one
    if not there and not servers:
        yield CheckSeen.unseen(
            "no certificate is named",
            "TIERLEDGER_CERTIFICATE, TIERLEDGER_CA, a service with TLS, or --kafka-config name "
            "some",
        )


def _is_file(path: str) -> bool:
    return Path(path).is_file()


def _of_file(path: str) -> Iterator[CheckSeen]:
    from cryptography.x509 import load_pem_x509_certificates

    try:
        found = load_pem_x509_certificates(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        yield CheckSeen.failed(path, error_text(error), "expected a PEM file with certificates")
        return
    # Of a long list of authorities the one that ends first.
    yield of_certificate(path, min(found, key=lambda one: one.not_valid_after_utc))


async def _of_server(address: str) -> CheckSeen:
    """What the server at `address` shows, whether it is trusted or not."""
    from cryptography.x509 import load_der_x509_certificate

    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])  # gRPC closes connections without it.
    try:
        async with asyncio.timeout(SHOWN_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
    except (OSError, TimeoutError) as error:
        mend = "see whether it listens there, with TLS, and what is between"
        return CheckSeen.failed(address, error_text(error), mend)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()
    return of_certificate(address, load_der_x509_certificate(shown))


def of_certificate(subject: str, found: Certificate) -> CheckSeen:
    """How it stands with the dates of a certificate."""
    now_ms = WallClock().now_ms()
    begins_ms = int(found.not_valid_before_utc.timestamp() * 1000)
    ends_ms = int(found.not_valid_after_utc.timestamp() * 1000)
    if begins_ms > now_ms:
        text = f"it is valid only from {time_text(begins_ms)} on"
        return CheckSeen.failed(subject, text, "see whether this machine's clock is right")
    text = f"it ends at {time_text(ends_ms)}"
    if ends_ms <= now_ms:
        return CheckSeen.failed(subject, f"it ended at {time_text(ends_ms)}", _RENEW)
    if ends_ms - now_ms < DAYS_WARNED * DAY_MS:
        return CheckSeen.warning(
            subject, f"{text}, in {(ends_ms - now_ms) // DAY_MS} days", _RENEW
        )
    return CheckSeen.well(subject, text)


CERTIFICATES = (
    Check(
        "certificates",
        f"certificates that are named, and those of doors and brokers with TLS, are valid for "
        f"{DAYS_WARNED} days",
        _certificates,
        "see the files and servers that are named",
    ),
)
