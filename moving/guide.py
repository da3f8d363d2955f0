"""What `handover` would do, step by step, and what an operator does afterwards: as text."""

from __future__ import annotations

from collections.abc import Sequence

from tierledger.actors.coordinator.events import Owner


def moving_steps(to: str) -> Sequence[str]:
    """What a move consists of once it has begun."""
    return (
        "brokers hold their writes, in a first owner epoch",
        "what they had written is taken over, and both managers compare equal",
        "the same brokers are asked again, in a second owner epoch",
        f"{to} owns the metadata, and brokers write",
    )


def steps_of(of: str, to: str) -> Sequence[str]:
    """The steps from one owner to another, in order; none if `to` owns the metadata."""
    match Owner(of), Owner(to):
        case Owner.NOBODY, Owner.TIERLEDGER:
            return (
                "Kafka's metadata topic is made, if there is none",
                "tierledger owns the metadata",
                "Kafka's metadata topic is sealed: a broker without the plugin deletes nothing",
            )
        case Owner.NOBODY, Owner.KAFKA:
            return ("it is recorded that Kafka's own manager owns the metadata",)
        case before, after if before != after:
            return moving_steps(after)
        case _:
            return ()


def next_steps(of: str, to: str) -> Sequence[str]:
    """What to do once `to` owns the metadata, and `of` did before; none if it did itself."""
    if of == to:
        return ()
    match Owner(of), Owner(to):
        case Owner.NOBODY, Owner.TIERLEDGER:
            return (
                "install the plugin on each broker that `tierledger status` does not list",
                "set remote.storage.enable=true for the topics that are to be tiered",
            )
        case Owner.NOBODY, Owner.KAFKA:
            return (
                "restart brokers one by one with tierledger.mode=shadow",
                "wait until `tierledger status` says that each is verified, without difference",
                "restart brokers one by one with tierledger.mode=handover",
                "run `tierledger handover --to tierledger --dry-run`, then without --dry-run",
            )
        case _, Owner.TIERLEDGER:
            return (
                "leave brokers in handover while you may want to go back",
                "then restart them one by one with tierledger.mode=tierledger",
            )
        case _, Owner.KAFKA:
            return (
                "restart brokers one by one without the plugin",
                "leave the service running until `tierledger status` lists no broker",
            )
        case _:
            return ()
