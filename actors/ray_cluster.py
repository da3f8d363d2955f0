"""Starts, joins and leaves a Ray cluster. Loopback only, no dashboard, no usage reports.

Ray reads its environment when it is imported, so it is imported here, after that is set, and
everybody else takes it from here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# A cluster that Ray starts asks for the user's token (in ~/.ray), but a process that joins one
# does not offer it unless told to.
os.environ.setdefault("RAY_AUTH_MODE", "token")
# Without this Ray listens on all interfaces of a Linux machine, whatever address it is given.
# The name speaks of other systems, the effect is the same here. A cluster that is joined was
# started by others, and listens where they said.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # A hint nobody here needs.

import ray
import ray._private.ray_constants
import ray._private.worker
import ray.exceptions
import ray.util
import structlog
from ray._raylet import GcsClient  # type: ignore[attr-defined] # It is compiled.
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tierledger.events.errors import NotReady

NAMESPACE = "tierledger"
"""Of this process; each service has one of its own for its actors, see `ray_handles`."""

ASK_TIMEOUT_S = 3.0
"""How long a cluster's control store may take to say who it is."""

LOOPBACK = ("127.0.0.1:", "localhost:", "[::1]:")

OBJECT_STORE_BYTES = 128 * 1024 * 1024
"""Shared memory of a cluster of our own: our calls are small and travel inline."""


_log = structlog.get_logger("tierledger.ray")

__all__ = ["NAMESPACE", "find_actor", "join_cluster", "leave_cluster", "ray", "start_cluster"]


def _to_log(data: dict[str, Any], *_: object, **__: object) -> None:
    """What the raylet has to say, to our log."""
    for line in data["lines"]:
        _log.debug("ray", message=line)


# Ray prints the raylet's messages (a worker died) on the driver's stdout, in the middle of
# results that somebody may be parsing, and offers no switch for it. Ray's version is pinned.
ray._private.worker.print_to_stdstream = _to_log


def start_cluster() -> str:
    """A cluster of one node, owned by this process; its address for others."""
    context: Any = ray.init(
        address="local",
        namespace=NAMESPACE,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=OBJECT_STORE_BYTES,
    )
    address: str = context.address_info["gcs_address"]
    return address


def join_cluster(address: str) -> str:
    """Join the cluster at `address` (or `auto`); a second call is a no-op. Its address.

    Raises:
        NotReady: It cannot be joined (from here, or by this user).
    """
    if ray.is_initialized():
        return joined_address()
    # Else this process would look for its own node on loopback.
    is_remote = not address.startswith(LOOPBACK)
    ray._private.ray_constants.ENABLE_RAY_CLUSTER = is_remote
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ray.exceptions.RayError) as error:
        raise NotReady(f"the Ray cluster at {address} cannot be joined: {error}") from error
    return joined_address()


def joined_address() -> str:
    """Where others find the cluster that this process is in."""
    address: str = ray.get_runtime_context().gcs_address
    return address


def leave_cluster() -> None:
    """Leave; a cluster that this process started ends with it."""
    ray.shutdown()


def own_node() -> str:
    """The id of the Ray node that this process is on."""
    node: str = ray.get_runtime_context().get_node_id()
    return node


def own_cluster() -> str:
    """The id of the cluster that this process is in; a new one at each start of Ray."""
    worker: Any = ray._private.worker.global_worker
    cluster: str = worker.gcs_client.cluster_id.hex()
    return cluster


async def cluster_at(address: str) -> str | None:
    """The id of the Ray cluster at `address`; none if no such answers there in time."""
    found: list[str] = []
    answered = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        try:
            found.append(GcsClient(address=address).cluster_id.hex())
        except (ray.exceptions.RayError, OSError, RuntimeError):
            return  # Whoever listens there is no Ray.
        finally:
            if not loop.is_closed():
                loop.call_soon_threadsafe(answered.set)

    # A thread that nobody waits for: against what is not Ray its call takes 40 s.
    threading.Thread(target=ask, daemon=True).start()
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            await answered.wait()
    except TimeoutError:
        return None
    return found[0] if found else None


def on_node(node: str) -> Any:
    """The scheduling strategy for what must run on one node."""
    return NodeAffinitySchedulingStrategy(node, soft=False)


def live_nodes() -> list[str]:
    """The nodes of the cluster that Ray believes to live."""
    nodes: Any = ray.nodes  # Its type is not told.
    return sorted(node["NodeID"] for node in nodes() if node["Alive"])


def find_actor(name: str, namespace: str) -> Any:
    """The handle of a named actor; none if it does not run."""
    try:
        return ray.get_actor(name, namespace=namespace)
    except ValueError:
        return None


def actor_names(namespace: str) -> list[str]:
    """The named actors of a namespace that run, or are being started."""
    listed: Any = ray.util.list_named_actors(all_namespaces=True)
    return sorted(one["name"] for one in listed if one["namespace"] == namespace)
