"""What a host's machine is told (stimuli, in the past tense) and answers with (effects).

A life is one stay of one partition in one role on the host. Its number is never used again, so
that late stimuli about it are recognised as late.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tierledger.actors import messages as partition
from tierledger.actors.calls import CloseCall, Placement, QueryCall
from tierledger.actors.messages import ReplyError
from tierledger.events.identifiers import TopicIdPartition

CLOSING = -1
"""In place of a caller's number: the closing host itself waits for the partition's end."""


# Stimuli


class Placed(NamedTuple):
    """The coordinator orders that a partition is taken on, changed or released."""

    placement: Placement
    now_ms: int


class BrokerLeft(NamedTuple):
    """The coordinator reports that a broker no longer leads: its session is to end."""

    close: CloseCall
    now_ms: int


class Loaded(NamedTuple):
    """A load is over: there is a state, or a quarantine. For reads the whole log was read."""

    life: int


class Refused(NamedTuple):
    """The log refused a claim: it does not lead."""

    life: int
    refused: partition.ClaimRefused


class Ended(NamedTuple):
    """The life's leader or follower has ended by itself or as ordered."""

    life: int
    reason: str


class ReadArrived(NamedTuple):
    """A client reads a partition that no broker hosts."""

    reply_to: int
    call: QueryCall


class ReadGivenUp(NamedTuple):
    """The caller of a read no longer waits."""

    reply_to: int


class CloseArrived(NamedTuple):
    """The host is to end in good order."""

    now_ms: int


# Effects


class Begin(NamedTuple):
    """Make the actor of a life, which takes calls at once: a leader if it has a `claim`."""

    life: int
    topic_id_partition: TopicIdPartition
    role: str
    claim: partition.Assigned | None = None


class Load(NamedTuple):
    """Read checkpoint and log, and answer with `Loaded`."""

    life: int


class Feed(NamedTuple):
    """Feed an actor with a stimulus."""

    life: int
    stimulus: partition.Stimulus


class Drop(NamedTuple):
    """Forget a life, and cancel its load."""

    life: int


class Closed(NamedTuple):
    """All that ran here has ended in good order."""


Stimulus: TypeAlias = (
    Placed | BrokerLeft | Loaded | Refused | Ended | ReadArrived | ReadGivenUp | CloseArrived
)
Effect: TypeAlias = Begin | Load | Feed | Drop | ReplyError | Closed
