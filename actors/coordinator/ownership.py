"""Who owns the cluster's remote log metadata, whom that lets in, and who may take it over.

One word says so, in the coordinator's log; each change takes the next number. Brokers decide by
the owner's manager: what one of them wrote by another is not seen, and what is not seen is
deleted. So a cluster moves in three words, and while it moves its brokers hold their writes.
The second may be said again, to hear once more how all of them stand.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NamedTuple, TypeAlias

from tierledger.actors.coordinator.events import Owner, OwnerChanged
from tierledger.events.errors import NotReady, RejectedError
from tierledger.events.typed_fields import Count, Within

GIVE_UP_AFTER_MS = 20_000
"""How long a move may take unless it says otherwise; brokers hold their writes so long."""

GiveUpMs: TypeAlias = Annotated[int, Within(1000, 60_000)]


class PluginMode(StrEnum):
    """By which manager a broker decides."""

    SHADOW = "shadow"
    """Kafka's own; what tierledger would have said is compared."""
    HANDOVER = "handover"
    """The owner's."""
    TIERLEDGER = "tierledger"


class OwnerWord(NamedTuple):
    """Who owns the metadata; see `Owner`."""

    number: int = 0
    """Of the change that says so; 0: nobody has ever said anything."""
    owner: str = Owner.NOBODY
    source: str = ""
    """While it is moving: whose it was, and whose it is to be."""
    heading: str = ""
    give_up_after_ms: int = 0

    @property
    def decider(self) -> str:
        """By whose manager brokers decide: while it is moving, still by the former owner's."""
        return self.source if self.owner == Owner.MOVING else self.owner


class Decision(NamedTuple):
    """By whose manager a broker decides, as its mode and the newest word have it."""

    reads: str | None
    """None: it is not ready."""
    writes: str | None
    """None: they are held."""


def decision(mode: PluginMode, word: OwnerWord) -> Decision:
    """Never by another manager than the owner's: brokers that do would not see each other."""
    match word.decider, mode:
        case (Owner.KAFKA, PluginMode.SHADOW | PluginMode.HANDOVER) | (
            Owner.NOBODY, PluginMode.SHADOW,
        ):  # fmt: skip
            reads = Owner.KAFKA
        case (Owner.TIERLEDGER, PluginMode.TIERLEDGER | PluginMode.HANDOVER) | (
            Owner.NOBODY, PluginMode.TIERLEDGER,
        ):  # fmt: skip
            reads = Owner.TIERLEDGER
        case _:
            return Decision(None, None)
    return Decision(reads, None if word.owner == Owner.MOVING else reads)


class Handover(NamedTuple):
    """An operator's wish that `to` owns the metadata in place of `of`."""

    to: Owner
    of: Owner
    heading: Owner | None = None
    """With `to` = MOVING: to whom."""
    number: Count = 0
    """With `of` = MOVING: of the word by which it moves. With both it goes on by the next."""
    give_up_after_ms: GiveUpMs = GIVE_UP_AFTER_MS


class Owned(NamedTuple):
    """What became of such a wish."""

    owner: str
    number: int


_FIRST = {Owner.KAFKA, Owner.TIERLEDGER}
"""Who may own what nobody does, and between whom it moves."""


def hand_over(word: OwnerWord, wish: Handover) -> list[OwnerChanged]:
    """What makes `wish` so; nothing if it is.

    Raises:
        RejectedError: It does not follow on the newest word.
    """
    to, of = wish.to, wish.of
    if to == Owner.MOVING != of:
        if (word.owner, word.source, word.heading) == (Owner.MOVING, of, wish.heading):
            return []
        if of not in _FIRST or wish.heading not in _FIRST - {of}:
            raise RejectedError(
                f"expected a move from kafka to tierledger, or back; got one from {of} to "
                f"{wish.heading or 'nobody'}"
            )
        _check_owner(word, of)
        return [OwnerChanged(to, of, wish.heading, wish.give_up_after_ms)]
    if of == Owner.MOVING:
        if (word.owner, word.number) == (to, wish.number + 1):
            return []
        _check_owner(word, of)
        if word.number != wish.number:
            raise RejectedError(
                f"the move under way is that of word {word.number}, got {wish.number}"
            )
        if to == of and wish.heading == word.heading:
            return [OwnerChanged(to, word.source, word.heading, wish.give_up_after_ms)]
        if to not in {word.source, word.heading}:
            raise RejectedError(f"it moves from {word.source} to {word.heading}, not to {to}")
        return [OwnerChanged(to)]
    if word.owner == to:
        return []
    if of != Owner.NOBODY or to not in _FIRST:
        raise RejectedError(f"the metadata does not go from {of} to {to} in one step")
    _check_owner(word, of)
    return [OwnerChanged(to)]


def _check_owner(word: OwnerWord, of: str) -> None:
    if word.owner != of:
        raise RejectedError(
            f"{word.owner} owns the remote log metadata of this cluster, expected {of}"
        )


def give_up(word: OwnerWord) -> Handover:
    """The wish that a move ends as if it had never begun."""
    return Handover(Owner(word.source), Owner.MOVING, number=word.number)


def word_after(word: OwnerWord, change: OwnerChanged) -> OwnerWord:
    """The word that `change` makes the newest."""
    return OwnerWord(word.number + 1, *change)


def check_mode(word: OwnerWord, mode: PluginMode, *, is_repeat: bool) -> None:
    """Let a broker's plugin in if all brokers decide by one manager then.

    `is_repeat`: it is in already.

    Raises:
        NotReady: Not yet: the metadata is another's, or is being moved.
        RejectedError: It would decide by Kafka's own manager, and tierledger owns the metadata.
    """
    owner = word.owner
    if mode is PluginMode.HANDOVER:
        return  # It goes by the owner's word.
    if mode is PluginMode.SHADOW:
        if owner == Owner.TIERLEDGER:
            raise RejectedError(
                "tierledger owns the remote log metadata of this cluster, and a broker in "
                "shadow decides by Kafka's own manager; start it with "
                "tierledger.mode=handover or tierledger"
            )
        if owner == Owner.MOVING:
            raise NotReady(f"{_moving(word)}; start this broker with tierledger.mode=handover")
        return
    if owner == Owner.MOVING and not (is_repeat and word.source == Owner.TIERLEDGER):
        raise NotReady(f"{_moving(word)}; it is let in once tierledger owns it")
    if owner not in {Owner.TIERLEDGER, Owner.MOVING}:
        raise NotReady(
            f"{owner} owns the remote log metadata of this cluster; "
            "to let tierledger own it: tierledger handover"
        )


def check_leading(word: OwnerWord) -> None:
    """Let a broker lead that did not lead until now.

    While Kafka's own manager owns the metadata only imports lead: they write what it decides.

    Raises:
        NotReady: Not yet.
    """
    if word.owner == Owner.MOVING:
        raise NotReady(f"{_moving(word)}: nobody new leads meanwhile")
    if word.owner == Owner.KAFKA:
        raise NotReady(
            "kafka owns the remote log metadata of this cluster: only imports lead partitions"
        )


def _moving(word: OwnerWord) -> str:
    return (
        f"the remote log metadata of this cluster is moving from {word.source} to "
        f"{word.heading}"
    )
