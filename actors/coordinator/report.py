"""The coordinator's own part of `status`: brokers and hosts, and how much is placed where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tierledger.actors.calls import LEADER
from tierledger.actors.coordinator.state import CoordinatorState, PlacedHold, SetAside
from tierledger.actors.coordinator.unowned import text_of
from tierledger.events.identifiers import Uuid

SET_ASIDE_SHOWN = 100
"""Items that were set aside and are listed with their reason; all are counted."""


def coordinator_report(
    state: CoordinatorState,
    heard_ms: Mapping[str, int],
    now_ms: int,
    starting: Iterable[str] = (),
    set_aside: Iterable[SetAside] = (),
) -> dict[str, Any]:
    """Position, owner, hosts, brokers and placements, from the log and from hosts' reports.

    `starting`: hosts for which a process is being started. `set_aside`: items that cannot be
    carried out; all are counted, and the oldest are listed.
    """
    ownership = state.ownership
    aside = sorted(set_aside, key=lambda one: one.since_ms)
    placed = {}
    for name in state.hosts:
        leaders = sum(role == LEADER for _, role in state.seats.get(name, ()))
        placed[name] = {"leaders": leaders, "followers": state.loads[name] - leaders}
    return {
        "position": state.next_position - 1,
        "owner": str(ownership.owner),
        "owner_epoch": ownership.epoch,
        "source": str(ownership.source),
        "heading": str(ownership.heading),
        "owner_since_ms": state.owner_since_ms,
        "give_up_after_ms": ownership.give_up_after_ms,
        "deletions_held": [one._asdict() for _, one in sorted(state.held.items())],
        "deletions_held_text": text_of(state.held.values()),
        "holds": [_hold(one, now_ms) for _, one in sorted(state.holds.items())],
        "now_ms": now_ms,
        "hosts": dict(state.hosts),
        "addresses": dict(state.addresses),
        "starting": [name for name in starting if name not in state.hosts],
        "heard_ms_ago": {
            name: max(0, now_ms - heard_ms[name]) for name in state.hosts if name in heard_ms
        },
        "placed": placed,
        "brokers": {
            broker: {"incarnation": number, "announced": state.announced.get(broker)}
            for broker, number in sorted(state.incarnations.items())
        },
        "partitions": len(state.partitions),
        "unplaced": len(state.unplaced),
        "set_aside": len(aside),
        "set_aside_items": [one._asdict() for one in aside[:SET_ASIDE_SHOWN]],
    }


def _hold(placed: PlacedHold, now_ms: int) -> dict[str, Any]:
    hold = placed.hold
    topic_id = None if hold.topic_id is None else str(Uuid(hold.topic_id))
    return {
        **hold._asdict(),
        "topic_id": topic_id,
        "since_ms": placed.since_ms,
        "is_over": hold.is_over(now_ms),
    }
