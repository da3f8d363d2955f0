"""Takes secrets out of texts that are given to others.

Rule 1: what is known to be a secret goes wherever it stands: a secret's value in the
environment, the contents of the files that the environment and Ray name, passwords in URLs and
in Kafka's properties.
Rule 2: what looks like one goes, too: a key, a token, or the value of a name that says so.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

REMOVED = "[removed]"

SHORTEST = 4
"""Characters of a known secret, at least: shorter ones would also be words."""

FILE_BYTES_MAX = 64 * 1024
"""Of a file with secrets."""

_TELLING = r"(?:password|passwd|passphrase|secret|token|credential|authorization)"

_NAME = re.compile(rf"{_TELLING}|(?:^|_)(?:key|keys|auth)(?:$|_)", re.IGNORECASE)

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
        """`known`: secrets, wherever they stand."""
        longest_first = sorted({one for one in known if len(one) >= SHORTEST}, key=len)[::-1]
        self._known = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def without_secrets(self, text: str) -> str:
        """`text` with `REMOVED` in place of each secret; JSON stays JSON."""
        text = self._known.sub(REMOVED, text)
        for pattern, put in _LOOKS_LIKE:
            text = pattern.sub(put, text)
        return text


def known_secrets(
    environment: Mapping[str, str], urls: Iterable[str | None], properties: Path | None
) -> Iterator[str]:
    """The secrets in a process's surroundings.

    `urls`: of store and tier; `properties`: of Kafka's clients.
    """
    for name, value in environment.items():
        if not _NAME.search(name):
            continue
        parts = [part.rpartition("=")[2] for part in value.split(",")]  # ID=FILE,ID=FILE
        in_files = [one for part in parts for one in _in_file(Path(part))]
        yield from in_files or [value]
    yield from _in_file(_ray_token_file(environment))
    for url in urls:
        if url is not None and (password := urlsplit(url).password):
            yield from (password, unquote(password))
    if properties is not None:
        for line in _read(properties).splitlines():
            name, _, value = line.partition("=")
            if re.search(_TELLING, name, re.IGNORECASE):
                yield value.strip()
            yield from re.findall(r"password\s*=\s*\"([^\"]+)\"", line)


def _ray_token_file(environment: Mapping[str, str]) -> Path:
    given = environment.get("RAY_AUTH_TOKEN_PATH")
    return Path(given or f"{environment.get('HOME', '')}/.ray/auth_token")


def _in_file(path: Path) -> Iterator[str]:
    """A file's lines, and all of it: a token, a key, or one token for each client."""
    text = _read(path).strip()
    if text:
        yield text
    for line in text.splitlines():
        yield from line.split()


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(FILE_BYTES_MAX)
    except (OSError, ValueError):
        return ""
