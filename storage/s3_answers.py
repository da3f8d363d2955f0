"""What an S3 server has answered, in words: its error's code, and what that means. Pure."""

from __future__ import annotations

import html
import re

MEANINGS = {
    "SignatureDoesNotMatch": "the secret is not the one of this key",
    "InvalidAccessKeyId": "the server knows no such key",
    "ExpiredToken": "the session token has expired",
    "RequestTimeTooSkewed": "this machine's clock and the server's differ too much",
}
"""By code; of others the server's own message says more."""

_CODE = re.compile(r"<Code>([^<]+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]+)</Message>")


def answer_in(text: str) -> str | None:
    """`CODE: meaning` of the error that `text` quotes; None if it quotes none."""
    code = _CODE.search(text)
    if code is None:
        return None
    message = _MESSAGE.search(text)
    meaning = MEANINGS.get(code[1]) or (html.unescape(message[1]) if message else None)
    return code[1] if meaning is None else f"{code[1]}: {meaning}"
