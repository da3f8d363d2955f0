"""What a host's machine is told (stimuli, in the past tense) and answers with (effects).

A life is one stay of one partition in one role on the host. Its number is never used again, so
what comes late about it is recognised as late.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tierledger.actors import messages as partition
from tierledger.actors.calls import CloseCall, Placement, QueryCall
from tierledger.actors.messages import ReplyError
from tierledger.events.identifiers import TopicIdPartition

CLOSING = -1
"""In place of a caller: for the end of this partition the host waits that closes."""


# Stimuli


class Placed(NamedTuple):
    """The coordinator wants a partition taken on, changed or released."""

    placement: Placement
    now_ms: int


class BrokerLeft(NamedTuple):
    """The coordinator says that a broker leads no more: its session is to end."""

    close: CloseCall
    now_ms: int


class Loaded(NamedTuple):
    """A load is over: there is a state, or a quarantine; behind it all that calls ask for."""

    life: int


class Refused(NamedTuple):
    """A claim does not lead."""

    life: int
    refused: partition.ClaimRefused


class Ended(NamedTuple):
    """The actor is gone."""

    life: int
    reason: str


class ReadArrived(NamedTuple):
    """Somebody asks about a partition that nobody hosts."""

    reply_to: int
    call: QueryCall


class ReadGivenUp(NamedTuple):
    """The caller of a read waits no more, whatever it was about."""

    reply_to: int


class CloseArrived(NamedTuple):
    """The host is to end in good order."""

    now_ms: int


# Effects


class Begin(NamedTuple):
    """Make the actor of a life; it takes calls at once. No claim: it follows, or is read."""

    life: int
    topic_id_partition: TopicIdPartition
    role: str
    claim: partition.Assigned | None = None


class Load(NamedTuple):
    """Read checkpoint and log, and answer with `Loaded`."""

    life: int


class Feed(NamedTuple):
    """Let an actor hear something."""

    life: int
    stimulus: partition.Stimulus


class Drop(NamedTuple):
    """Forget a life; a load of it is of no use any more."""

    life: int


class Closed(NamedTuple):
    """All that ran here has ended in good order."""


Stimulus: TypeAlias = (
    Placed | BrokerLeft | Loaded | Refused | Ended | ReadArrived | ReadGivenUp | CloseArrived
)
Effect: TypeAlias = Begin | Load | Feed | Drop | ReplyError | Closed
