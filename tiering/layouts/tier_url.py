"""Opens the storage manager that a tier's URL names (docs/tiers.md lists them)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, from_url

from tierledger.events.errors import InvalidArgument, StoreRefused
from tierledger.tiering.layouts.kafka import KafkaLayoutStorageManager
from tierledger.tiering.layouts.ledger.layout import LedgerSettings, LedgerStorageManager
from tierledger.tiering.layouts.manifest.keys import PrivateKeys
from tierledger.tiering.layouts.manifest.layout import ManifestStorageManager
from tierledger.tiering.objects.request_counts import RequestCounts
from tierledger.tiering.objects.store import ObjectStore, StoreSettings
from tierledger.tiering.remote_storage_manager import RemoteStorageManager


class Layout(StrEnum):
    """Layouts of segments; the value is the prefix of such a tier's URL."""

    LEDGER = "ledger"
    LOCAL_TIERED = "local-tiered"
    MANIFEST = "manifest"


KEYS = "keys"
"""The option with the keys of encrypted segments."""

MEMORY = "memory"
DIRECTORY = "dir"

_DIRECTORIES = (DIRECTORY, "file")
_BUCKETS = ("s3", "s3a", "gs")
"""Schemes whose URLs are a bucket and a prefix."""

_NO_PARTS = frozenset({"", ".", ".."})
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class TierUrl(NamedTuple):
    """A tier's URL, in its parts."""

    layout: Layout
    scheme: str
    root: str
    """The directory, the bucket's URL, or another URL that obstore opens."""
    prefix: str
    """Prefix of object names, below the root."""

    @property
    def shown(self) -> str:
        """The tier's URL for messages, without possible secrets."""
        return f"{self.shown_root}/{self.prefix}" if self.prefix else self.shown_root

    @property
    def shown_root(self) -> str:
        """`shown` without the prefix, which is part of the objects' names."""
        layout = "" if self.layout == Layout.LEDGER else f"{self.layout.value}:"
        if self.scheme == DIRECTORY and self.layout == Layout.LOCAL_TIERED:
            return f"{layout}{self.root}"
        if self.scheme in {MEMORY, DIRECTORY}:
            return f"{layout}{self.scheme}:{self.root}"
        parts = urlsplit(self.root)
        host = parts.netloc.rpartition("@")[2]
        return f"{layout}{parts.scheme}://{host}{parts.path}"


def parse(url: str) -> TierUrl:
    """The parts of `url`; nothing is opened.

    Raises:
        InvalidArgument: `url` is no URL of a tier.
    """
    layout, store_url = Layout.LEDGER, url
    for one in Layout:
        if url.startswith(f"{one.value}:"):
            layout, store_url = one, url.removeprefix(f"{one.value}:")
    if layout == Layout.LOCAL_TIERED and ":" not in store_url:
        store_url = f"{DIRECTORY}:{store_url}"
    scheme, separator, rest = store_url.partition(":")
    if scheme == MEMORY and rest.strip("/") == "":
        return TierUrl(layout, MEMORY, "", "")
    if scheme in _DIRECTORIES and rest:
        path = unquote(urlsplit(store_url).path) if rest.startswith("//") else rest
        if path:
            return TierUrl(layout, DIRECTORY, str(Path(path).expanduser().absolute()), "")
    if separator and rest.startswith("//") and rest.strip("/"):
        if scheme in _BUCKETS:
            bucket, _, prefix = rest.removeprefix("//").partition("/")
            if bucket:
                _check_prefix(layout, prefix, url)
                return TierUrl(layout, scheme, f"{scheme}://{bucket}", prefix)
        else:
            return TierUrl(layout, scheme, store_url, "")
    raise InvalidArgument(
        "expected a tier as dir:DIR, memory:, s3://BUCKET/PREFIX (or another store's URL), "
        f"manifest:URL or local-tiered:DIR, got {_harmless(url)!r}"
    )


def _check_prefix(layout: Layout, prefix: str, url: str) -> None:
    # The client refuses names with such parts. In the three-object layout, the prefix's last
    # part is only the beginning of a name's part, and may be anything.
    parts = prefix.split("/")
    whole = parts[:-1] if layout == Layout.MANIFEST or not parts[-1] else parts
    if any(part in _NO_PARTS for part in whole) or _CONTROL.search(prefix):
        raise InvalidArgument(
            "expected a prefix whose parts are neither empty, '.' nor '..' and have no control "
            f"characters, got {_harmless(url)!r}"
        )


