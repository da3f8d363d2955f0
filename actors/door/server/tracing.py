"""OpenTelemetry spans of the calls at a door. Loaded only by a service that is told to trace.

A call has a span at each door that it comes to. Of one that a commit answers, two spans below
tell how long it waited at the host, and how long the store took. The machines know nothing of
it: the commit is the one whose outcome the partition hears while it lets the caller hear.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from typing_extensions import override

from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.limits import SOFTWARE
from tierledger.actors.door.server.outcomes import CANCELLED, OK, operation_of
from tierledger.actors.door.trace_context import TraceContext
from tierledger.actors.door.traces import Traces
from tierledger.actors.host.store_queues import DurableStep
from tierledger.storage.process_log import ProcessLog

EXPORT_S = 5.0
"""How long a receiver may take for a bundle of spans; what it does not take is dropped."""

CLOSE_S = 1.0
"""How long a host that ends waits for its last spans to be taken."""

_log = ProcessLog("tierledger.traces")


class Tracing:
    """Makes spans of one host, and sends them to a receiver of OTLP from a thread."""

    def __init__(self, traces: Traces, address: str, cluster_id: str) -> None:
        library = logging.getLogger("opentelemetry")
        if not library.handlers:
            library.addHandler(_ToProcessLog())
            library.propagate = False
        resource = Resource.create(
            {
                "service.name": "tierledger",
                "service.version": SOFTWARE.partition(" ")[2],
                "service.instance.id": address,
                "tierledger.cluster": cluster_id,
            }
        )
        exporter = OTLPSpanExporter(
            endpoint=traces.url, insecure=not traces.is_encrypted, timeout=EXPORT_S
        )
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(traces.ratio)),
            resource=resource,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("tierledger")

    def begun(self, message: pb.Call) -> Span | None:
        """The span of a call, which has it from here on; None if it is not to be traced."""
        parent = TraceContext.parsed(message.traceparent)
        span: Any = self._tracer.start_span(
            f"door {operation_of(message)}",
            None if parent is None else _context_of(parent),
            SpanKind.SERVER,
        )
        known = span.get_span_context()
        message.traceparent = str(
            TraceContext(known.trace_id, known.span_id, int(known.trace_flags))
        )
        return span if span.is_recording() else None

    def ended(
        self,
        span: Span,
        outcome: str,
        times_s: tuple[float, float],
        details: dict[str, str],
        commit: DurableStep | None,
    ) -> None:
        """End the span of a call; `times_s`: when it began and ended, as `commit` has times."""
        begun_s, ended_s = times_s
        start_ns = span.start_time or 0

        def ns(at_s: float) -> int:
            return start_ns + int((at_s - begun_s) * 1e9)

        if commit is not None:
            context = set_span_in_context(span)
            waited = self._tracer.start_span("host inbox", context, start_time=start_ns)
            waited.end(ns(max(begun_s, commit.begun_s)))
            stored = self._tracer.start_span(
                "store append",
                context,
                SpanKind.CLIENT,
                {"tierledger.commit": commit.number, "tierledger.batches": commit.batches},
                start_time=ns(max(begun_s, commit.begun_s)),
            )
            stored.end(ns(commit.ended_s))
        span.set_attributes({f"tierledger.{name}": value for name, value in details.items()})
        span.set_attribute("tierledger.outcome", outcome)
        if outcome not in {OK, CANCELLED}:
            span.set_status(Status(StatusCode.ERROR, details.get("error")))
        span.end(ns(ended_s))

    async def close(self) -> None:
        """Send what is left, if the receiver takes it soon."""
        await asyncio.to_thread(self._provider.force_flush, int(CLOSE_S * 1000))
        await asyncio.to_thread(self._provider.shutdown)


class _ToProcessLog(logging.Handler):
    """What the library logs, such as that a receiver is away."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        _log.tell(level, "of OpenTelemetry", {"message": record.getMessage()})


def _context_of(parent: TraceContext) -> Any:  # noqa: ANN401 - The library's.
    span = SpanContext(
        parent.trace_id, parent.span_id, is_remote=True, trace_flags=TraceFlags(parent.flags)
    )
    return set_span_in_context(NonRecordingSpan(span))
