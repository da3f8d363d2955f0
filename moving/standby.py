"""A follower that stands by on an existing Ray cluster, in case `serve --kafka` dies.

Ray restarts it, on another node if need be. The coordinator chooses between it and `serve`.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tierledger.actors.host_settings import ServiceSettings
from tierledger.actors.processes import this_process
from tierledger.actors.ray.cluster import actor_names, kill_actor, on_node, ray
from tierledger.actors.ray.handles import namespace_of
from tierledger.actors.ray.service import RayConnection
from tierledger.moving.following import Following, FollowOptions

NAME = "follower"


class Standby:
    """The actor: runs a `Following` from its start on, in a thread and loop of its own."""

    def __init__(self, settings: ServiceSettings, options: FollowOptions, home: str) -> None:
        """`home`: the Ray node whose machine has the store's file, for a store in a file."""
        coordinator = RayConnection(settings, home).coordinator
        self._following = Following(settings, coordinator, options)
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._following.run())
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.gather(self._task, return_exceptions=True))

    def close(self) -> None:
        """End the follower and its thread."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()


_StandbyActor: Any = ray.remote(max_restarts=-1, max_task_retries=0, num_cpus=0)(Standby)


def start_standby(settings: ServiceSettings, options: FollowOptions, home: str) -> None:
    """Start a standby that outlives this process, and end those of earlier processes."""
    namespace = namespace_of(settings)
    for name in actor_names(namespace):
        if name.startswith(NAME):
            kill_actor(name, namespace)
    is_there = settings.connector().is_on_one_machine
    _StandbyActor.options(
        name=f"{NAME} of {this_process()}",  # A killed actor's name is not free at once.
        namespace=namespace,
        lifetime="detached",
        scheduling_strategy=on_node(home) if is_there else "SPREAD",
    ).remote(settings, options, home)
