"""Takes secrets out of texts that are given to others.

Rule 1: what is known to be a secret goes wherever it stands: a secret's value in the
environment, the contents of the files that the environment and Ray name, passwords in URLs and
in Kafka's properties.
Rule 2: what looks like one goes, too: a key, a token, or the value of a name that says so.
"""

from __future__ import annotations

import re
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REMOVED = "[removed]"

SHORTEST = 6
"""Characters of a known secret, at least: shorter ones would also be words."""

FILE_BYTES_MAX = 64 * 1024
"""Of a file with secrets."""

_TELLING = r"(?:password|passwd|passphrase|secret|token|credential|authorization)"

_TELLS = re.compile(_TELLING, re.IGNORECASE)

_NAME = re.compile(rf"{_TELLING}|(?:^|_)(?:key|keys)(?:$|_)", re.IGNORECASE)

_NO_SECRET = re.compile(r"true|false|null|none|\d+", re.IGNORECASE)
"""Values of variables that only sound secret. In JSON these stand without quotes."""

_LOOKS_LIKE = [
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), put)
    for pattern, put in (
        (
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
            REMOVED,
        ),
        (r"(://[^\s/:@\"']*:)[^\s/@\"']+(?=@)", rf"\1{REMOVED}"),
        (r"(\bbearer\s+)[\w.~+/=-]+", rf"\1{REMOVED}"),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", REMOVED),
        (r"(X-Amz-(?:Signature|Credential|Security-Token)=)[^&\s\"']+", rf"\1{REMOVED}"),
        (rf"(\"[^\"]*{_TELLING}\"\s*:\s*)\"[^\"]*\"", rf'\1"{REMOVED}"'),
        (rf"(\b[\w.-]*{_TELLING}\s*=\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;\"']+)", rf"\1{REMOVED}"),
    )
]


class Redaction:
    """Takes secrets out of texts."""

    def __init__(self, known: Iterable[str]) -> None:
        """`known`: secrets, wherever they stand, also quoted for JSON or a URL."""
        secrets = [
            one for one in known if len(one) >= SHORTEST and not _NO_SECRET.fullmatch(one)
        ]
        spelled = {form for one in secrets for form in (one, dumps(one)[1:-1], quote(one, ""))}
        longest_first = sorted(spelled, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def without_secrets(self, text: str) -> str:
        """`text` with `REMOVED` in place of each secret; JSON stays JSON."""
        text = self._known.sub(REMOVED, text)
        for pattern, put in _LOOKS_LIKE:
            text = pattern.sub(put, text)
        return text


def known_secrets(
    environment: Mapping[str, str], urls: Iterable[str | None], properties: Mapping[str, str]
) -> Iterator[str]:
    """The secrets in a process's surroundings.

    `urls`: of store and tier; `properties`: of Kafka's clients.
    """
    for name, value in environment.items():
        if _NAME.search(name):
            parts = [part.rpartition("=")[2] for part in value.split(",")]  # ID=FILE,ID=FILE
            in_files = [one for part in parts for one in _in_file(Path(part))]
            yield from in_files or [value]
    yield from _in_file(_ray_token_file(environment))
    for url in urls:
        if url is not None and (password := urlsplit(url).password):
            yield from (password, unquote(password))
    for name, value in properties.items():
        if _TELLS.search(name):
            yield value
        yield from re.findall(r"password\s*=\s*\"([^\"]+)\"", value)  # In a JAAS login.


def _ray_token_file(environment: Mapping[str, str]) -> Path:
    given = environment.get("RAY_AUTH_TOKEN_PATH")
    return Path(given or f"{environment.get('HOME', '')}/.ray/auth_token")


def _in_file(path: Path) -> Iterator[str]:
    """The lines of a file with a token or a key."""
    lines = (line.strip() for line in _read(path).splitlines())
    yield from (line for line in lines if line and not line.startswith("-----"))


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            return ""  # A pipe would be waited for.
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(FILE_BYTES_MAX)
    except (OSError, ValueError):
        return ""
