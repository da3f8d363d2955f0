"""Clients' identities, and what each of them may do. This is the only list of such rules.

| identity | may |
|---|---|
| `reader` | query, and be fed |
| `broker:N` | query, and act for broker N: register, announce, write |
| `broker:*` | the same for every broker |
| `admin` | the same, import recorded history, and change the owner of a cluster's metadata |
| `host` | anything: hosts pass calls that one of them has admitted on to each other |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.events.errors import InvalidArgument, NotAuthorized
from tierledger.events.typed_fields import INT32_MAX

if TYPE_CHECKING:
    from tierledger.actors.door import door_pb2 as pb

FORMS = "expected reader, broker:N, broker:*, admin or host"

_BROKER = re.compile(r"broker:(0|[1-9][0-9]{0,9})")


class Identity(NamedTuple):
    """An identity of the list above."""

    name: str
    broker_id: int | None = None
    """The only broker that it may act for; None for the other identities."""

    @classmethod
    def parse(cls, text: str) -> Identity:
        """The identity called `text`.

        Raises:
            InvalidArgument: There is no such identity.
        """
        if text in {"reader", "broker:*", "admin", "host"}:
            return cls(text)
        found = _BROKER.fullmatch(text)
        if found is None or int(found[1]) > INT32_MAX:
            raise InvalidArgument(f"{FORMS}, got {text!r:.99}")
        return cls(text, int(found[1]))

    @property
    def is_free(self) -> bool:
        """Whether it may do anything."""
        return self.name in {"admin", "host", ANYBODY}

    def speaks_for(self, broker_id: int) -> bool:
        """Whether it may act for that broker."""
        return self.is_free or self.name == "broker:*" or self.broker_id == broker_id


ANYBODY = "anybody"
"""The identity of all clients without tokens and a client CA; no file can give it."""


class Wish(NamedTuple):
    """The rights that a call needs."""

    brokers: tuple[int, ...] = ()
    """The brokers that it acts for; none if it only reads."""
    admins: str | None = None
    """What only an admin may do in it, for the message; None if there is nothing such."""


_IMPORT = "import recorded history"


def _of_write(call: pb.Call) -> Wish:
    write = call.write
    kind = write.WhichOneof("change")
    brokers = [write.claim.broker_id]
    if kind == "import_records":
        return Wish(tuple(brokers), _IMPORT)
    # Repeats are recognised by this broker's id and the request id. With another broker's id,
    # the write could pass for a request that the other never made.
    brokers.append(write.origin_broker_id)
    if kind is not None:
        brokers.append(getattr(write, kind).broker_id)
    return Wish(tuple(brokers))


def _of_announce(call: pb.Call) -> Wish:
    imports = call.announce.HasField("import_cluster")
    return Wish((call.announce.broker_id,), _IMPORT if imports else None)


def _asks(_: pb.Call) -> Wish:
    return Wish()


RULES: Mapping[str, Callable[[pb.Call], Wish]] = {
    "write": _of_write,
    "register": lambda call: Wish((call.register.broker_id,)),
    "announce": _of_announce,
    "hand_over": lambda _: Wish(admins="say who owns the metadata"),
    "tell_move": lambda _: Wish(admins="say who owns the metadata"),
    "place_hold": lambda _: Wish(admins="say what may be deleted"),
    "release_hold": lambda _: Wish(admins="say what may be deleted"),
    "release_kept": lambda _: Wish(admins="say what may be deleted"),
    "clean_up": lambda _: Wish(admins="say what may be deleted"),
    "replace_process": lambda _: Wish(admins="replace processes"),
    "attend": lambda call: Wish((call.attend.broker_id,)),
    "purge": lambda call: Wish((call.purge.broker_id,)),
    "question": _asks,
    "ready": _asks,
    "next_page": _asks,
    "route": _asks,
    "hosts": _asks,
    "status": _asks,
}
"""By kind of call; kinds that are missing here are refused."""


def _of_claim(message: pb.Subscribe | pb.Expect) -> Wish:
    return Wish((message.claim.broker_id,) if message.HasField("claim") else ())


FEED_RULES: Mapping[str, Callable[[Any], Wish]] = {
    "subscribed": _of_claim,
    "expected": _of_claim,
    "unsubscribed": lambda _: Wish(),
}
"""The same for the items of a `Feed` frame; to be fed counts as reading."""


def check_fed(identity: Identity, kind: str, message: Any) -> None:  # noqa: ANN401 - Of `kind`.
    """Refuse an item of a `Feed` frame that `identity` has no right to.

    Raises:
        NotAuthorized: It has not; the message names the identity and the broker.
    """
    for broker_id in FEED_RULES[kind](message).brokers:
        check_speaks_for(identity, broker_id, kind)


def check_allowed(identity: Identity, call: pb.Call) -> None:
    """Refuse a call that `identity` has no right to.

    Raises:
        NotAuthorized: It has not; the message names the identity and the broker or right.
    """
    if identity.is_free:
        return
    kind = call.WhichOneof("ask")
    if kind is None:
        return  # `Desk` refuses it as an unknown call.
    rule = RULES.get(kind)
    if rule is None:
        raise NotAuthorized(f"{identity.name} may not ask for {kind}: no rule names who may")
    wish = rule(call)
    for broker_id in wish.brokers:
        check_speaks_for(identity, broker_id, kind)
    if wish.admins is not None:
        raise NotAuthorized(f"{identity.name} may not {wish.admins}; admin may")


def check_speaks_for(identity: Identity, broker_id: int, what: str) -> None:
    """Refuse `what` if `identity` may not act for the broker.

    Raises:
        NotAuthorized: It may not; the message names both.
    """
    if not identity.speaks_for(broker_id):
        raise NotAuthorized(f"{identity.name} may not speak for broker {broker_id} ({what})")
