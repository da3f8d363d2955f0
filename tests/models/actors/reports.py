"""Made-up status reports of coordinators and hosts, and a connection that returns them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from tierledger.actors.calls import PartitionKey
from tierledger.actors.coordinator.events import Route
from tierledger.events.errors import OutcomeUnknown
from tierledger.events.identifiers import Uuid
from tierledger.health.status import HostReading, Reading

NOW_MS = 1_700_000_100_000
"""The coordinator's time at its answer."""

TOPIC_ID = str(Uuid(bytes(range(16))))


def session(number: int = 1, *, is_open: bool = True) -> dict[str, Any]:
    return {
        "number": number,
        "broker_id": 1,
        "incarnation": 2,
        "announcement": 3,
        "assignment": number,
        "leader_epoch": None,
        "import_cluster": None,
        "is_open": is_open,
        "log_time_ms": 1_700_000_000_000,
    }


def served(partition: int, role: str = "leader", **more: object) -> dict[str, Any]:
    """One partition's report: all is well, except for the fields in `more`."""
    return {
        "topic": "orders",
        "topic_id": TOPIC_ID,
        "partition": partition,
        "role": role,
        "phase": "leading" if role == "leader" else "following",
        "reason": None,
        "position": 10,
        "remote_log_bytes": 0,
        "copying_bytes": 0,
        "waiting": 0,
        "disputes": 0,
        "disputes_in_a_row": 0,
        "last_dispute_ms": None,
        "is_deleted": False,
        "session": session(),
        **more,
    }


def counts(*partitions: Mapping[str, Any], **more: object) -> dict[str, Any]:
    """A host's counts, as in its answer to a ping."""
    return {
        "process": "host-0/abc/17",
        "pid": 17,
        "leaders": sum(one["role"] == "leader" for one in partitions),
        "followers": sum(one["role"] == "follower" for one in partitions),
        "commits": 4,
        "batches": 10,
        "alarms": {},
        "lost": [],
        **more,
    }


def host(*partitions: Mapping[str, Any], **more: object) -> HostReading:
    return HostReading("host/1", counts(*partitions, **more), partitions)


def silent() -> HostReading:
    return HostReading("host/1", silence="no answer within 2 s")


def coordinator(*hosts: str, **more: object) -> dict[str, Any]:
    return {
        "position": 5,
        "hosts": {name: f"{name}/abc/17" for name in hosts},
        "addresses": {name: f"{name}/1" for name in hosts},
        "starting": [],
        "heard_ms_ago": dict.fromkeys(hosts, 100),
        "placed": {name: {"leaders": 2, "followers": 1} for name in hosts},
        "brokers": {1: {"incarnation": 2, "announced": (2, 3)}},
        "partitions": 3,
        "unplaced": 0,
        "set_aside": 0,
        "set_aside_items": [],
        "owner": "nobody",
        "owner_epoch": 0,
        "source": "",
        "heading": "",
        "owner_since_ms": None,
        "give_up_after_ms": 0,
        "deletions_held": [],
        "deletions_held_text": "",
        "holds": [],
        "now_ms": NOW_MS,
        "up_ms": 60_000,
        "conditions": [],
        "attending": [],
        "shadows": [],
        "kafka": None,
        "move": None,
        **more,
    }


def reading(
    hosts: Mapping[str, HostReading],
    leader_hosts: Mapping[tuple[str, int], str | None] | None = None,
    **more: object,
) -> Reading:
    return Reading(coordinator(*hosts, **more), hosts, leader_hosts or {})


class SpokenHost:
    """A host that reports the given partitions; a silent one never answers with counts."""

    def __init__(self, *partitions: dict[str, Any], is_silent: bool = False) -> None:
        self._partitions = list(partitions)
        self._is_silent = is_silent

    async def ask(self, request: Any) -> Any:  # noqa: ANN401 - Its answer.
        return await request.put_to(self)

    async def counts(self) -> dict[str, Any]:
        if self._is_silent:
            await asyncio.Event().wait()
        return counts(*self._partitions)

    async def partitions(self) -> list[dict[str, Any]]:
        return self._partitions


class SpokenService:
    """A connection to hosts with given reports, and to their coordinator."""

    def __init__(self, hosts: Mapping[str, SpokenHost], **more: object) -> None:
        self.coordinator = self
        self.is_silent = False
        self.looks = 0
        self.routes: dict[PartitionKey, Route] = {}
        self._hosts = {f"{name}/1": one for name, one in hosts.items()}
        self._said = coordinator(*hosts, **more)

    async def ask(self, request: Any) -> Any:  # noqa: ANN401 - Its answer.
        return await request.put_to(self)

    async def status(self) -> dict[str, Any]:
        self.looks += 1
        if self.is_silent:
            raise OutcomeUnknown("the coordinator is gone")
        return self._said

    async def route(self, keys: Sequence[PartitionKey]) -> list[Route]:
        unknown = Route(known=False, leader_host=None, follower_host=None, leader=None)
        return [self.routes.get(key, unknown) for key in keys]

    def host(self, name: str) -> SpokenHost:
        found = self._hosts.get(name)
        if found is None:
            raise OutcomeUnknown(f"{name} is not running")
        return found
