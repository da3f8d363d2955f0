"""A proxy in front of an S3 server, which injects faults of networks and stores."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Callable
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias
from urllib.parse import unquote, urlsplit

from typing_extensions import override

from tests.models.storage.flipped_bits import flipped
from tierledger.tiering.objects.store import StoreSettings

PATIENT = StoreSettings(
    request_timeout_s=5, retries_max=6, backoff_initial_s=0.001, backoff_max_s=0.01
)
"""Settings of a client that survives several faults in a row, with short pauses."""
AT_ONCE = StoreSettings(
    request_timeout_s=5, retries_max=0, backoff_initial_s=0.001, backoff_max_s=0.01
)
"""Settings of a client that does not retry, so that every fault is an error."""

_SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code>"
    b"<Message>Please reduce your request rate.</Message></Error>"
)
_DELETED = "<Deleted><Key>{}</Key></Deleted>"
_DENIED = "<Error><Key>{}</Key><Code>AccessDenied</Code><Message>No.</Message></Error>"
_FAILED = b"<?xml version='1.0'?><Error><Code>InternalError</Code></Error>"


class Fault(Enum):
    """A fault of a request; the value describes it."""

    FAIL = "500, and it did not happen"
    THROTTLE = "503 SlowDown, and it did not happen"
    FORGET = "200, and it did not happen"
    LOSE_ANSWER = "it happened, and the connection breaks before an answer"
    BREAK_OFF = "the connection breaks in the middle of the answer"
    FLIP = "one bit of the answer is another"
    CLAIM = "a deletion of many did not happen, and the answer names all as deleted"
    DENY = "a deletion of many did not happen, and the answer denies the right to its first"
    DENY_ANOTHER = "the same, of an object that nobody asked about"
    HANG = "no answer until the proxy is closed"


class Seen(NamedTuple):
    """A request, as the proxy sees it."""

    number: int
    """Requests are counted from 1."""
    method: str
    path: str
    query: str


Plan: TypeAlias = Callable[[Seen], Fault | None]


def nothing_happens(seen: Seen) -> Fault | None:
    return None


class FaultyS3:
    """A proxy in front of `endpoint`; a context manager. Without a `plan` it only forwards."""

    def __init__(self, endpoint: str) -> None:
        self._target = urlsplit(endpoint).netloc
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self.plan: Plan = nothing_happens
        self.seen: list[Seen] = []
        """All requests so far."""
        self.struck: list[tuple[Seen, Fault]] = []
        """Requests that suffered a fault, with that fault."""
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def decide(self, method: str, target: str) -> Fault | None:
        """Record the next request; returns the fault that the plan has for it, if any."""
        parts = urlsplit(target)
        with self._lock:
            seen = Seen(len(self.seen) + 1, method, unquote(parts.path), parts.query)
            self.seen.append(seen)
            fault = self.plan(seen)
            if fault is not None:
                self.struck.append((seen, fault))
            return fault

    def forward(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """The server's answer: status, headers and body."""
        connection = http.client.HTTPConnection(self._target, timeout=60)
        try:
            # Headers are not changed, as the signature covers the header `Host`.
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def hang(self) -> None:
        """Return when the proxy is closed."""
        self._closed.wait()


def _deletion(fault: Fault, asked: bytes) -> bytes:
    """A wrong answer to a request to delete many objects."""
    first, *others = re.findall("<Key>(.*?)</Key>", asked.decode())
    error_text = _DELETED if fault is Fault.CLAIM else _DENIED
    told = [error_text.format("another" if fault is Fault.DENY_ANOTHER else first)]
    told += [_DELETED.format(one) for one in others]
    return f"<?xml version='1.0'?><DeleteResult>{''.join(told)}</DeleteResult>".encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: FaultyS3

    @override
    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:  # The client has given up.
            self.close_connection = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.owner.decide(self.command, self.path)
        if fault is Fault.HANG:
            self.owner.hang()
            self.close_connection = True
        elif fault is Fault.FAIL:
            self._answer(500, [], _FAILED)
        elif fault is Fault.THROTTLE:
            self._answer(503, [], _SLOW_DOWN)
        elif fault is Fault.FORGET:
            self._answer(200, [("ETag", '"d41d8cd98f00b204e9800998ecf8427e"')], b"")
        elif fault in {Fault.CLAIM, Fault.DENY, Fault.DENY_ANOTHER}:
            self._answer(200, [], _deletion(fault, body))
        else:
            self._pass_on(body, fault)

    def _pass_on(self, body: bytes, fault: Fault | None) -> None:
        headers = dict(self.headers.items())
        status, answered, content = self.owner.forward(self.command, self.path, headers, body)
        if fault is Fault.LOSE_ANSWER:
            self.close_connection = True
            return
        if fault is Fault.FLIP and content:
            content = flipped(content, len(content) // 2)
        self._answer(status, answered, content, is_broken_off=fault is Fault.BREAK_OFF)

    def _answer(
        self,
        status: int,
        headers: list[tuple[str, str]],
        content: bytes,
        *,
        is_broken_off: bool = False,
    ) -> None:
        self.send_response_only(status)
        own = {"content-length", "transfer-encoding", "connection"}
        length = len(content)
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = int(value)
            elif name.lower() not in own:
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if is_broken_off:
            content = content[: len(content) // 2]
            self.close_connection = True
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - http.server's names.

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
