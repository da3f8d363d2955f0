"""Starts, joins and leaves a Ray cluster. Loopback only, no dashboard, no usage reports.

Ray reads its environment when it is imported, so it is imported here, after that is set, and
everybody else takes it from here.
"""

from __future__ import annotations

import logging
import os
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# A cluster that Ray starts asks for the user's token (in ~/.ray), but a process that joins one
# does not offer it unless told to.
os.environ.setdefault("RAY_AUTH_MODE", "token")
# Without this Ray listens on all interfaces of a Linux machine, whatever address it is given.
# The name speaks of other systems, the effect is the same here; 1 allows clusters of several
# hosts.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # A hint nobody here needs.

import ray
import ray._private.worker
import ray.exceptions
import structlog

from tierledger.events.errors import NotReady

NAMESPACE = "tierledger"

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


def join_cluster(address: str) -> None:
    """Join the cluster at `address`; a second call is a no-op.

    Raises:
        NotReady: It cannot be joined (from here, or by this user).
    """
    if ray.is_initialized():
        return
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ray.exceptions.RayError) as error:
        raise NotReady(f"the Ray cluster at {address} cannot be joined: {error}") from error


def leave_cluster() -> None:
    """Leave; a cluster that this process started ends with it."""
    ray.shutdown()


def process_of(process: str) -> int:
    """The pid in what a host calls its process."""
    return int(process.rsplit("/", 1)[1])


def find_actor(name: str) -> Any:
    """The handle of a named actor; none if it does not run."""
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None
