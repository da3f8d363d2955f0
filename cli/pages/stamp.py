"""The stamp of a page that a command makes now."""

from __future__ import annotations

import time
from importlib.metadata import version

from tierledger.cli.settings import store_config
from tierledger.events.typed_fields import time_text
from tierledger.pages.environment import Stamp
from tierledger.storage.connector import URL_SETTING
from tierledger.storage.locate import default_store_url, public_url


def stamp_of(store: str | None) -> Stamp:
    """The stamp of a page about the store that `--store` names."""
    url = store_config(store).get(URL_SETTING) or default_store_url()
    return stamp(public_url(str(url)))


def stamp(what: str) -> Stamp:
    """The stamp of a page about `what`, a public name."""
    now_ms = time.time_ns() // 1_000_000
    return Stamp(time_text(now_ms, "seconds"), version("tierledger"), what)
