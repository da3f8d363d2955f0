"""Certificates and keys from PEM files, as gRPC credentials."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.door.security.renewed import Renewed, read
from tierledger.events.errors import InvalidArgument

if TYPE_CHECKING:
    import grpc


class Pair(NamedTuple):
    """The paths of a certificate chain and its key."""

    certificate: str
    key: str

    def read(self) -> tuple[bytes, bytes]:
        """The bytes of chain and key, checked to belong to each other.

        Raises:
            InvalidArgument: They do not, or a file has none. The message contains no key.
        """
        chain, key = read(self.certificate, "the certificate"), read(self.key, "the key")
        self.context()
        return chain, key

    def context(self) -> ssl.SSLContext:
        """A server's side of TLS with chain and key.

        Raises:
            InvalidArgument: As `read`.
        """
        for path, what in zip(self, ("the certificate", "the key"), strict=True):
            read(path, what)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            raise InvalidArgument(
                f"expected a PEM certificate in {self.certificate} and its key, not encrypted, "
                f"in {self.key}: {reason}"
            ) from None
        return context


def _no_password() -> str:
    """Without this, OpenSSL would ask on the terminal."""
    return ""


def read_authorities(path: str) -> bytes:
    """The bytes of a file with the certificates of authorities.

    Raises:
        InvalidArgument: The file has no certificates.
    """
    found = read(path, "the certificate authority")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        raise InvalidArgument(f"expected PEM certificates in {path}, found none") from error
    return found


def server_credentials(
    pair: Pair, client_authority: str | None, complain: Callable[[str], None]
) -> grpc.ServerCredentials:
    """The credentials of a port; each new connection uses the files as they are then.

    Raises:
        InvalidArgument: The files are wrong as they are now.
    """
    import grpc  # noqa: PLC0415 - Settings are read without it.

    def load() -> grpc.ServerCertificateConfiguration:
        chain, key = pair.read()
        roots = client_authority and read_authorities(client_authority)
        return grpc.ssl_server_certificate_configuration([(key, chain)], roots or None)

    paths = (*pair, *((client_authority,) if client_authority else ()))
    files = Renewed(paths, load, complain)
    given = files.current()

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC at each connection, on one of its threads; None: no change."""
        nonlocal given
        former, given = given, files.current()
        return None if given is former else given

    return grpc.dynamic_ssl_server_credentials(
        given,
        renewed,  # type: ignore[arg-type] # Its types know of no None.
        require_client_authentication=bool(client_authority),
    )


EXPIRED = 10
"""OpenSSL's number for a certificate whose time is over."""


def check_signed(pair: Pair, authority: str | None) -> None:
    """Refuse a certificate that clients with that authority do not trust, whatever its names.

    No `authority`: gRPC's own list counts. A certificate that has expired may be renewed soon.

    Raises:
        InvalidArgument: None of the authorities has signed it.
    """
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.check_hostname = False
    ours.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # As gRPC.
    ours.load_verify_locations(authority or _own_list())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ours.wrap_bio(to_client, to_server)
    server = pair.context().wrap_bio(to_server, to_client, server_side=True)
    try:
        for side in (client, server, client):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == EXPIRED:
            return
        of = "gRPC's own list" if authority is None else authority
        raise InvalidArgument(
            f"expected a certificate of an authority in {of} in {pair.certificate}, as hosts "
            f"would not trust each other: {error.verify_message}"
        ) from None


def _own_list() -> str:
    """The authorities that gRPC trusts if none are named."""
    import grpc  # noqa: PLC0415 - As above.

    return str(Path(grpc.__file__).parent / "_cython" / "_credentials" / "roots.pem")


def channel_credentials(authority: str | None, own: Pair | None) -> grpc.ChannelCredentials:
    """The credentials of a connection, from the files now; no `authority`: gRPC's own list.

    Raises:
        InvalidArgument: A file is wrong.
    """
    import grpc  # noqa: PLC0415 - As above.

    roots = None if authority is None else read_authorities(authority)
    chain, key = (None, None) if own is None else own.read()
    return grpc.ssl_channel_credentials(roots, key, chain)
