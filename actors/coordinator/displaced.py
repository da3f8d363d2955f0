"""Who leads when the claim in force is given up while one that it replaced still stands.

Kafka notifies two brokers of two elections in any order. Say that B has been elected after A,
and that A's notification of its own election arrives late. Then A's claim replaces B's. Next A
learns that it follows, and gives its claim up. Nobody would lead now: Kafka has notified B
already and does not do so again. So B's displaced claim is put in force again.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.events import Item, LeaderRestored
from tierledger.actors.coordinator.state import CoordinatorState, Entry, Leadership


def restored(
    state: CoordinatorState, broker_id: int, given_up: Iterable[Item]
) -> list[LeaderRestored]:
    """The events that restore claims once `broker_id` leads none of `given_up` any more."""
    found = []
    for topic_id, partition, _ in given_up:
        entry = state.partitions.get(PartitionKey(topic_id, partition))
        led = None if entry is None else entry.leadership
        if entry is None or led is None or led.claim.broker_id != broker_id:
            continue
        former = _last_standing(state, entry, led)
        if former is not None:
            found.append(LeaderRestored(topic_id, partition, former.claim.broker_id))
    return found


def _last_standing(state: CoordinatorState, entry: Entry, led: Leadership) -> Leadership | None:
    """The displaced claim that was replaced last, of those that may still be right.

    A claim with a lower known leader epoch than the claim in force is not: its broker only has
    not heard of the later election yet. A claim with a higher epoch may be: it was replaced by
    a claim of unknown epoch, which is gone.
    """
    for broker_id, former in reversed(entry.displaced.items()):
        is_alive = former.claim.incarnation == state.incarnations.get(broker_id)
        ours, theirs = former.leader_epoch, led.leader_epoch
        is_open = ours is None or theirs is None or ours > theirs
        if is_alive and is_open and former.import_cluster is None:
            return former
    return None


def restore(state: CoordinatorState, body: LeaderRestored) -> None:
    """Put the displaced claim of `body.broker_id` in force again, to be placed anew."""
    key = PartitionKey(body.topic_id, body.partition)
    entry = state.partitions.get(key)
    former = None if entry is None else entry.displaced.pop(body.broker_id, None)
    if entry is not None and former is not None and entry.leadership is None:
        entry.leadership = former._replace(assignment=0)
        state.review(key, entry)
