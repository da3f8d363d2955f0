"""Which storage manager a URL names, and how it is opened (docs/tiers.md lists them)."""

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
from tierledger.tiering.layouts.manifest.layout import ManifestStorageManager
from tierledger.tiering.objects.request_counts import RequestCounts
from tierledger.tiering.objects.store import ObjectStore, StoreSettings
from tierledger.tiering.remote_storage_manager import RemoteStorageManager


class Layout(StrEnum):
    """How segments are laid out; the value is what a URL of that layout begins with."""

    LEDGER = "ledger"
    LOCAL_TIERED = "local-tiered"
    MANIFEST = "manifest"


MEMORY = "memory"
DIRECTORY = "dir"

_DIRECTORIES = (DIRECTORY, "file")
_BUCKETS = ("s3", "s3a", "gs")
"""Their URLs are a bucket and a prefix."""

_NO_PARTS = frozenset({"", ".", ".."})
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class TierUrl(NamedTuple):
    """A tier's URL, in its parts."""

    layout: Layout
    scheme: str
    root: str
    """The directory, the bucket's URL, or whatever else obstore opens."""
    prefix: str
    """What object names begin with, below the root."""

    @property
    def shown(self) -> str:
        """The URL of the tier as it is given, without what might be secret."""
        return f"{self.shown_root}/{self.prefix}" if self.prefix else self.shown_root

    @property
    def shown_root(self) -> str:
        """The same without the prefix, which objects' names begin with."""
        layout = "" if self.layout == Layout.LEDGER else f"{self.layout.value}:"
        if self.scheme == DIRECTORY and self.layout == Layout.LOCAL_TIERED:
            return f"{layout}{self.root}"
        if self.scheme in {MEMORY, DIRECTORY}:
            return f"{layout}{self.scheme}:{self.root}"
        parts = urlsplit(self.root)
        host = parts.netloc.rpartition("@")[2]
        return f"{layout}{parts.scheme}://{host}{parts.path}"


def parse(url: str) -> TierUrl:
    """What `url` says; nothing is opened.

    Raises:
        InvalidArgument: It is no URL of a tier.
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
    # The client takes no name with such a part. Of three objects, the last part of the prefix
    # is but the beginning of one.
    parts = prefix.split("/")
    whole = parts[:-1] if layout == Layout.MANIFEST or not parts[-1] else parts
    if any(part in _NO_PARTS for part in whole) or _CONTROL.search(prefix):
        raise InvalidArgument(
            "expected a prefix whose parts are neither empty, '.' nor '..' and have no control "
            f"characters, got {_harmless(url)!r}"
        )


def _harmless(url: str) -> str:
    """Of a URL that nobody understands, what cannot be a secret."""
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
    """The manager of the tier at `url`; nothing is asked of a remote store yet.

    `options` go to the store's client beside what it reads from its own environment variables
    (AWS_* and the like), and win over it; `allow_http` is one. Every `memory:` is a new one.

    Raises:
        InvalidArgument: It is no URL of a tier, or an option is not known.
        StoreRefused: There is no such directory.
    """
    parsed = parse(url)
    store = _open_store(parsed, options or {}, store_settings, counts or RequestCounts())
    if parsed.layout == Layout.LOCAL_TIERED:
        return KafkaLayoutStorageManager(store)
    if parsed.layout == Layout.MANIFEST:
        return ManifestStorageManager(store, parsed.prefix)
    return LedgerStorageManager(store, parsed.prefix, ledger_settings)


def open_store(
    url: TierUrl,
    options: Mapping[str, str] | None = None,
    settings: StoreSettings | None = None,
) -> ObjectStore:
    """The objects at `url`, as they are, to be listed.

    Raises:
        InvalidArgument: An option is not known.
        StoreRefused: There is no such directory.
    """
    return _open_store(url, options or {}, settings, RequestCounts())


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
        # Not made: a directory that is not mounted, or misspelt, must not look like an empty
        # tier.
        if not root.is_dir():
            raise StoreRefused(f"{shown}: there is no such directory")
        files = LocalStore(root, automatic_cleanup=True)
        return ObjectStore(files, shown, counts, directory=root)
    config = dict(options)
    # Given any, obstore forgets what its environment says of them: AWS_ALLOW_HTTP, AWS_TIMEOUT.
    client: dict[str, Any] = {} if settings is None else dict(settings.client_options())
    if "allow_http" in config:
        client["allow_http"] = config.pop("allow_http").lower() == "true"
    try:
        # Which options there are depends on the store.
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
