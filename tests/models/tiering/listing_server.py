"""A bucket that only answers lists, of names that a file system cannot hold."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from typing_extensions import override

PAGE = 1000
_MODIFIED = "2024-01-01T00:00:00.000Z"


class ListingServer:
    """A bucket on loopback; a context manager."""

    def __init__(self, sizes: dict[str, int], page: int = PAGE) -> None:
        """List the objects of `sizes`, with their bytes, in answers of `page` names."""
        self.sizes = dict(sorted(sizes.items(), key=lambda one: one[0].encode()))
        self.page = page
        self.requests = 0
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
                self._send(bucket.answer({name: one[0] for name, one in asked.items()}))

            def _send(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            @override
            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def options(self) -> dict[str, str]:
        return {
            "endpoint": f"http://127.0.0.1:{self._server.server_address[1]}",
            "region": "us-east-1",
            "access_key_id": "a",
            "secret_access_key": "b",
            "allow_http": "true",
        }

    def answer(self, asked: dict[str, str]) -> bytes:
        """The answer to ListObjectsV2."""
        self.requests += 1
        after = max(asked.get("start-after", ""), asked.get("continuation-token", ""))
        names = [
            name
            for name in self.sizes
            if name.startswith(asked.get("prefix", "")) and name.encode() > after.encode()
        ]
        page = names[: self.page]
        more = ""
        if names[self.page :]:
            token = escape(page[-1])
            more = f"<NextContinuationToken>{token}</NextContinuationToken>"
        entries = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{self.sizes[name]}</Size>"
            f"<LastModified>{_MODIFIED}</LastModified><ETag>e</ETag></Contents>"
            for name in page
        )
        truncated = "true" if more else "false"
        return (
            f'<?xml version="1.0"?><ListBucketResult><IsTruncated>{truncated}</IsTruncated>'
            f"{more}{entries}</ListBucketResult>"
        ).encode()
