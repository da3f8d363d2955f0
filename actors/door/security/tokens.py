"""Bearer tokens: a client's own in a file, and a service's list of tokens and identities.

A service keeps no token, only its SHA-256. A line of its list:

    SHA256-IN-HEX IDENTITY [EXPIRY]

such as `9f86…0a08 broker:3 2027-01-31T00:00:00Z`. Empty lines and those that begin with `#` do
not count. One identity may have several tokens, which is how they are renewed.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from tierledger.actors.door.security.identity import FORMS, Identity
from tierledger.actors.door.security.renewed import read
from tierledger.events.errors import InvalidArgument, NotAuthorized

HEADER = "authorization"
SCHEME = "Bearer "

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{16,4096}=*")
"""The characters of RFC 6750; a shorter token could be guessed."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


class KnownToken(NamedTuple):
    """A line of the list."""

    digest: bytes
    identity: Identity
    expires_ms: int | None


class TokenList(NamedTuple):
    """The tokens that a service knows."""

    known: tuple[KnownToken, ...]

    def find(self, digest: bytes) -> KnownToken | None:
        """The line of a token, or None; a wrong token takes as long as a right one."""
        found = None
        for one in self.known:
            if hmac.compare_digest(one.digest, digest):
                found = one
        return found

    def owner(self, digest: bytes, now_ms: int) -> Identity:
        """The identity that a token belongs to.

        Raises:
            NotAuthorized: The token is not in the list, or has expired.
        """
        found = self.find(digest)
        if found is None:
            raise NotAuthorized("this bearer token is not known here")
        if found.expires_ms is not None and found.expires_ms <= now_ms:
            raise NotAuthorized(f"the bearer token of {found.identity.name} has expired")
        return found.identity


def digest_of(token: str) -> bytes:
    return sha256(token.encode()).digest()


def read_list(path: str) -> TokenList:
    """The list in a file.

    Raises:
        InvalidArgument: A line is wrong, or there is none; the message names the line, not its
            contents.
    """
    text = read(path, "the list of tokens").decode(errors="replace")
    known: dict[bytes, KnownToken] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        try:
            one = _parsed(fields)
        except ValueError as error:
            raise InvalidArgument(f"{path}, line {number}: {error}") from None
        if one.digest in known:
            raise InvalidArgument(f"{path}, line {number}: an earlier line has this token")
        known[one.digest] = one
    if not known:
        raise InvalidArgument(f"{path}: expected at least one token, found none")
    return TokenList(tuple(known.values()))


def _parsed(fields: Sequence[str]) -> KnownToken:
    if len(fields) not in {2, 3} or not _DIGEST.fullmatch(fields[0].lower()):
        # The message repeats nothing of the line, which may be a token.
        raise ValueError("expected SHA256-IN-HEX IDENTITY [EXPIRY]")
    expires_ms = None
    if len(fields) > 2:
        try:
            expiry = datetime.fromisoformat(fields[2])
        except ValueError:
            expiry = None
        if expiry is None or expiry.tzinfo is None:
            raise ValueError("expected an expiry with its zone, as 2027-01-31T00:00:00Z")
        expires_ms = int(expiry.timestamp() * 1000)
    try:
        identity = Identity.parse(fields[1])
    except InvalidArgument:
        raise ValueError(f"{FORMS} behind the digest") from None
    return KnownToken(bytes.fromhex(fields[0]), identity, expires_ms)


def read_token(path: str) -> str:
    """The one token in a client's file.

    Raises:
        InvalidArgument: The file has no token, or more; the message does not contain it.
    """
    token = read(path, "the token").decode(errors="replace").strip()
    if not _TOKEN.fullmatch(token):
        raise InvalidArgument(
            f"{path}: expected one token of at least 16 letters, digits or ._~+/-"
        )
    return token
