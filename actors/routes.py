"""Where partitions are served: routes from the coordinator, kept until they fail."""

from __future__ import annotations

from zlib import crc32

from tierledger.actors.calls import LEADER, STORAGE, PartitionKey
from tierledger.actors.connection import CoordinatorHandle
from tierledger.actors.coordinator.events import Route
from tierledger.actors.coordinator.requests import HostsCall, RouteCall
from tierledger.events.errors import NotReady, RemoteResourceNotFound


class Routes:
    """Finds the host that serves a partition; keeps each route until a call has failed."""

    def __init__(self, coordinator: CoordinatorHandle) -> None:
        self._coordinator = coordinator
        self._known: dict[PartitionKey, Route] = {}

    def at_hand(self, key: PartitionKey, role: str) -> tuple[str, str] | None:
        """The result of `where` if the kept route gives it; None if `where` has to ask."""
        route = self._known.get(key)
        if route is None or not route.known:
            return None
        host = route.host(role)
        return None if host is None else (host, role)

    async def where(self, key: PartitionKey, role: str) -> tuple[str, str]:
        """The address of the host to ask, and the role in which it will answer.

        `role`: `LEADER`; `FOLLOWER`, for which others answer if there is none; or `STORAGE`,
        for which no follower answers, since it may lag.

        Raises:
            RemoteResourceNotFound: The partition was never announced and has no log.
            NotReady: The partition is being placed.
        """
        route = self._known.get(key)
        if route is None:
            (route,) = await self._coordinator.ask(RouteCall([key]))
            self._known[key] = route
        if not route.known:
            self.forget(key)
            raise RemoteResourceNotFound(
                f"{key.named('?')} is unknown: never announced, no log"
            )
        serving = route.serving(role)
        if serving is not None:
            return serving
        self.forget(key)
        if route.leader is None and role != LEADER:
            # Released: no host serves it, but any host can read it from storage. All clients
            # turn to the same host, which reads it once for all of them.
            addresses = [*(await self._coordinator.ask(HostsCall())).values()]
            if addresses:
                return addresses[crc32(b"%b%d" % key) % len(addresses)], STORAGE
        raise NotReady(f"{key.named('?')} has no {role} at the moment")

    def forget(self, key: PartitionKey) -> None:
        """Drop the partition's route, which has failed: the next call asks for it anew."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Drop all routes."""
        self._known.clear()
