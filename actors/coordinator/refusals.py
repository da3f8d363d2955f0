"""What becomes of a claim to lead that the partition's log refused.

The coordinator had put it in force already. Without these rules it would place the claim again
and again, or hand it to the next host when this one dies, instead of the leader that the log
holds.
"""

from __future__ import annotations

from tierledger.actors.calls import LEADER, PartitionKey, Refusal
from tierledger.actors.coordinator.events import CoordinatorBody, LeaderRefused
from tierledger.actors.coordinator.state import CoordinatorState, Entry, Leadership
from tierledger.events.commands import Claim


def leader_refused(
    state: CoordinatorState, key: PartitionKey, refusal: Refusal, host: str
) -> list[CoordinatorBody]:
    """`host` says that the claim in force was refused; nothing if another is by now.

    Nor if it was told to lead by mistake: the leader runs elsewhere.
    """
    entry = state.partitions.get(key)
    led = None if entry is None else entry.leadership
    if entry is None or led is None or led.assignment != refusal.assignment:
        return []
    if entry.leader_host != host:
        return []
    if refusal.is_served and led.claim == refusal.holder:
        return []  # It was given back already; the host says so until the next placement.
    return [
        LeaderRefused(
            topic_id=key.topic_id,
            partition=key.partition,
            assignment=refusal.assignment,
            holder=refusal.holder,
            leader_epoch=refusal.leader_epoch,
            import_cluster=refusal.import_cluster,
            recorded_time_ms=refusal.recorded_time_ms,
            is_served=refusal.is_served,
        )
    ]


def give_back(state: CoordinatorState, key: PartitionKey, body: LeaderRefused) -> None:
    """Put the claim in force that the log holds; none if its broker follows by now.

    Where its leader runs on it keeps the number of the refused placement, which is the last
    that the host was told; elsewhere it is placed anew. So it is if another claim was placed
    before, and may wait for the oracle there: a newer session is what keeps it from opening
    unheard. A claim that came after the holder's, and that the refused one replaced before the
    log had heard of it, goes before it.
    """
    entry = state.partitions.get(key)
    led = None if entry is None else entry.leadership
    if entry is None or led is None or led.assignment != body.assignment:
        return
    if not body.is_served:
        state.seat(key, entry, LEADER, None)
    # What the claim in force has replaced, if the log holds that one, came before it.
    is_held = body.holder is not None and Claim(*body.holder) == led.claim
    successor = None if is_held else _successor(state, entry, body)
    entry.leadership = None
    if successor is not None:
        entry.leadership = successor._replace(assignment=0)
        del entry.displaced[successor.claim.broker_id]
    elif body.holder is not None and body.holder[0] not in entry.followers:
        entry.displaced.pop(body.holder[0], None)
        may_wait = any(former.assignment for former in entry.displaced.values())
        entry.leadership = Leadership(
            claim=Claim(*body.holder),
            leader_epoch=body.leader_epoch,
            import_cluster=body.import_cluster,
            recorded_time_ms=body.recorded_time_ms,
            assignment=body.assignment if body.is_served and not may_wait else 0,
        )
    state.review(key, entry)


def _successor(state: CoordinatorState, entry: Entry, body: LeaderRefused) -> Leadership | None:
    """The last claim that followed the holder's and still stands, beside the refused one.

    Kafka has told its broker that it leads, and does not say it again. The log may refuse it as
    well: then the next one is found, and in the end the holder.
    """
    for broker_id, former in reversed(entry.displaced.items()):
        claim, ours, theirs = former.claim, former.leader_epoch, body.leader_epoch
        stands = (
            claim.incarnation == state.incarnations.get(broker_id)
            and former.import_cluster is None
        )
        if body.holder is not None and broker_id == body.holder[0]:
            return former if stands and claim > Claim(*body.holder) else None
        if stands and (ours is None or theirs is None or ours > theirs):
            return former
    return None
