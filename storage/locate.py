"""URLs of stores, as users write them: `sqlite:FILE`, `postgresql://…` or `memory:`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from typing_extensions import override

from tierledger.events.errors import InvalidArgument

SCHEMES = {
    "sqlite": "sqlite:FILE",
    "postgresql": "postgresql://USER@HOST:PORT/DATABASE",
    "slatedb": "slatedb:s3://BUCKET/PREFIX",
    "memory": "memory:",
}
"""The form of a URL for each scheme."""

ALIASES = {"postgres": "postgresql"}
"""Other names of schemes, which libpq takes, too."""

DEFAULT_CLUSTER = "default"
"""The cluster's id in a new store, and of a command at a door, if the user gives none."""

SECRETS = {
    "password",
    "sslpassword",
    "oauth_client_secret",
    "scram_client_key",
    "scram_server_key",
}
"""Secret parameters of libpq's, which no message may show."""


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """The kind of a store, and its place."""

    scheme: str
    path: Path | None = None
    """The file of a store in one."""

    server: str = field(default="", repr=False)
    """For a server: the URL after the scheme, from `//` on. May have a password. For a bucket:
    its own URL, `s3://BUCKET/PREFIX`."""

    @override
    def __str__(self) -> str:
        return f"{self.scheme}:{self.server or self._file}"

    @property
    def public(self) -> str:
        """The URL without secrets, for messages."""
        return f"{self.scheme}:{_without_secrets(self.server) or self._file}"

    @property
    def _file(self) -> str:
        kind = "file:" if self.scheme == "slatedb" else ""
        return "" if self.path is None else f"{kind}{self.path}"


def parse_store_url(text: str) -> StoreUrl:
    """The store that `text` names.

    Raises:
        InvalidArgument: The scheme is unknown, or what follows does not fit it.
    """
    scheme, _, rest = text.partition(":")
    scheme = ALIASES.get(scheme, scheme)
    if not is_store_url(text):
        known = " or ".join(SCHEMES.values())
        # A URL for another program may have a password in it.
        raise InvalidArgument(f"expected a store as {known}, got {public_url(text)!r}")
    if scheme == "postgresql":
        return _server(scheme, rest)
    if scheme == "slatedb":
        return _bucket(scheme, rest)
    if scheme == "memory":
        if rest:
            raise InvalidArgument(f"expected nothing behind memory:, got {text!r}")
        return StoreUrl(scheme)
    if not rest or "\0" in rest:
        raise InvalidArgument(f"expected a file behind sqlite:, got {text!r}")
    if rest.startswith("//") and not rest.startswith("///"):
        raise InvalidArgument(f"expected sqlite:FILE without a host, got {text!r}")
    return StoreUrl(scheme, _expanded(rest))


def is_store_url(text: str) -> bool:
    """Whether the scheme of `text` is that of a store."""
    scheme, colon, _ = text.partition(":")
    return bool(colon) and ALIASES.get(scheme, scheme) in SCHEMES


def public_url(text: str) -> str:
    """The URL `text` without secrets, whatever its scheme is."""
    scheme, colon, rest = text.partition(":")
    scheme = ALIASES.get(scheme, scheme)
    is_server = rest.startswith("//") and scheme != "sqlite"
    return f"{scheme}{colon}{_without_secrets(rest) if is_server else rest}"


def with_secrets_of(known: str, text: str) -> str:
    """`known` if `text` is that URL without its secrets, else `text`."""
    return known if public_url(known) == text else text


def default_store_path() -> Path | None:
    """The file of the store that is used when none is named; None: the user has no home."""
    # Imported here, as only the default store needs it.
    from platformdirs import user_data_path  # noqa: PLC0415

    try:
        return user_data_path("tierledger", appauthor=False) / "tierledger.sqlite"
    except RuntimeError:
        return None  # As of an id without a name, in a container.


def default_store_url() -> StoreUrl:
    """The store when none is named: a file among the user's data.

    Raises:
        InvalidArgument: The user has no home folder.
    """
    path = default_store_path()
    if path is None:
        raise InvalidArgument(
            "no store is named, and the default one needs a home folder: expected --store, "
            "TIERLEDGER_STORE or metadata.storage.url, or HOME"
        )
    return StoreUrl("sqlite", path)


def _server(scheme: str, rest: str) -> StoreUrl:
    if not rest.startswith("//") or "\0" in rest:
        raise InvalidArgument(f"expected {SCHEMES[scheme]}, got {scheme}:… without //")
    return StoreUrl(scheme, server=rest)


_PREFIX = re.compile(r"[^/\x00-\x1f\x7f?#]+")
"""A part of a bucket's prefix."""


def _bucket(scheme: str, rest: str) -> StoreUrl:
    """A store in a bucket; or, for tests, in a folder."""
    kind, _, place = rest.partition(":")
    if kind == "file" and place and "\0" not in place:
        if place.startswith("//"):
            place = place.removeprefix("//")
            if not place.startswith("/"):
                raise InvalidArgument(f"expected slatedb:file:DIRECTORY, got {rest!r}")
        return StoreUrl(scheme, path=_expanded(place))
    parts = place.removeprefix("//").removesuffix("/").split("/")
    are_names = all(_PREFIX.fullmatch(one) and one not in {".", ".."} for one in parts)
    if kind != "s3" or not place.startswith("//") or len(parts) == 1 or not are_names:
        raise InvalidArgument(
            f"expected {SCHEMES[scheme]}, got {scheme}:{_without_secrets(rest)}"
        )
    return StoreUrl(scheme, server="s3://" + "/".join(parts))


def _without_secrets(server: str) -> str:
    slashes = server[: 2 if server.startswith("//") else 0]
    text = server[len(slashes) :]
    # As libpq parses it: everything before the last @ is user and password.
    user, at, _ = text.partition("/")[0].rpartition("@")
    place, _, query = text[len(user) + len(at) :].partition("?")
    name = user.partition(":")[0].partition("?")[0]
    kept = [one for one in query.split("&") if unquote(one.partition("=")[0]) not in SECRETS]
    return f"{slashes}{name}{at}{place}{'?' if any(kept) else ''}{'&'.join(kept)}"


def _expanded(text: str) -> Path:
    # A shell does not expand `~` after a colon.
    try:
        # Absolute, because it may be opened by a process that runs in another folder.
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise InvalidArgument(f"{text!r}: {error}") from error
