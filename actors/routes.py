"""Where partitions are served, as it was heard last."""

from __future__ import annotations

from zlib import crc32

from tierledger.actors.calls import LEADER, STORAGE, PartitionKey
from tierledger.actors.connection import CoordinatorHandle
from tierledger.actors.coordinator.events import Route
from tierledger.events.errors import NotReady, RemoteResourceNotFound


class Routes:
    """Which host to ask about a partition; each route is asked for once, until it failed."""

    def __init__(self, coordinator: CoordinatorHandle) -> None:
        self._coordinator = coordinator
        self._known: dict[PartitionKey, Route] = {}

    def at_hand(self, key: PartitionKey, role: str) -> tuple[str, str] | None:
        """The same as `where` if nothing has to be asked for it, as a rule; else none."""
        route = self._known.get(key)
        if route is None or not route.known:
            return None
        host = route.leader_host if role == LEADER else route.follower_host
        return None if host is None else (host, role)

    async def where(self, key: PartitionKey, role: str) -> tuple[str, str]:
        """The address of the host to ask, and the role in which it will answer.

        Raises:
            RemoteResourceNotFound: The partition was never announced and has no log.
            NotReady: It is being placed.
        """
        route = self._known.get(key)
        if route is None:
            (route,) = await self._coordinator.route([key])
            self._known[key] = route
        if not route.known:
            self.forget(key)
            raise RemoteResourceNotFound(
                f"{key.named('?')} is unknown: never announced, no log"
            )
        host = route.leader_host if role == LEADER else route.follower_host
        if host is not None:
            return host, role
        if route.leader_host is not None:
            return route.leader_host, LEADER  # Nobody follows it: its leader answers as well.
        self.forget(key)
        if route.leader is None and role != LEADER:
            # Released: known, served by nobody; any host can read it from storage. All who
            # ask turn to the same one, which reads it once for all of them.
            addresses = [*(await self._coordinator.hosts()).values()]
            if addresses:
                return addresses[crc32(b"%b%d" % key) % len(addresses)], STORAGE
        raise NotReady(f"{key.named('?')} has no {role} at the moment")

    def forget(self, key: PartitionKey) -> None:
        """It is not served where it was said to be: ask again before the next call."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Nothing that was said counts any more."""
        self._known.clear()
