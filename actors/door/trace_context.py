"""W3C's `traceparent`: which span a call belongs to. Without OpenTelemetry's packages."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

from typing_extensions import override

_FORM = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class TraceContext(NamedTuple):
    """A span, and the trace that it belongs to."""

    trace_id: int
    span_id: int
    flags: int

    @classmethod
    def parsed(cls, text: str) -> TraceContext | None:
        """The span in a `traceparent`; None if it is none, whatever it is."""
        match = _FORM.fullmatch(text)
        if match is None:
            return None
        context = cls(*(int(part, 16) for part in match.groups()))
        return context if context.trace_id and context.span_id else None

    @override
    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"


def current_traceparent() -> str:
    """That of the program's own span around this call; empty if it has none.

    A program that has spans has loaded the package, so nobody loads it here.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return ""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return ""
    return str(TraceContext(span.trace_id, span.span_id, int(span.trace_flags)))
