"""What a broker waits for: calls to hosts, and requests to the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tierledger.actors.calls import LEADER
from tierledger.actors.client.retries import LASTING_AT_COORDINATOR, Retries
from tierledger.actors.messages import Query
from tierledger.events import commands as cmd


class Op:
    """One call under way."""

    __slots__ = (
        "arrived",
        "attempt",
        "caller",
        "command",
        "deadline",
        "is_done",
        "number",
        "partition",
        "position_min",
        "query",
        "retries",
        "role",
        "serial",
        "then",
    )  # fmt: skip

    def __init__(
        self, partition: int, number: int, deadline: int, caller: Caller, *, is_change: bool
    ) -> None:
        self.partition = partition
        self.number = number
        self.deadline = deadline
        self.caller = caller
        self.role = LEADER
        self.command: cmd.Command | None = None
        self.query: Query | None = None
        self.position_min = -1
        self.attempt = 0
        self.arrived: set[int] = set()
        """Attempts that have arrived at a host; see `HostNode.take_command`."""
        self.retries = Retries(is_change=is_change)
        self.is_done = False
        self.serial = 0
        """The number of writes that its broker had begun in the partition before this one."""
        self.then: Any = None

    @property
    def short_text(self) -> str:
        """The name of the call in the text of a message."""
        return f"call {self.number}"


class Caller:
    """A process of the history, which makes one call after the other.

    After a call that ended in doubt it goes on under a new name, as another process: that call
    may still be carried out.
    """

    __slots__ = ("is_busy", "lives", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.lives = 0
        self.is_busy = False

    @property
    def process(self) -> str:
        return f"{self.name}.{self.lives}"


class Asked:
    """A request to the coordinator under way."""

    __slots__ = ("ask", "deadline", "retries", "then", "token")

    def __init__(self, ask: Callable[[int], None], then: Any, deadline: int) -> None:  # noqa: ANN401
        self.ask = ask
        self.then = then
        self.deadline = deadline
        self.retries = Retries(is_change=True, lasting=LASTING_AT_COORDINATOR)
        self.token = 0
