"""Constants of the service that a world of machines sets, in all modules that use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tierledger.actors import due, follower
from tierledger.actors.client import window
from tierledger.actors.coordinator import events as coordinator_events
from tierledger.actors.coordinator import hosts as coordinator_hosts
from tierledger.actors.coordinator import placement, purges
from tierledger.actors.coordinator import service as coordinator_service
from tierledger.actors.feed import source
from tierledger.actors.host import feeds, partition_shell
from tierledger.actors.host import machine as host
from tierledger.actors.leader import batch as leader_batch
from tierledger.actors.leader import claim as leader_claim
from tierledger.actors.leader import machine as leader
from tierledger.events.partition import answers, decide, evolve, invariants
from tierledger.events.partition import state as partition_state
from tierledger.events.tables import paged_map, segment_rows
from tierledger.storage.partition import checkpoint

KNOBS: dict[str, tuple[int, ...]] = {
    "CHECKPOINT_EVENTS": (3, 10, 40),
    "INBOX_MAX": (2, 1024),
    "CLAIMS_MAX": (1, 8, 8),
    "EVENTS_PER_BATCH": (1, 4, 256),
    "READ_BATCHES": (1, 4, 64),
    "PAGE_ENTRIES_MAX": (2, 3, 512),
    "REQUESTS_KEPT": (8, 16, 256),
    "PENDING_MAX": (2, 7, 512),
    "ROWS_PER_READ": (1, 3, 500),
    "PAGES_PER_READ": (1, 100),
    "TOMBSTONES_PER_DROP": (1, 500),
    "WALK_STEPS": (1, 200),
    "ROWS_PER_YIELD": (1, 1000),
    "WAITING_MAX": (1, 1024),
    "LOADS_AT_ONCE": (1, 2, 8),
}
"""By a constant's name, the values that a world may give it."""

KEPT_DEFAULT = partition_state.REQUESTS_KEPT

_MODULES: dict[str, tuple[Any, ...]] = {
    "CHECKPOINT_EVENTS": (leader,),
    "INBOX_MAX": (leader,),
    "CLAIMS_MAX": (leader, leader_claim),
    "EVENTS_PER_BATCH": (leader_batch,),
    "READ_BATCHES": (partition_shell,),
    "PAGE_ENTRIES_MAX": (paged_map,),
    "REQUESTS_KEPT": (evolve, partition_state),
    "REQUESTS_MAX": (evolve, invariants, partition_state),
    "PENDING_MAX": (evolve, invariants, partition_state),
    "ROWS_PER_READ": (checkpoint,),
    "PAGES_PER_READ": (checkpoint,),
    "TOMBSTONES_PER_DROP": (decide,),
    "WALK_STEPS": (answers,),
    "ROWS_PER_YIELD": (answers,),
    "WAITING_MAX": (follower,),
    "LOADS_AT_ONCE": (host,),
    "WRITES_MAX": (window,),
    "SETTLED_S": (coordinator_hosts,),
    "PREPARED_S": (coordinator_hosts,),
    "MOVED_AT_ONCE": (coordinator_service,),
    "SPREAD": (placement,),
    "LEASE_MS": (purges,),  # This and the next ones are set where brokers have guards.
    "GIVEN_MAX": (purges,),
    "AGAIN_MS": (purges,),
    "LOOK_MIN_S": (purges,),
    "LOOK_SHARE": (purges,),
    "LOOKED_MAX": (due,),
    "SHARD_ROWS": (segment_rows,),  # This and the next one are set by `questions` alone.
    "ITEMS_MAX": (coordinator_events,),
    "FRAME_ROWS": (source,),  # This and the next one are set where replicas are fed.
    "RING_BYTES": (source,),
    "LINGER_S": (feeds,),
    "SNAPSHOTS_AT_ONCE": (feeds,),
}


@contextmanager
def turned_to(values: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Set the named constants to these values until the block ends."""
    wanted = dict(values)
    kept = wanted.get("REQUESTS_KEPT")
    if kept is not None:  # As in the service, some more are kept, and removed in one go.
        wanted["REQUESTS_MAX"] = kept + kept // 4
    former = [
        (module, name, getattr(module, name)) for name in wanted for module in _MODULES[name]
    ]
    for module, name, _ in former:
        setattr(module, name, wanted[name])
    try:
        yield
    finally:
        for module, name, value in former:
            setattr(module, name, value)
