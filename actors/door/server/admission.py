"""Admission of clients: the one place where connections are accepted and identified."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tierledger.actors.coordinator.checked_requests import checked_broker
from tierledger.actors.door.limits import VERSION_MAX, VERSION_MIN
from tierledger.actors.door.security.identity import ANYBODY, Identity, check_speaks_for
from tierledger.actors.door.security.renewed import Renewed
from tierledger.actors.door.security.settings import DoorSecurity
from tierledger.actors.door.security.tokens import (
    HEADER,
    SCHEME,
    TokenList,
    digest_of,
    read_list,
)
from tierledger.events.errors import InvalidArgument, NotAuthorized
from tierledger.events.typed_fields import Text, checked, shown

if TYPE_CHECKING:
    import grpc.aio

    from tierledger.actors.door import door_pb2 as pb

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"

LOOK_S = 1.0
"""How long an open stream may still use a token whose line was removed from the list."""


class Guest(NamedTuple):
    """A client that was admitted."""

    peer: str
    """The client's address, as gRPC gives it."""
    broker_id: int | None
    """The broker that the client represents, as it says and is allowed to."""
    software: str
    version: int
    """The protocol version of the connection."""
    identity: str
    """The name of the identity that it has proved."""


class Admission:
    """Checks the clients that connect to a door."""

    def __init__(
        self,
        cluster_id: str,
        security: DoorSecurity | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        complain: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`complain` gets the reason why changed files are not used, perhaps on another thread.

        `now_ms` is the time by which tokens expire.

        Raises:
            InvalidArgument: A file is wrong as it is now.
        """
        security = security or DoorSecurity()
        self.credentials = security.credentials(complain)
        """The port's TLS credentials; None: it is not encrypted."""
        self._cluster_id = cluster_id
        self._now_ms = now_ms
        self._has_certificates = security.client_ca is not None
        self._tokens: Renewed[TokenList] | None = None
        self._looked_s = float("-inf")
        path = security.tokens
        if path is not None:
            self._tokens = Renewed((path,), lambda: read_list(path), complain)
            self._list = self._tokens.current()

    def admitted(self, greeting: pb.ClientGreeting, peer: str, credential: Credential) -> Guest:
        """The client that has sent `greeting`, as admitted.

        Raises:
            NotAuthorized: It may not act for the broker that it names.
            InvalidArgument: It wants another cluster, has no protocol version in common with
                this host, or a field is wrong.
        """
        software: str = checked(Text, greeting.software, "greeting.software")
        version = min(greeting.version_max, VERSION_MAX)
        if not 0 < greeting.version_min <= version or version < VERSION_MIN:
            raise InvalidArgument(
                f"this host speaks the protocol versions {VERSION_MIN} to {VERSION_MAX}, the "
                f"client {greeting.version_min} to {greeting.version_max}: update the older one"
            )
        wants_any = not greeting.cluster_id and not greeting.HasField("broker_id")
        if greeting.cluster_id != self._cluster_id and not wants_any:
            raise InvalidArgument(
                f"this host serves cluster {self._cluster_id!r}, "
                f"not {shown(greeting.cluster_id)}: expected {self._cluster_id!r} as "
                "--cluster or cluster.id"
            )
        identity = credential.identity()
        broker_id = None
        if greeting.HasField("broker_id"):
            broker_id = checked_broker(greeting.broker_id)
            check_speaks_for(identity, broker_id, "greeting")
        return Guest(peer, broker_id, software, version, identity.name)

    def credential(self, context: Context) -> Credential:
        """The credential of the client on a stream.

        With a list of tokens, the client's token determines its identity. Otherwise its
        certificate's common name does, if the door asks for certificates.

        Raises:
            NotAuthorized: The client has proved no identity.
        """
        if self._tokens is not None:
            self._look(asyncio.get_running_loop().time(), self._tokens)
            credential = Credential(self, _token_of(context))
        elif self._has_certificates:
            credential = Credential(self, _named_in(context))
        else:
            credential = Credential(self, Identity(ANYBODY))
        credential.identity()
        return credential

    def owner(self, digest: bytes) -> Identity:
        """The identity that a token, by its digest, belongs to now.

        Raises:
            NotAuthorized: The token is not in the list, or has expired.
        """
        assert self._tokens is not None, "who has no list asks for no token"
        return self._list.owner(digest, self._now_ms())

    def looked(self) -> float:
        """When the list of tokens was checked last; checks it now if that is `LOOK_S` ago."""
        now_s = asyncio.get_running_loop().time()
        if self._tokens is not None and now_s >= self._looked_s + LOOK_S:
            self._look(now_s, self._tokens)
        return self._looked_s

    def _look(self, now_s: float, tokens: Renewed[TokenList]) -> None:
        self._list, self._looked_s = tokens.current(), now_s


class Credential:
    """What one client has shown. A token is valid only as long as the service's list has it."""

    def __init__(self, admission: Admission, shown_as: Identity | bytes) -> None:
        """`shown_as`: a token's digest, or an identity for as long as the stream is open."""
        self._admission = admission
        self._digest = shown_as if isinstance(shown_as, bytes) else None
        self._identity = shown_as if isinstance(shown_as, Identity) else Identity("")
        self._looked_s = float("-inf")

    def identity(self) -> Identity:
        """The client's present identity.

        Raises:
            NotAuthorized: Its token was removed, or has expired.
        """
        if self._digest is not None:
            looked_s = self._admission.looked()
            if looked_s != self._looked_s:
                self._identity = self._admission.owner(self._digest)
                self._looked_s = looked_s
        return self._identity


def _token_of(context: Context) -> bytes:
    """The digest of the token in a stream's metadata."""
    given = [value for key, value in context.invocation_metadata() or () if key == HEADER]
    text = given[0] if len(given) == 1 else None
    if not isinstance(text, str) or not text.startswith(SCHEME):
        raise NotAuthorized("expected one bearer token in the stream's metadata, got none")
    return digest_of(text.removeprefix(SCHEME))


def _named_in(context: Context) -> Identity:
    """The identity that a certificate, which gRPC has verified, was issued for."""
    names = [one.decode(errors="replace") for one in _common_names(context)]
    if len(names) != 1:
        raise NotAuthorized(f"expected one common name in the certificate, got {len(names)}")
    try:
        return Identity.parse(names[0])
    except InvalidArgument as error:
        raise NotAuthorized(f"the certificate's common name: {error}") from None


def _common_names(context: Context) -> list[bytes]:
    properties = context.auth_context()
    if properties.get("transport_security_type") != [b"ssl"]:
        return []
    return list(properties.get("x509_common_name", ()))
