"""Checkers of what nodes did: in which order they applied the log, and which leader wrote it.

If the log is unknown, or ends before what a node applied, lives are compared with each other,
and each with itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierledger.actors.calls import PartitionKey
from tierledger.simulation.checkers.violation import Violation, ms_text
from tierledger.simulation.history.final_log import FinalLog
from tierledger.simulation.history.observations import Applied, Led


def feed_gap(
    applied: Iterable[Applied], log: FinalLog | None, key: PartitionKey | None = None
) -> list[Violation]:
    """A life took the log in with a gap, a repeat or a step back, or took in something else.

    Something else is an event that the log does not hold there, that another life applied
    differently, or that was not durable yet.
    """
    key = key if log is None else log.key
    texts: list[str] = []
    behind: dict[str, int] = {}
    hashes = {} if log is None else {-1: log.genesis, **log.chain_hashes}
    known_until = -1 if log is None else log.end
    durable_at = [] if log is None else log.durable_at
    unknown: dict[int, Applied] = {}
    for one in applied:
        time, life, _, first, last, chain_hash = one
        expected = behind.get(life, first)
        behind[life] = last + 1
        if first != expected or last < first - 1:
            texts.append(
                f"{life} took in {first} to {last} at {ms_text(time)}, where {expected} comes "
                "next"
            )
        elif last > known_until:
            if log is not None:
                texts.append(f"{life} took in position {last}, and the log ends at {log.end}")
            other = unknown.setdefault(last, one)
            if other.chain_hash != chain_hash:
                texts.append(f"{life} and {other.node_life} have another log up to {last}")
        elif hashes.get(last) != chain_hash:
            texts.append(_other_log(one, ends_batch=last in hashes))
        elif last >= first and (durable := durable_at[last]) is not None and time < durable:
            texts.append(
                f"{life} took in {last} at {ms_text(time)}, which was durable at "
                f"{ms_text(durable)}"
            )
    return [Violation("feed_gap", key, message) for message in texts]


def _other_log(one: Applied, *, ends_batch: bool) -> str:
    at = ms_text(one.time)
    where = f"{one.node_life} has taken in, at {at}, a log up to {one.last_position}"
    if not ends_batch:
        return f"{where}, where no batch ends"
    return f"{where} that is not the store's: its hash there is {one.chain_hash.hex()}"


def two_leaders(
    led: Iterable[Led], log: FinalLog | None, key: PartitionKey | None = None
) -> list[Violation]:
    """Two lives were effective under one session, or one wrote where another session led.

    Two may well *believe* that they lead; an answer for a durable batch is what makes one of
    them effective.
    """
    key = key if log is None else log.key
    texts: list[str] = []
    owners: dict[int, str] = {}
    writers: dict[int, str] = {}
    for time, life, _, session, position in led:
        wrote = f"{life} wrote position {position} at {ms_text(time)}"
        owner = owners.setdefault(session, life)
        if owner != life:
            texts.append(f"{wrote} under session {session}, which is {owner}'s")
        writer = writers.setdefault(position, life)
        if writer != life:
            texts.append(f"{wrote}, which {writer} wrote, too")
        if log is None:
            continue
        if not 0 <= position <= log.end:
            texts.append(f"{wrote}, and the log ends at {log.end}")
        elif log.events[position].session != session:
            texts.append(
                f"{wrote} under session {session}, and the log has session "
                f"{log.events[position].session} there"
            )
    return [Violation("two_leaders", key, message) for message in texts]
