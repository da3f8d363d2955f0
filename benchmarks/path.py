"""Through how many functions a durable write passes, from its caller to the answer."""

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import chain
from pathlib import Path
from types import FrameType

from msgspec import Struct

from tierledger.actors.client.client import AsyncRemoteLogMetadataManager
from tierledger.actors.door.client.connection import connect_at
from tierledger.actors.door.server.host_door import DoorSettings
from tierledger.actors.wall_clock import RandomIds
from tierledger.benchmarks.bench import Bench
from tierledger.benchmarks.service import WARMING
from tierledger.benchmarks.services import adds, led, new_partition, served, unclaimed
from tierledger.benchmarks.workload import BROKER, CLUSTER

ROOT = Path(__file__).resolve().parents[1]
DEPTH_MAX = 6
"""How deep a segment's id may be in an argument."""


async def path(bench: Bench) -> None:
    """How many functions are given a segment's id, or something that holds it.

    Client and host run in this process, on both sides of the host's door.
    """
    store = bench.new_store("path")
    async with served(store, DoorSettings("127.0.0.1:0")) as (service, _):
        manager = AsyncRemoteLogMetadataManager(connect_at(await service.url()), RandomIds())
        try:
            await manager.configure({"cluster.id": CLUSTER, "broker.id": BROKER})
            [workload] = unclaimed([new_partition("path")])
            await led(manager, [workload.tip])
            await adds(manager, workload, WARMING)
            for number in bench.turns("path"):
                metadata = workload.add(number).metadata
                with _watched(bytes(metadata.remote_log_segment_id.id)) as seen:
                    await manager.add_remote_log_segment_metadata(metadata)
                rules = sum(name.startswith("events/") for name in seen)
                bench.note(handing=len(seen) - rules, rules=rules)
        finally:
            await manager.close()


@contextmanager
def _watched(segment_id: bytes) -> Iterator[dict[str, None]]:
    """The functions of ours that are given `segment_id` within the block, in their order."""
    seen: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(ROOT)):
            return
        name = f"{Path(code.co_filename).relative_to(ROOT)}: {code.co_qualname}"
        if name in seen or name.startswith((".venv", "benchmarks")):
            return
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(_holds(frame.f_locals.get(one), segment_id) for one in given):
            seen[name] = None

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _holds(value: object, segment_id: bytes, depth: int = DEPTH_MAX) -> bool:
    if isinstance(value, bytes | bytearray):
        return segment_id in value
    parts: Iterable[object] = ()
    if isinstance(value, Mapping):
        parts = chain(value, value.values())
    elif isinstance(value, list | tuple):
        parts = value
    elif isinstance(value, Struct):
        parts = (getattr(value, name) for name in value.__struct_fields__)
    elif is_dataclass(value):
        parts = (getattr(value, one.name) for one in fields(value))
    return depth > 0 and any(_holds(part, segment_id, depth - 1) for part in parts)