def _harmless(url: str) -> str:
    """The parts of an invalid URL that cannot be a secret."""
    before, at, after = url.partition("@")
    return (f"{before.partition(':')[0]}:...@{after}" if at else before).partition("?")[0][:200]


def open_tier(
    url: str,
    options: Mapping[str, str] | None = None,
    *,
    ledger_settings: LedgerSettings | None = None,
    store_settings: StoreSettings | None = None,
    counts: RequestCounts | None = None,
) -> RemoteStorageManager:
    """The storage manager of the tier at `url`; no request is sent yet.

    `options`, such as `allow_http`, go to the store's client. They override what the client
    reads from its environment variables (AWS_* and others). Only `keys` is for the layout of
    three objects (`PrivateKeys.of`). Every `memory:` is a new store.

    Raises:
        InvalidArgument: `url` is no URL of a tier, or an option is unknown.
        StoreRefused: There is no such directory.
    """
    parsed = parse(url)
    given = dict(options or {})
    keys = PrivateKeys.of(given.pop(KEYS, ""))
    store = _open_store(parsed, given, store_settings, counts or RequestCounts())
    if parsed.layout == Layout.LOCAL_TIERED:
        return KafkaLayoutStorageManager(store)
    if parsed.layout == Layout.MANIFEST:
        return ManifestStorageManager(store, parsed.prefix, keys)
    return LedgerStorageManager(store, parsed.prefix, ledger_settings)


def open_store(
    url: TierUrl,
    options: Mapping[str, str] | None = None,
    settings: StoreSettings | None = None,
) -> ObjectStore:
    """The store of the tier at `url`, for listing its objects.

    Raises:
        InvalidArgument: An option is unknown.
        StoreRefused: There is no such directory.
    """
    return _open_store(url, options or {}, settings, RequestCounts())


def open_bucket(url: str) -> tuple[ObjectStore, str]:
    """The store of a bucket, and the prefix in it, for what is no tier.

    Raises:
        InvalidArgument: `url` is no URL of a bucket. The error has nothing of it.
    """
    try:
        parsed = parse(url)
    except InvalidArgument as error:
        raise InvalidArgument("expected the URL of a bucket") from error
    if parsed.layout != Layout.LEDGER or parsed.scheme in {MEMORY, DIRECTORY}:
        raise InvalidArgument("expected the URL of a bucket")
    return open_store(parsed), parsed.prefix


def _open_store(
    url: TierUrl,
    options: Mapping[str, str],
    settings: StoreSettings | None,
    counts: RequestCounts,
) -> ObjectStore:
    shown = url.shown_root
    if url.scheme == MEMORY:
        return ObjectStore(MemoryStore(), shown, counts, is_near=True)
    if url.scheme == DIRECTORY:
        root = Path(url.root)
        # It is not created: a directory that is not mounted, or misspelt, must not look like an
        # empty tier.
        if not root.is_dir():
            raise StoreRefused(f"{shown}: there is no such directory")
        files = LocalStore(root, automatic_cleanup=True)
        return ObjectStore(files, shown, counts, directory=root)
    config = dict(options)
    # If given any client option, obstore ignores all of these in the environment, such as
    # AWS_ALLOW_HTTP and AWS_TIMEOUT. So they are passed only if the caller sets some.
    client: dict[str, Any] = {} if settings is None else dict(settings.client_options())
    if "allow_http" in config:
        client["allow_http"] = config.pop("allow_http").lower() == "true"
    try:
        # The valid options depend on the store, so they cannot be typed.
        remote = from_url(  # type: ignore[call-overload]
            url.root,
            config=config,
            client_options=client or None,
            retry_config=(settings or StoreSettings()).retry_config(),
        )
    except (BaseError, ValueError) as error:
        reason = str(error).partition("\n")[0].replace(url.root, shown)
        raise InvalidArgument(f"{shown}: {reason}") from error
    return ObjectStore(remote, shown, counts)
