"""Replacing the service's processes one by one while it serves: for upgrades, and for nodes.

Apart from what answers it: clients load it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from tierledger.events.typed_fields import Count, Text

THE_COORDINATOR = "coordinator"
"""The name by which the coordinator's own process is replaced."""


class ReplacementStep(StrEnum):
    """How far the replacement of a process is."""

    MOVING = "moving"
    """Leaders and followers move to other hosts."""
    STARTING = "starting"
    """What can move has moved; the process ends, and another one starts."""
    DONE = "done"
    """Another process serves."""


class Replacement(NamedTuple):
    """The answer to a `ReplaceProcess`."""

    step: ReplacementStep
    left: Count
    """Leaders and followers that were placed there when it was asked."""


class ReplaceProcess(NamedTuple):
    """Replace the process of a host by a new one; its leaders and followers move away before.

    To be asked again, several times a second, until the answer is DONE: each time some move.
    A host about which nobody has asked for 10 s gets leaders again.
    """

    host: Text
    """The host, or `THE_COORDINATOR`."""
    process: Text
    """The name of the process that is to end: if another one serves, it has been replaced."""

    def put_to(self, asked: ReplacesProcesses) -> Coroutine[Any, Any, Replacement]:
        return asked.replace(self)


class LeaveNode(ReplaceProcess):
    """The same, and the new process starts on another node, if there is one.

    A type of its own: a coordinator of a former release knows no further field.
    """


class ReplacesProcesses(Protocol):
    """What answers it."""

    async def replace(self, wish: ReplaceProcess) -> Replacement: ...
