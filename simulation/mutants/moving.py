"""Mistakes when a cluster moves: in the plugin's rules, the procedure, and ownership."""

from __future__ import annotations

from functools import partial

from tierledger.actors.coordinator.machine import Coordinator
from tierledger.moving.procedure import Procedure
from tierledger.simulation.lives.brokers import LivingBroker
from tierledger.simulation.mutants import mistakes
from tierledger.simulation.mutants.mistakes import Patches
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.simulation.worlds import LIVES

_mistake = partial(mistakes.mistake, first=0, within=30, world=LIVES)
"""Declares a mutant that is looked for in the lives of clusters."""


@_mistake("M89", "liveness lost_record")
def lets_go_by_itself() -> Patches:
    """A broker writes on by the former manager while the metadata is moving."""
    held = rewritten(LivingBroker._holds, "self.decision.writes is None", "False")
    return held + rewritten(LivingBroker.write, "self.decision.writes", "self.decision.reads")


@_mistake("M90", "liveness lost_record")
def idle_with_writes() -> Patches:
    """A broker says that it is idle while its writes are under way."""
    return rewritten(LivingBroker.is_idle, "not self._under_way", "True")


@_mistake("M91", "lost_record")
def idle_before_it_has_read() -> Patches:
    """A broker is idle before its Kafka's manager has read what was mirrored."""
    return rewritten(LivingBroker._catch_up, "moving.source == Owner.TIERLEDGER", "False")


@_mistake("M92", "lost_record")
def starts_unread() -> Patches:
    """A broker decides by Kafka's own manager before that has read the topic."""
    return rewritten(LivingBroker.run, "self._kafkas.read()", "self._kafkas")


@_mistake("M98", "endless liveness")
def move_never_given_up() -> Patches:
    """The coordinator waits for ever for the end of a move."""
    return rewritten(Coordinator._give_up_move, "!= (Owner.MOVING, timer.watch)", "!= ()")


@_mistake("M99", "lost_record")
def begins_without_all() -> Patches:
    """A move goes on when those are idle that attend."""
    return rewritten(Procedure._not_idle, "self._brokers | looked.brokers | ", "set() & ")


@_mistake("M101", "lost_record")
def nobody_need_be_idle() -> Patches:
    """A move goes on though brokers write."""
    return rewritten(Procedure._not_idle, 'or not attending[broker]["is_idle"]', "or False")
