"""Mistakes when a cluster moves: in the plugin's rules, the procedure, and ownership."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tierledger.actors.coordinator import decide
from tierledger.actors.coordinator.machine import Coordinator
from tierledger.events.partition import sessions
from tierledger.moving.procedure import Procedure
from tierledger.simulation.machines.moving.plugin import PluginNode
from tierledger.simulation.machines.scenario.drawing import MOVES_EVERY, MOVES_FIRST
from tierledger.simulation.mutants.mistakes import Mutant, Patches
from tierledger.simulation.mutants.rewriting import rewritten

_RULES: tuple[tuple[str, str, str, Callable[..., Any], str, str], ...] = (
    (
        "lets-go-by-itself",
        "a broker writes on by the former manager while the metadata is moving",
        "lost_record",
        PluginNode._write,
        "self.decision.writes",
        "self.decision.reads",
    ),
    (
        "idle-with-writes",
        "a broker says that it is idle while its writes are under way",
        "lost_record",
        PluginNode.is_idle,
        "not self.under_way",
        "True",
    ),
    (
        "idle-before-it-has-read",
        "a broker is idle before its Kafka's manager has read what was mirrored",
        "lost_record",
        PluginNode._catch_up,
        "ids == self._segments.ids_until(self.consumed)",
        "True",
    ),
    (
        "starts-unread",
        "a broker decides by Kafka's own manager before that has read the topic",
        "lost_record",
        PluginNode.begin,
        "len(self._segments.topic)",
        "0",
    ),
    (
        "certain-without-being-ready",
        "a broker takes for gone what a replica lacks that is not ready",
        "lost_record",
        PluginNode.known,
        "replica.list_all()",
        "replica._rows.list_all()",
    ),
    (
        "ready-outlasts-its-role",
        "a replica stays ready when its broker announces itself anew",
        "lost_record early_ready",
        PluginNode._renew,
        "self.replica(number).replica.expect(None)",
        "pass",
    ),
    (
        "done-when-durable",
        "a write is done before this broker's replica has applied it",
        "unread_write",
        PluginNode._apply,
        "is_here = replica.is_whole and replica.position >= position",
        "is_here = True",
    ),
    (
        "newer-notification-lost",
        "what Kafka says while an announcement is under way is not announced",
        "lockout liveness",
        PluginNode._renew,
        "self._unannounced[number] = None",
        "self._is_announcing or self._unannounced.update({number: None})",
    ),
    (
        "follows-as-before",
        "a broker that follows, and says so anew under a new owner, is ready as it was before",
        "lost_record miscoordinated",
        decide._follows,
        "claim[1:] > state.announced_before_change.get(given.broker_id, (0, 0))",
        "True",
    ),
    (
        "move-never-given-up",
        "the coordinator waits for ever for the end of a move",
        "liveness lockout",
        Coordinator._give_up_move,
        "!= (Owner.MOVING, timer.watch)",
        "!= ()",
    ),
    (
        "begins-without-all",
        "a move goes on when those are idle that attend",
        "lost_record",
        Procedure._not_idle,
        "self._brokers | looked.brokers | ",
        "set() & ",
    ),
    (
        "any-owner-epoch-will-do",
        "brokers may be idle in any owner epoch",
        "lost_record",
        Procedure._not_idle,
        'attending[broker]["owner_epoch"] != self.owner_epoch',
        "False",
    ),
    (
        "nobody-need-be-idle",
        "a move goes on though brokers write",
        "lost_record",
        Procedure._not_idle,
        'or not attending[broker]["is_idle"]',
        "or False",
    ),
    (
        "round-under-way",
        "the round that was under way when all became idle has taken all over",
        "lost_record",
        Procedure._has_gone_round,
        'report["round"] >= self._round + 2',
        'report["round"] >= self._round',
    ),
    (
        "who-comes-late-may-stay",
        "a broker that came while the metadata was moving stops nothing",
        "lost_record",
        Procedure._disturbed,
        "if late:",
        "if False:",
    ),
    (
        "differences-do-not-matter",
        "a move ends though both managers list other segments",
        "lost_record",
        Procedure._compared,
        "differences = found",
        "differences = ()",
    ),
    (
        "dead-leader-stands",
        "an import stands against the session of a broker that only follows by now",
        "liveness lockout",
        sessions._rival,
        "follows.broker_id == session.broker_id",
        "False",
    ),
)
"""Name, mistake, checkers that find it, function, and the text in it to replace, by which."""


def _planted(function: Callable[..., Any], old: str, new: str) -> Callable[[], Patches]:
    return lambda: rewritten(function, old, new)


FIRST = 89
"""The first number of these mutants, which follow the others."""

MUTANTS = tuple(
    Mutant(
        f"M{at} {name}", mistake, frozenset(caught_by.split()), _planted(function, old, new),
        within=500, first=MOVES_FIRST, every=MOVES_EVERY,
    )
    for at, (name, mistake, caught_by, function, old, new) in enumerate(_RULES, FIRST)
)  # fmt: skip
