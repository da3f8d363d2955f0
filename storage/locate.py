"""Where a store is, as people write it: `sqlite:FILE` or `memory:`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from tierledger.events.errors import InvalidArgument

SCHEMES = {"sqlite": "sqlite:FILE", "memory": "memory:"}
"""Each scheme, and how a URL of it looks."""


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """Which kind of store, and for a file, where."""

    scheme: str
    path: Path | None = None

    @override
    def __str__(self) -> str:
        return f"{self.scheme}:{self.path or ''}"


def parse_store_url(text: str) -> StoreUrl:
    """The store that `text` names.

    Raises:
        InvalidArgument: The scheme is unknown, or what follows does not fit it.
    """
    scheme, colon, rest = text.partition(":")
    if not colon or scheme not in SCHEMES:
        known = " or ".join(SCHEMES.values())
        raise InvalidArgument(f"expected a store as {known}, got {text!r}")
    if scheme == "memory":
        if rest:
            raise InvalidArgument(f"expected nothing behind memory:, got {text!r}")
        return StoreUrl(scheme)
    if not rest or "\0" in rest:
        raise InvalidArgument(f"expected a file behind sqlite:, got {text!r}")
    if rest.startswith("//") and not rest.startswith("///"):
        raise InvalidArgument(f"expected sqlite:FILE without a host, got {text!r}")
    return StoreUrl(scheme, _expanded(rest))


def default_store_url() -> StoreUrl:
    """The store of whoever names none: a file among the user's data."""
    # Imported here: whoever names a store need not wait for it.
    from platformdirs import user_data_path  # noqa: PLC0415

    path = user_data_path("tierledger", appauthor=False) / "tierledger.sqlite"
    return StoreUrl("sqlite", path)


def _expanded(text: str) -> Path:
    # A shell does not expand `~` behind a colon.
    try:
        # Absolute, because it may be opened by a process that runs in another folder.
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise InvalidArgument(f"{text!r}: {error}") from error
