"""Who owns the cluster's remote log metadata, which brokers that admits, and how it changes.

The newest `OwnerChanged` event in the coordinator's log decides. Each such event begins the
next owner epoch. All brokers have to decide by the owner's manager: they would not see segments
that one of them had written by another manager, and delete them. So a cluster moves in three
owner epochs: the owner's, that of `MOVING`, and the new owner's. Its brokers hold their writes
while it moves. `MOVING` may be appended again, in the next owner epoch, so that all brokers
report once more.
"""

from __future__ import annotations

from collections.abc import Coroutine
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias

from msgspec import Meta

from tierledger.actors.coordinator.events import Owner, OwnerChanged
from tierledger.events.errors import NotReady, RejectedError
from tierledger.events.typed_fields import Count, Id

GIVE_UP_AFTER_MS = 20_000
"""How long a move may take by default (ms); brokers hold their writes for that long."""

ACCEPTED_MAX = 10_000
"""Most segments whose difference one move may accept: 160 KB in each answer to a plugin."""

Accepted: TypeAlias = Annotated[tuple[Id, ...], Meta(max_length=ACCEPTED_MAX)]

GiveUpMs: TypeAlias = Annotated[int, Meta(ge=1000, le=60_000)]


class PluginMode(StrEnum):
    """By which manager a broker decides."""

    SHADOW = "shadow"
    """Kafka's own manager; tierledger's answers are only compared with it."""
    HANDOVER = "handover"
    """The owner's manager, also after the owner has changed."""
    TIERLEDGER = "tierledger"


class Ownership(NamedTuple):
    """Who owns the metadata; see `Owner`."""

    epoch: int = 0
    """The owner epoch: the number of changes of the owner so far."""
    owner: str = Owner.NOBODY
    source: str = ""
    """While the metadata moves: the owner before, and (`heading`) the owner after."""
    heading: str = ""
    give_up_after_ms: int = 0

    @property
    def has_another(self) -> bool:
        """Whether another manager decides, or may soon."""
        ours = {"", Owner.TIERLEDGER, Owner.NOBODY}
        return bool({self.owner, self.source, self.heading} - ours)

    @property
    def decider(self) -> str:
        """By whose manager brokers decide: during a move, still by the former owner's."""
        return self.source if self.owner == Owner.MOVING else self.owner


class Decision(NamedTuple):
    """By whose manager a broker reads and writes, by its mode and the newest ownership."""

    reads: str | None
    """None: the broker is not ready."""
    writes: str | None
    """None: the broker holds its writes."""


def decision(mode: PluginMode, ownership: Ownership) -> Decision:
    """The decision of a broker in `mode`: always the owner's manager, or none at all.

    Brokers that decide by different managers would not see each other's segments.
    """
    match ownership.decider, mode:
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
    return Decision(reads, None if ownership.owner == Owner.MOVING else reads)


class Handover(NamedTuple):
    """An operator's request that `to` owns the metadata in place of `of`.

    If both are tierledger, it goes on as the owner, and lets brokers delete again (`unowned`).
    """

    to: Owner
    of: Owner
    heading: Owner | None = None
    """With `to` = MOVING: the new owner."""
    owner_epoch: Count = 0
    """With `of` = MOVING: the move's newest owner epoch. If both are MOVING, the move goes
    on in the next one."""
    give_up_after_ms: GiveUpMs = GIVE_UP_AFTER_MS
    accepted: Accepted = ()
    """With `to` = MOVING: segments about which the two managers may differ in this move."""

    def put_to(self, asked: HandingOver) -> Coroutine[Any, Any, Owned]:
        """The owner after that, durable."""
        return asked.hand_over(self)


class HandingOver(Protocol):
    """Changes the owner."""

    async def hand_over(self, wish: Handover) -> Owned: ...


class Owned(NamedTuple):
    """The owner after such a request, and the owner epoch."""

    owner: str
    owner_epoch: int


CONFIRM = Handover(Owner.TIERLEDGER, Owner.TIERLEDGER)
"""The request that ends the hold of deletions."""

_FIRST = {Owner.KAFKA, Owner.TIERLEDGER}
"""Who may own metadata that nobody owns, and between whom it moves."""


