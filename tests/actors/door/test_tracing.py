"""Spans of calls, from the caller's to the store's, as a receiver of OTLP gets them."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp
from opentelemetry.sdk.trace import TracerProvider

from tests.actors.door.clients import door_of, greeted
from tests.models.actors.local_world import (
    LocalWorld,
    eventually,
    partition,
    segment,
    sqlite_in,
)
from tests.models.captured_logs import captured_logs
from tierledger.actors.calls import PartitionKey
from tierledger.actors.door import door_pb2 as pb
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.actors.door.traces import Traces
from tierledger.events.errors import InvalidArgument, InvalidStateTransition
from tierledger.simulation.live.server import free_ports

EXPORT = "opentelemetry.proto.collector.trace.v1.TraceService"
TIPS = [partition(number) for number in range(4)]


class Received(NamedTuple):
    host: str
    span: Any
    attributes: dict[str, Any]


class Receiver:
    """A server for OTLP over gRPC, on loopback."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.url = ""

    async def __aenter__(self) -> "Receiver":
        self._server = grpc.aio.server()
        method = grpc.unary_unary_rpc_method_handler(
            self._export,
            otlp.ExportTraceServiceRequest.FromString,
            otlp.ExportTraceServiceResponse.SerializeToString,
        )
        handlers = grpc.method_handlers_generic_handler(EXPORT, {"Export": method})
        self._server.add_generic_rpc_handlers((handlers,))
        self.url = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    async def _export(self, request: Any, _: object) -> Any:  # noqa: ANN401 - Of the protocol.
        for resource in request.resource_spans:
            host = plain(resource.resource.attributes)["service.instance.id"]
            for scope in resource.scope_spans:
                self.spans += [
                    Received(host, one, plain(one.attributes)) for one in scope.spans
                ]
        return otlp.ExportTraceServiceResponse()

    def named(self, name: str, **attributes: str) -> list[Received]:
        wanted = {f"tierledger.{key}": one for key, one in attributes.items()}.items()
        return [
            one
            for one in self.spans
            if one.span.name == name and wanted <= one.attributes.items()
        ]


def plain(attributes: Any) -> dict[str, Any]:  # noqa: ANN401 - Of the protocol.
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


def traced(folder: Path, traces: Traces, hosts: int = 1) -> LocalWorld:
    """A service that traces, to be entered. It sends its last spans when it ends."""
    door = DoorSettings(f"127.0.0.1:{free_ports(hosts)}", traces=traces)
    return LocalWorld(sqlite_in(folder), hosts, door=door)


async def test_a_write_is_seen_from_its_caller_through_two_hosts_to_the_store(
    tmp_path: Path, receiver: Receiver
) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("a program's")
    async with traced(tmp_path, Traces(receiver.url), hosts=2) as world:
        manager = await world.leader(*TIPS)
        with tracer.start_as_current_span("copy") as own:
            await manager.add_remote_log_segment_metadata(segment(0, TIPS[0]))
        routes = await world.service.coordinator.route([PartitionKey.of(tip) for tip in TIPS])
        far = next(
            tip for tip, one in zip(TIPS, routes, strict=True) if one.leader_host == "host-1/1"
        )
        async with greeted(await door_of(world)) as client:
            asked = pb.Question(
                partition=pb.Partition(topic_id=bytes(far.topic_id), partition=far.partition),
                role=pb.LEADER,
                kind=pb.SIZE,
            )
            parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
            await client.ask(pb.Call(id=1, question=asked, traceparent=parent))

    ((_, door, told),) = receiver.named("door add", outcome="ok")
    context = own.get_span_context()
    assert door.trace_id == context.trace_id.to_bytes(16, "big")
    assert door.parent_span_id == context.span_id.to_bytes(8, "big")
    assert (told["tierledger.partition"], len(told["tierledger.request_id"])) == (
        str(TIPS[0]),
        24,
    )
    below = [one for one in receiver.spans if one.span.parent_span_id == door.span_id]
    waited, stored = (one.span for one in sorted(below, key=lambda one: one.span.name))
    assert (waited.name, stored.name) == ("host inbox", "store append")
    ends = (door.start_time_unix_nano, waited.end_time_unix_nano)
    assert ends == (waited.start_time_unix_nano, stored.start_time_unix_nano)
    assert stored.start_time_unix_nano < stored.end_time_unix_nano <= door.end_time_unix_nano
    sizes = {one.host: one.span for one in receiver.named("door size")}
    assert sizes["host-0/1"].parent_span_id == b"\xcd" * 8
    assert sizes["host-1/1"].parent_span_id == sizes["host-0/1"].span_id
    assert {one.trace_id for one in sizes.values()} == {b"\xab" * 16}


async def test_a_refusal_is_an_error_and_nothing_else_is_said_to_have_been_stored(
    tmp_path: Path, receiver: Receiver
) -> None:
    async with traced(tmp_path, Traces(receiver.url)) as world:
        manager = await world.leader(TIPS[0])
        await manager.add_remote_log_segment_metadata(segment(0))
        with pytest.raises(InvalidStateTransition) as refused:
            await manager.add_remote_log_segment_metadata(segment(0, size=99))

    ((_, span, told),) = receiver.named("door add", outcome="rejected")
    assert (span.status.code, span.parent_span_id) == (2, b"")
    assert f"(request {told['tierledger.request_id']})" in str(refused.value)
    assert len(receiver.named("store append")) == 1


@pytest.mark.parametrize(
    ("parent", "is_recorded"),
    [("", False), ("evil\n", False), (f"00-{'ab' * 16}-{'cd' * 8}-01", True)],
)
async def test_a_part_of_the_traces_that_begin_here_and_all_of_callers_that_say_so(
    tmp_path: Path, receiver: Receiver, parent: str, is_recorded: bool
) -> None:
    traces = Traces(receiver.url, ratio=0.0)
    async with traced(tmp_path, traces) as world, greeted(await door_of(world)) as client:
        await client.ask(pb.Call(id=1, hosts=pb.HostsQuestion(), traceparent=parent))

    assert [one.span.name for one in receiver.spans] == ["door hosts"] * is_recorded


async def test_a_receiver_that_is_away_harms_no_call_and_is_told_in_the_log(
    tmp_path: Path,
) -> None:
    loop = asyncio.get_running_loop()
    with captured_logs() as lines:
        async with traced(tmp_path, Traces(f"http://127.0.0.1:{free_ports(1)}")) as world:
            manager = await world.leader(TIPS[0])
            await manager.add_remote_log_segment_metadata(segment(0))
            begun = loop.time()
        assert loop.time() - begun < 20
        await eventually(lambda: [one for one in lines if one["event"] == "of OpenTelemetry"])


@pytest.mark.parametrize(
    ("url", "ratio"), [("127.0.0.1:4317", 1), ("http://x", 1), ("http://x:1", 1.5)]
)
def test_settings_that_would_not_work_are_refused(url: str, ratio: float) -> None:
    with pytest.raises(InvalidArgument, match="http://HOST:PORT"):
        Traces(url, ratio).check()


def test_who_does_not_trace_loads_nothing_for_it() -> None:
    code = (
        "import sys, tierledger.actors.door.server.host_door, tierledger.client\n"
        "sys.exit('opentelemetry' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
