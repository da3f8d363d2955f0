"""Pages from templates: each is one file that loads nothing, and runs only its own scripts.

Rule: the environment escapes whatever a template shows, not the template's author or its data,
so a hostile topic name stays a name.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tierledger.events.typed_fields import time_text
from tierledger.events.vocabulary import spelled
from tierledger.pages.texts import count_text, many, size_text, span_text, visible


class Stamp(NamedTuple):
    """When a page was made, by which program, and of what: every page shows it."""

    at: str
    version: str
    store: str
    """The store's URL without secrets, or what else the page is about."""


def render(template: str, /, **shown: object) -> str:
    """The page that `template` makes of `shown`, to be written as UTF-8."""
    return _ENVIRONMENT.get_template(template).render(shown)


@cache
def source(name: str) -> Markup:
    """A style sheet or script of this package, unchanged."""
    return Markup((files("tierledger.pages") / name).read_text("utf-8"))


def policy(scripts: Iterable[str], is_live: bool = False) -> Markup:
    """A policy under which only `scripts` may run, and nothing may be fetched.

    `is_live`: but from the page's own server, which also gets its forms.
    """
    allowed = [
        f"'sha256-{base64.b64encode(hashlib.sha256(source(one).encode()).digest()).decode()}'"
        for one in scripts
    ]
    runs = f"; script-src {' '.join(allowed)}" if allowed else ""
    live = "; connect-src 'self'; form-action 'self'" if is_live else ""
    return Markup("default-src 'none'; style-src 'unsafe-inline'" + runs + live)


def _printable(value: object) -> object:
    """`value` as it may be written; `Markup` comes from a template and is escaped already."""
    return value if isinstance(value, Markup) else visible(value)


def coded(value: object) -> Markup:
    """`value` to be written, with what stands between backticks as code."""
    # Not of the markup itself, which would escape what is put into it.
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(_printable(value)))))


_CODE: Final = re.compile(r"`([^`]+)`")

_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("tierledger.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_printable,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
_ENVIRONMENT.globals.update(source=source, policy=policy)
_ENVIRONMENT.filters.update(
    number=count_text,
    many=many,
    size=size_text,
    span=span_text,
    time=time_text,
    spelled=spelled,
    coded=coded,
)
