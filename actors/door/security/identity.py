"""Who a client has proved to be, and what that one may ask for. The one list of rules.

| identity | may |
|---|---|
| `reader` | ask, and be fed |
| `broker:N` | ask, and speak for broker N: register, announce, write |
| `broker:*` | the same for every broker |
| `admin` | the same, import recorded history, and say who owns a cluster's metadata |
| `host` | anything: hosts pass on to each other what one of them has let in |
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
    """A name of the list above."""

    name: str
    broker_id: int | None = None
    """The only broker it may speak for, if it is one."""

    @classmethod
    def parse(cls, text: str) -> Identity:
        """The identity of that name.

        Raises:
            InvalidArgument: There is none.
        """
        if text in {"reader", "broker:*", "admin", "host"}:
            return cls(text)
        found = _BROKER.fullmatch(text)
        if found is None or int(found[1]) > INT32_MAX:
            raise InvalidArgument(f"{FORMS}, got {text!r:.99}")
        return cls(text, int(found[1]))

    @property
    def is_free(self) -> bool:
        """Whether nothing is refused."""
        return self.name in {"admin", "host", ANYBODY}

    def speaks_for(self, broker_id: int) -> bool:
        """Whether it may act as that broker."""
        return self.is_free or self.name == "broker:*" or self.broker_id == broker_id


ANYBODY = "anybody"
"""Where a service has neither tokens nor a client CA; no file can say it."""


class Wish(NamedTuple):
    """What a call needs an identity for."""

    brokers: tuple[int, ...] = ()
    """In whose names it is; none: it only asks."""
    admins: str | None = None
    """What of it only an admin may do."""


_IMPORT = "import recorded history"


def _of_write(call: pb.Call) -> Wish:
    write = call.write
    kind = write.WhichOneof("change")
    brokers = [write.claim.broker_id]
    if kind == "import_records":
        return Wish(tuple(brokers), _IMPORT)
    # Under this id a repeat is recognised; another's would stand for what it never asked.
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
    "attend": lambda call: Wish((call.attend.broker_id,)),
    "question": _asks,
    "ready": _asks,
    "next_page": _asks,
    "route": _asks,
    "hosts": _asks,
    "status": _asks,
}
"""By the kind of a call; one that is missing here is refused."""


def _of_claim(message: pb.Subscribe | pb.Expect) -> Wish:
    return Wish((message.claim.broker_id,) if message.HasField("claim") else ())


FEED_RULES: Mapping[str, Callable[[Any], Wish]] = {
    "subscribed": _of_claim,
    "expected": _of_claim,
    "unsubscribed": lambda _: Wish(),
}
"""The same for what a frame of `Feed` may hold; to be fed is to ask."""


def check_fed(identity: Identity, kind: str, message: Any) -> None:  # noqa: ANN401 - Of `kind`.
    """Let pass who may be fed as that item of a frame says.

    Raises:
        NotAuthorized: It may not; the message names who, and for whom.
    """
    for broker_id in FEED_RULES[kind](message).brokers:
        check_speaks_for(identity, broker_id, kind)


def check_allowed(identity: Identity, call: pb.Call) -> None:
    """Let pass what `identity` may ask for.

    Raises:
        NotAuthorized: It may not; the message names who, and for whom.
    """
    if identity.is_free:
        return
    kind = call.WhichOneof("ask")
    if kind is None:
        return  # It is refused as no call of ours; see `Desk`.
    rule = RULES.get(kind)
    if rule is None:
        raise NotAuthorized(f"{identity.name} may not ask for {kind}: no rule says who may")
    wish = rule(call)
    for broker_id in wish.brokers:
        check_speaks_for(identity, broker_id, kind)
    if wish.admins is not None:
        raise NotAuthorized(f"{identity.name} may not {wish.admins}; admin may")


def check_speaks_for(identity: Identity, broker_id: int, what: str) -> None:
    """Let pass who may act as a broker.

    Raises:
        NotAuthorized: It may not; the message names both.
    """
    if not identity.speaks_for(broker_id):
        raise NotAuthorized(f"{identity.name} may not speak for broker {broker_id} ({what})")
