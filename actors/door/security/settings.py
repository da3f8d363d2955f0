"""Settings of a door's security: paths of files and switches, never the files' contents.

So these values may be sent, stored and shown.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tierledger.actors.door.addresses import DoorAddress
from tierledger.actors.door.security.tls import (
    Pair,
    channel_credentials,
    check_signed,
    server_credentials,
)
from tierledger.actors.door.security.tokens import (
    HEADER,
    SCHEME,
    digest_of,
    read_list,
    read_token,
)
from tierledger.events.errors import InvalidArgument, NotAuthorized

if TYPE_CHECKING:
    import grpc

CA_KEY = "door.ssl.ca.location"
CERTIFICATE_KEY = "door.ssl.certificate.location"
KEY_KEY = "door.ssl.key.location"
TOKEN_KEY = "door.token.location"
PLAINTEXT_KEY = "door.token.without.tls"


WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - They are what is looked for.
"""Addresses that listen on all interfaces, and that nobody can connect to."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ClientSecurity(NamedTuple):
    """How a client proves its identity, and which hosts it trusts."""

    tls: bool = False
    ca: str | None = None
    """Authorities that may sign a host's certificate; None: those of gRPC's own list."""
    certificate: str | None = None
    key: str | None = None
    token: str | None = None
    token_without_tls: bool = False
    """Whether the token may go to other machines unencrypted."""

    @classmethod
    def of(cls, config: Mapping[str, str], *, tls: bool) -> ClientSecurity:
        """The security in a client's settings, for a URL with or without TLS.

        Raises:
            InvalidArgument: The settings contradict each other, or the URL.
        """
        made = cls(
            tls=tls,
            ca=config.get(CA_KEY),
            certificate=config.get(CERTIFICATE_KEY),
            key=config.get(KEY_KEY),
            token=config.get(TOKEN_KEY),
            token_without_tls=_switch(config, PLAINTEXT_KEY),
        )
        if (made.certificate is None) is not (made.key is None):
            raise InvalidArgument(f"expected both {CERTIFICATE_KEY} and {KEY_KEY}, or neither")
        for name in (CA_KEY, CERTIFICATE_KEY):
            if name in config and not tls:
                raise InvalidArgument(f"expected a URL of tierledgers://… beside {name}")
        return made

    @property
    def config(self) -> dict[str, str]:
        """The client's settings from which `of` makes the same."""
        given = {
            CA_KEY: self.ca,
            CERTIFICATE_KEY: self.certificate,
            KEY_KEY: self.key,
            TOKEN_KEY: self.token,
            PLAINTEXT_KEY: "true" if self.token_without_tls else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def credentials(self) -> grpc.ChannelCredentials | None:
        """The TLS credentials of a connection that is opened now; None: it is not encrypted.

        Raises:
            InvalidArgument: A file is wrong.
        """
        if not self.tls:
            return None
        return channel_credentials(self.ca, self.pair)

    @property
    def pair(self) -> Pair | None:
        """The client's own certificate and key; None without one."""
        if self.certificate is None or self.key is None:
            return None
        return Pair(self.certificate, self.key)

    def metadata(self, door: str) -> tuple[tuple[str, str], ...]:
        """The metadata, with the client's token, of a stream to `door` that is opened now.

        Raises:
            InvalidArgument: The token's file is wrong.
            NotAuthorized: The token would be sent unencrypted to another machine.
        """
        if self.token is None:
            return ()
        if not (
            self.tls or self.token_without_tls or is_loopback(DoorAddress.parse(door).host)
        ):
            raise NotAuthorized(
                f"{door}: the token is not sent without TLS to another machine; expected a URL "
                f"of tierledgers://…, or {PLAINTEXT_KEY}=true"
            )
        return ((HEADER, SCHEME + read_token(self.token)),)


class DoorSecurity(NamedTuple):
    """How a service's hosts prove their identity, and which clients they admit."""

    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    """Authorities that may sign clients' certificates; if set, each client needs one."""
    tokens: str | None = None
    """The list of tokens; if set, each client needs a token, which gives its identity."""
    host_token: str | None = None
    """The token with which hosts connect to each other's doors."""
    ca: str | None = None
    """Authorities that may sign hosts' certificates, for other hosts."""
    allow_plaintext: bool = False
    allow_anonymous: bool = False
    """Off loopback, whether to go without TLS, and (this) without proof of identity."""

    @property
    def pair(self) -> Pair | None:
        """The hosts' certificate and key; None without one."""
        if self.certificate is None or self.key is None:
            return None
        return Pair(self.certificate, self.key)

    @property
    def as_client(self) -> ClientSecurity:
        """How a host connects to another host's door."""
        return ClientSecurity(
            tls=self.pair is not None,
            ca=self.ca or self.client_ca,
            certificate=self.certificate if self.client_ca else None,
            key=self.key if self.client_ca else None,
            token=self.host_token,
            token_without_tls=self.allow_plaintext,
        )

    def credentials(self, complain: Callable[[str], None]) -> grpc.ServerCredentials | None:
        """The TLS credentials of a port; None: it is not encrypted. Raises as `check` does."""
        if self.pair is None:
            return None
        return server_credentials(self.pair, self.client_ca, complain)

    def check(self, listen: DoorAddress, now_ms: Callable[[], int]) -> None:
        """Refuse settings that would not work, or would admit more clients than they say.

        Raises:
            InvalidArgument: Settings contradict each other, a file is wrong, or the door would
                be open to other machines.
        """
        if (self.certificate is None) is not (self.key is None):
            raise InvalidArgument("expected both --tls-cert and --tls-key, or neither")
        if self.pair is None and (self.client_ca or self.ca):
            raise InvalidArgument(
                "expected --tls-cert and --tls-key beside another --tls option"
            )
        if (self.tokens is None) is not (self.host_token is None):
            raise InvalidArgument(
                "expected both --tokens and --host-token, or neither: hosts pass calls on to "
                "each other, and need a token for it"
            )
        self._check_exposure(listen)
        self.credentials(lambda _: None)
        self.as_client.credentials()
        self._check_trust()
        if self.tokens is not None and self.host_token is not None:
            found = read_list(self.tokens).find(digest_of(read_token(self.host_token)))
            if found is None or found.identity.name != "host":
                raise InvalidArgument(
                    f"expected the identity host in {self.tokens} for the token in "
                    f"{self.host_token}, got {found.identity.name if found else 'none'}"
                )
            if found.expires_ms is not None and found.expires_ms <= now_ms():
                raise InvalidArgument(f"the token in {self.host_token} has expired")

    def _check_trust(self) -> None:
        """Hosts and the coordinator connect to each other's doors."""
        if self.pair is None:
            return
        try:
            check_signed(self.pair, self.as_client.ca)
        except InvalidArgument as error:
            error.add_note("--tls-ca names the authority of --tls-cert")
            raise

    def _check_exposure(self, listen: DoorAddress) -> None:
        if is_loopback(listen.host):
            return
        missing, switches = [], []
        if self.pair is None and not self.allow_plaintext:
            missing.append("encryption (--tls-cert and --tls-key)")
            switches.append("--allow-plaintext")
        if not (self.tokens or self.client_ca or self.allow_anonymous):
            missing.append("proof of who calls (--tokens or --tls-client-ca)")
            switches.append("--allow-anonymous")
        if missing:
            raise InvalidArgument(
                f"{listen} can be reached from other machines: expected "
                f"{' and '.join(missing)}, or {' '.join(switches)} to do without"
            )


def _switch(config: Mapping[str, str], key: str) -> bool:
    text = config.get(key, "false").lower()
    if text not in {"true", "false"}:
        raise InvalidArgument(f"{key}: expected true or false, got {text!r:.40}")
    return text == "true"
