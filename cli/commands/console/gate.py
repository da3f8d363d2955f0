"""Who may ask the console: the name that a request has, and a session that a token began.

On this machine alone, the name is all that is looked at. On other addresses each request needs
a session: somebody shows a token of the service's list once, and the browser gets a cookie. At
each request the session's token is looked for in the list again.
"""

from __future__ import annotations

import secrets
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tierledger.actors.door.security.tokens import TokenList, digest_of
from tierledger.cli.pages.stamp import stamp
from tierledger.events.errors import NotAuthorized
from tierledger.pages.environment import render
from tierledger.storage.process_log import ProcessLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from tierledger.actors.door.security.renewed import Renewed

SESSION_MS: Final = 12 * 3_600_000
"""How long a session lasts at most, whatever its token does."""

SESSIONS_MAX: Final = 1_000
"""Sessions at a time; the oldest ends when there is one more."""

FORM_MAX: Final = 8_192
"""Bytes of a form; a token has at most 4,096."""

WHY_OUT: Final = "tierledger.why_out"
"""In a request's scope: a function that tells why its session has ended; None: it has not."""

LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names by which a browser on this machine asks. Another name in a request is one that somebody
else has pointed to this machine, to read with the browser's rights."""

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}

_log = ProcessLog("tierledger.console")


class _Session(NamedTuple):
    token: bytes
    """The digest of the token that began it."""
    until_ms: int


class Sessions:
    """The sessions of a console, in memory: with the console they end."""

    def __init__(self, tokens: Renewed[TokenList], now_ms: Callable[[], int]) -> None:
        self._tokens = tokens
        self._now_ms = now_ms
        self._open: dict[bytes, _Session] = {}
        """By the digest of the value that the browser has."""

    def begin(self, token: str) -> str:
        """The value of a new session's cookie.

        Raises:
            NotAuthorized: The token is not in the list, or has expired.
        """
        now_ms, digest = self._now_ms(), digest_of(token)
        self._tokens.current().owner(digest, now_ms)
        while len(self._open) >= SESSIONS_MAX:
            del self._open[next(iter(self._open))]
        value = secrets.token_urlsafe(32)
        self._open[_key(value)] = _Session(digest, now_ms + SESSION_MS)
        return value

    def check(self, value: str | None) -> None:
        """Refuse what is no session, or one that has ended.

        Raises:
            NotAuthorized: It is none; the message says why.
        """
        session = self._open.get(_key(value or ""))
        if session is None:
            raise NotAuthorized("sign in with a token")
        now_ms = self._now_ms()
        if now_ms >= session.until_ms:
            raise NotAuthorized(f"a session lasts {SESSION_MS // 3_600_000} hours")
        self._tokens.current().owner(session.token, now_ms)

    def end(self, value: str | None) -> None:
        self._open.pop(_key(value or ""), None)


def _key(value: str) -> bytes:
    return sha256(value.encode()).digest()


class ConsoleGate:
    """An application of ASGI that passes on to another what somebody may ask."""

    def __init__(
        self, app: ASGIApp, names: frozenset[str], sessions: Sessions | None, port: int
    ) -> None:
        """`names`: those that requests may have; `sessions`: None if nobody has to sign in."""
        self._app = app
        self._names = names
        self._sessions = sessions
        # Browsers keep cookies by name of a host, without its port.
        self._cookie = f"__Host-tierledger-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # Its begin and end: there are no web sockets.
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = self._named(request)
        if answer is None and self._sessions is not None:
            try:
                answer = await self._signed_in(request, self._sessions)
            except ClientDisconnect:
                return
        await (answer or self._app)(scope, receive, send)

    def _named(self, request: Request) -> Response | None:
        """A refusal of a request for another name."""
        if urlsplit(f"//{request.headers.get('host', '')}").hostname in self._names:
            return None
        text = f"The console answers requests for {', '.join(sorted(self._names))} only.\n"
        return Response(text, 421, headers=HEADERS, media_type="text/plain")

    async def _signed_in(self, request: Request, sessions: Sessions) -> Response | None:
        """The answer to somebody without a session, and to who signs in or out."""
        value, path = request.cookies.get(self._cookie), request.url.path
        if path in {"/sign-in", "/sign-out"} and request.method == "POST":
            return await self._changed(request, sessions, value)
        try:
            sessions.check(value)
        except NotAuthorized as error:
            if path in {"/session", "/live"}:
                return Response(f"{error}", 401, headers=HEADERS, media_type="text/plain")
            to = f"{path}?{request.url.query}" if request.url.query else path
            return self._page(request, str(error), to if path != "/sign-in" else "/", 401)
        if path == "/session":
            return Response(status_code=204, headers=HEADERS)
        if path == "/sign-in":
            return RedirectResponse("/", 303, HEADERS)

        def why_out() -> str | None:
            try:
                sessions.check(value)
            except NotAuthorized as error:
                return str(error)
            return None

        request.scope[WHY_OUT] = why_out
        return None

    async def _changed(
        self, request: Request, sessions: Sessions, value: str | None
    ) -> Response:
        """Begin or end a session, as a form of the console's own pages asks."""
        # Browsers send this with each request, and no page can write it.
        if request.headers.get("sec-fetch-site") != "same-origin":
            text = "Expected a form of this console.\n"
            return Response(text, 403, headers=HEADERS, media_type="text/plain")
        if request.url.path == "/sign-out":
            sessions.end(value)
            answer = RedirectResponse("/", 303, HEADERS | {"Clear-Site-Data": '"cache"'})
            self._give(answer, "", max_age=0)
            return answer
        fields = parse_qs((await _form(request)).decode("utf-8", "replace"))
        to = _path(fields.get("to", [""])[0])
        try:
            begun = sessions.begin(fields.get("token", [""])[0].strip())
        except NotAuthorized as error:
            peer = request.client.host if request.client else ""
            _log.warning("nobody was let in", peer=peer, error=str(error))
            return self._page(request, str(error), to, 403)
        answer = RedirectResponse(to, 303, HEADERS)
        self._give(answer, begun)
        return answer

    def _give(self, answer: Response, value: str, max_age: int | None = None) -> None:
        answer.set_cookie(
            self._cookie, value, max_age, secure=True, httponly=True, samesite="strict"
        )

    def _page(self, request: Request, message: str, to: str, status: int) -> Response:
        # The store's name is for those who are let in.
        what = f"the console at {request.url.netloc}"
        page = render("console_sign_in.html", stamp=stamp(what), message=message, to=to)
        return HTMLResponse(page, status, headers={**HEADERS, "Cache-Control": "no-store"})


async def _form(request: Request) -> bytes:
    """The request's body, up to `FORM_MAX` bytes."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_MAX:
            return b""
    return body


def _path(text: str) -> str:
    """`text` as an address on this console; another one is its first page."""
    is_ours = text.startswith("/") and not text.startswith("//")
    return text if is_ours and text.isprintable() and "\\" not in text else "/"
