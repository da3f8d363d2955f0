"""Rare situations that a campaign has to reach: if it never does, its worlds are too mild."""

from __future__ import annotations

MARKS: dict[str, str] = {}
"""Each mark, and the group that it belongs to."""


def _declare(group: str, *names: str) -> None:
    for name in names:
        MARKS[name] = group


_declare(
    "leadership",
    "two believed they lead",
    "three believed they lead",
    "claim lost a race",
    "claim refused by the log",
    "leader made beside the one in office",
    "leader found that it was replaced",
    "leader stopped",
    "leader gave way",
    "partition released",
    "leader placed beside its follower",
    "resumed after a successor had claimed",
    "unclean election",
    "replica moved away",
    "announcement repeated",
    "announcement failed",
    "oracle asked",
    "oracle answered",
    "oracle silent",
    "oracle outdated",
    "Kafka asked about an announcement",
    "Kafka named another broker",
    "fenced",
    "broker replaced while it lives",
    "broker fenced by its own later life",
    "zombie broker wrote",
    "zombie broker announced",
    "three sessions without a write between",
)
_declare(
    "store",
    "store refused",
    "write lost",
    "answer of a write lost",
    "write landed late",
    "write sent twice",
    "conflict that is none",
    "store slow",
    "answer slow",
    "store away",
    "store away from one",
    "store away: verdict",
    "store away: read",
    "store away: append",
    "store away: loaded",
    "append in doubt",
    "append found its slot taken",
    "own write recognised in its slot",
    "probe failed",
    "several partitions in one commit",
)
_declare(
    "checkpoints",
    "checkpoint written",
    "checkpoint of a former leader refused",
    "checkpoint of a former leader to be replaced",
    "checkpoint given up for the log",
    "loaded from a checkpoint",
)
_declare(
    "processes",
    "kill host",
    "kill coordinator",
    "kill broker",
    "pause host",
    "pause coordinator",
    "pause broker",
    "cut off host",
    "host closed",
    "mute host died",
    "host replaced while it lives",
    "host given up by the coordinator",
    "crash while a partition was loaded",
    "doze: durable",
    "crash: durable",
    "crash: append",
    "crash: loaded",
    "crash: checkpointed",
    "crash: coordinated",
    "power cut",
    "write lost in a power cut",
    "clock stepped",
    "clock stepped back",
)
_declare(
    "network",
    "message lost",
    "message lost to a cut",
    "message delayed",
    "message sent twice",
    "message held in a clog",
)
_declare(
    "coordinator",
    "two coordinators",
    "coordinator lost a race for its log",
    "coordinator's append in doubt",
    "coordinator lied",
    "assigned by nobody",
)
_declare(
    "calls",
    "read waited for a position",
    "read expired",
    "follower asked while it reads",
    "write ended in doubt",
    "custom metadata refused",
    "custom metadata as long as allowed",
    "illegal transition refused",
    "inbox full",
    "segments overlap",
    "deleted together, and added again",
    "segment of two leader epochs",
    "partition deleted",
    "history imported",
    "recorded again in other leader epochs",
)
_declare(
    "damage",
    "bit rot in the log",
    "torn batch",
    "misdirected write",
    "bit rot in a checkpoint",
    "partition quarantined",
    "stale answer, marked as stale",
    "checkpoint of a newer release",
)

_declare(
    "feed",
    "replica took a snapshot",
    "replica went on from where it was",
    "replica was overtaken",
    "replica was ready",
    "replica hears that it is fenced",
    "feed closed",
)
