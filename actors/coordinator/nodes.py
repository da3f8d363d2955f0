"""The nodes of the Ray cluster, as the coordinator's process sees them every few seconds. Pure.

Rule 1: that Ray's control store is away is told once it has not answered twice in a row. What
was seen before says nothing any more then.
Rule 2: hosts are crowded if others of the nodes have none and could have one. That is so for a
moment whenever a node comes or a host starts, so it is told once it lasts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from tierledger.actors.conditions import Condition

NODES_MISSING = "nodes-missing"
"""The condition of a coordinator whose cluster has fewer nodes than the service should have."""

HOSTS_CROWDED = "hosts-crowded"
"""The condition of a coordinator whose hosts use fewer nodes than they could."""

HEAD_AWAY = "head-away"
"""The condition of a coordinator to which Ray's control store does not answer."""

UNANSWERED_LOOKS = 2
"""Looks in a row that the control store may not answer."""

CROWDED_LOOKS = 20
"""Looks in a row after which hosts are crowded: a minute."""


class ClusterNodes:
    """The nodes as they were seen last, and what is wrong with them."""

    def __init__(self, expected: int = 1) -> None:
        """`expected`: how many nodes the service was started with."""
        self._expected = expected
        self._alive: list[str] | None = None
        """None: not looked yet, or the control store is away."""
        self._looks: dict[str, int] = {}
        """By code of a condition: how many looks in a row have found it."""
        self._since_ms: dict[str, int] = {}
        """By code: when the first of these was."""
        self._crowding = ""

    def seen(
        self, alive: Collection[str] | None, hosts: Collection[str | None], now_ms: int
    ) -> None:
        """Note what a look has found.

        Args:
            alive: The ids of the nodes that Ray believes to live; None: it does not answer.
            hosts: For each host that serves, its node.
            now_ms: The time of the look.
        """
        self._note(HEAD_AWAY, now_ms, is_so=alive is None)
        if alive is None:
            if self._looks[HEAD_AWAY] >= UNANSWERED_LOOKS:
                self._alive = None
            return
        self._alive = sorted(alive)
        used = len({*hosts} & {*alive})
        self._crowding = f"the {len(hosts)} hosts are on {used} of {len(alive)} Ray nodes"
        is_crowded = used < min(len(hosts), len(alive))
        self._note(NODES_MISSING, now_ms, is_so=len(alive) < self._expected)
        self._note(HOSTS_CROWDED, now_ms, is_so=is_crowded)

    def _note(self, code: str, now_ms: int, *, is_so: bool) -> None:
        self._looks[code] = self._looks.get(code, 0) + 1 if is_so else 0
        if self._looks[code] == 1:
            self._since_ms[code] = now_ms

    def conditions(self) -> Iterator[Condition]:
        """What is wrong with them."""
        if self._looks.get(HEAD_AWAY, 0) >= UNANSWERED_LOOKS:
            yield self._condition(HEAD_AWAY, "Ray's control store does not answer")
        if self._alive is None:
            return
        if self._looks[NODES_MISSING]:
            text = f"{len(self._alive)} Ray nodes are alive, expected {self._expected}"
            yield self._condition(NODES_MISSING, text)
        if self._looks[HOSTS_CROWDED] >= CROWDED_LOOKS:
            yield self._condition(HOSTS_CROWDED, self._crowding)

    def _condition(self, code: str, text: str) -> Condition:
        return Condition(code, "", self._since_ms[code], text)

    def report(self) -> dict[str, Any] | None:
        """How many nodes there should be, and the ids of those that live, for `status`.

        None: that is not known.
        """
        if self._alive is None:
            return None
        return {"expected": self._expected, "alive": self._alive}