def hand_over(ownership: Ownership, wish: Handover) -> list[OwnerChanged]:
    """The event that fulfils `wish`; none if it is fulfilled already (a repeat).

    Raises:
        RejectedError: The wish does not fit the newest ownership.
    """
    to, of = wish.to, wish.of
    if to == Owner.MOVING != of:
        if (ownership.owner, ownership.source, ownership.heading) == (
            Owner.MOVING,
            of,
            wish.heading,
        ):
            return []
        if of not in _FIRST or wish.heading not in _FIRST - {of}:
            raise RejectedError(
                f"expected a move from kafka to tierledger, or back; got one from {of} to "
                f"{wish.heading or 'nobody'}"
            )
        _check_owner(ownership, of)
        return [OwnerChanged(to, of, wish.heading, wish.give_up_after_ms)]
    if of == Owner.MOVING:
        if (ownership.owner, ownership.epoch) == (to, wish.owner_epoch + 1):
            return []
        _check_owner(ownership, of)
        if ownership.epoch != wish.owner_epoch:
            raise RejectedError(
                f"the move under way has owner epoch {ownership.epoch}, got {wish.owner_epoch}"
            )
        if to == of and wish.heading == ownership.heading:
            return [
                OwnerChanged(to, ownership.source, ownership.heading, wish.give_up_after_ms)
            ]
        if to not in {ownership.source, ownership.heading}:
            raise RejectedError(
                f"it moves from {ownership.source} to {ownership.heading}, not to {to}"
            )
        return [OwnerChanged(to)]
    if ownership.owner == to:
        return []
    if of != Owner.NOBODY or to not in _FIRST:
        raise RejectedError(f"the metadata does not go from {of} to {to} in one step")
    _check_owner(ownership, of)
    return [OwnerChanged(to)]


def _check_owner(ownership: Ownership, of: str) -> None:
    if ownership.owner != of:
        raise RejectedError(
            f"{ownership.owner} owns the remote log metadata of this cluster, expected {of}"
        )


def give_up(ownership: Ownership) -> Handover:
    """The request that ends a move and gives the metadata back to the owner before it."""
    return Handover(Owner(ownership.source), Owner.MOVING, owner_epoch=ownership.epoch)


def ownership_after(ownership: Ownership, change: OwnerChanged) -> Ownership:
    """The ownership after `change`."""
    return Ownership(ownership.epoch + 1, *change)


def check_mode(ownership: Ownership, mode: PluginMode, *, is_repeat: bool) -> None:
    """Admit a broker's plugin only if all brokers then decide by one manager.

    `is_repeat`: the plugin was admitted already.

    Raises:
        NotReady: Not yet: tierledger does not own the metadata, or it is moving.
        RejectedError: It would decide by Kafka's own manager, and tierledger owns the metadata.
    """
    owner = ownership.owner
    if mode is PluginMode.HANDOVER:
        return  # It always decides by the owner's manager.
    if mode is PluginMode.SHADOW:
        if owner == Owner.TIERLEDGER:
            raise RejectedError(
                "tierledger owns the remote log metadata of this cluster, and a broker in "
                "shadow decides by Kafka's own manager; start it with "
                "tierledger.mode=handover or tierledger"
            )
        if owner == Owner.MOVING:
            raise NotReady(
                f"{_moving(ownership)}; start this broker with tierledger.mode=handover"
            )
        return
    if owner == Owner.MOVING and not (is_repeat and ownership.source == Owner.TIERLEDGER):
        raise NotReady(f"{_moving(ownership)}; this broker is let in once tierledger owns it")
    if owner not in {Owner.TIERLEDGER, Owner.MOVING}:
        raise NotReady(
            f"{owner} owns the remote log metadata of this cluster; "
            "to let tierledger own it: tierledger handover"
        )


def check_leading(ownership: Ownership) -> None:
    """Admit a broker that would lead a partition anew.

    While Kafka's own manager owns the metadata, only imports lead: they copy its decisions.

    Raises:
        NotReady: Kafka's own manager owns the metadata, or it is moving.
    """
    if ownership.owner == Owner.MOVING:
        raise NotReady(f"{_moving(ownership)}: no broker may begin to lead")
    if ownership.owner == Owner.KAFKA:
        raise NotReady(
            "kafka owns the remote log metadata of this cluster: only imports lead partitions"
        )


def _moving(ownership: Ownership) -> str:
    return (
        f"the remote log metadata of this cluster is moving from {ownership.source} to "
        f"{ownership.heading}"
    )
