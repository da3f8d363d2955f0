"""What happens after a partition's log has refused a claim to lead.

The coordinator had put the claim in force already. Without these rules it would place the claim
again and again, and hand it to the next host when this one dies, in place of the claim whose
session the log holds.
"""

from __future__ import annotations

from tierledger.actors.calls import LEADER, PartitionKey, Refusal
from tierledger.actors.coordinator.decide import leader_lost
from tierledger.actors.coordinator.events import CoordinatorBody, LeaderRefused
from tierledger.actors.coordinator.state import CoordinatorState, Entry, Leadership
from tierledger.events.commands import Claim


def leader_refused(
    state: CoordinatorState, key: PartitionKey, refusal: Refusal, host: str
) -> list[CoordinatorBody]:
    """The event for a report of `host` that the claim in force was refused.

    None if another claim is in force by now, or if the leader is placed on another host. If no
    claim is in force any more, and the refused leader has ended, the event is that it is gone.

    The report may come long after the refusal. If the holder's broker has stopped hosting the
    partition since, the event names no holder: its session is closed or about to be, and a
    claim in force without one would keep the broker from leading again in that leader epoch.
    """
    entry = state.partitions.get(key)
    led = None if entry is None else entry.leadership
    if led is None and not refusal.is_served:
        return leader_lost(state, key, refusal.assignment, host)
    if entry is None or led is None or led.assignment != refusal.assignment:
        return []
    if entry.leader_host != host:
        return []
    if refusal.is_served and led.claim == refusal.holder:
        return []  # Handled already: the host repeats the report until its next placement.
    holder = refusal.holder
    if holder is not None and holder < entry.stopped.get(holder.broker_id, holder):
        holder = None
    return [
        LeaderRefused(
            topic_id=key.topic_id,
            partition=key.partition,
            assignment=refusal.assignment,
            holder=holder,
            leader_epoch=refusal.leader_epoch,
            import_cluster=refusal.import_cluster,
            recorded_time_ms=refusal.recorded_time_ms,
            is_served=refusal.is_served,
        )
    ]


def give_back(state: CoordinatorState, key: PartitionKey, body: LeaderRefused) -> None:
    """Put the claim of the log's session (the holder's) in force in place of the refused one.

    If the holder's broker follows by now, no claim is in force. If its leader runs on, the
    claim keeps the number of the refused placement, the last one that the host was sent.
    Otherwise the claim is placed anew.

    It is also placed anew if a third claim was placed before and may still wait for the oracle
    on the host: without a newer session that claim could open one, and the coordinator would
    not hear of it.

    A claim that came after the holder's, and that the refused one replaced before the log had
    decided on it, takes precedence over the holder's.
    """
    entry = state.partitions.get(key)
    led = None if entry is None else entry.leadership
    if entry is None or led is None or led.assignment != body.assignment:
        return
    if not body.is_served:
        state.seat(key, entry, LEADER, None)
    # If the log holds the claim in force itself, all displaced claims are older than it.
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
    """The last displaced claim that is newer than the holder's and still stands.

    Kafka has notified its broker that it leads, and does not do so again. The log may refuse
    this claim as well: then the next one is taken, and in the end the holder's.
    """
    for broker_id, former in reversed(entry.displaced.items()):
        claim, ours, theirs = former.claim, former.leader_epoch, body.leader_epoch
        is_valid = (
            claim.incarnation == state.incarnations.get(broker_id)
            and former.import_cluster is None
        )
        if body.holder is not None and broker_id == body.holder[0]:
            return former if is_valid and claim > Claim(*body.holder) else None
        if is_valid and (ours is None or theirs is None or ours > theirs):
            return former
    return None
