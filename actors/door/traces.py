"""Where a service sends spans, as a setting."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple
from urllib.parse import urlsplit

from tierledger.events.errors import InvalidArgument
from tierledger.events.extras import naming_extras


class Traces(NamedTuple):
    """Where spans are sent, and of how many traces."""

    url: str
    """A receiver of OTLP over gRPC: `http://HOST:PORT`, or `https` for TLS."""
    ratio: float = 1.0
    """Of the traces that begin at a door; others are recorded as their caller says."""

    @property
    def is_encrypted(self) -> bool:
        return self.url.startswith("https://")

    def check(self) -> None:
        """Refuse what would not work.

        Raises:
            InvalidArgument: It is no such URL, no ratio, or the packages are not installed.
        """
        try:
            parts = urlsplit(self.url)
            is_good = parts.scheme in {"http", "https"} and parts.hostname and parts.port
        except ValueError:
            is_good = False
        if not is_good or not 0 <= self.ratio <= 1:
            raise InvalidArgument(
                "expected http://HOST:PORT of a receiver of OTLP over gRPC and a ratio of 0 to "
                f"1, got {self.url!r:.200} and {self.ratio:g}"
            )
        with naming_extras():
            import_module("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
