"""Starts, joins and leaves a Ray cluster. Loopback only, no dashboard, no usage reports.

Ray reads its environment when it is imported, so it is imported here, after that is set, and
everybody else takes it from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# A cluster that Ray starts asks for the user's token (in ~/.ray), but a process that joins one
# does not offer it unless told to.
os.environ.setdefault("RAY_AUTH_MODE", "token")
# Without this Ray listens on all interfaces of a Linux machine, whatever address it is given.
# The name speaks of other systems, the effect is the same here. A cluster that is joined was
# started by others, and listens where they said.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
# Else a call after the cluster has gone would start a cluster of its own.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # A hint nobody here needs.
# Records of tasks are for a dashboard; leaving a cluster that has died takes 5 s with them.
os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
# With Ray's 15 hosts get 1/28 of what each process of their session gets that wants the
# processor: beside a few such a successor took a minute to start.
os.environ.setdefault("RAY_worker_niceness", "0")

import ray
import ray._private.ray_constants
import ray._private.worker
import ray.exceptions
import ray.util
import structlog
from ray._private.authentication import authentication_token_setup
from ray._raylet import GcsClient  # type: ignore[attr-defined] # It is compiled.
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tierledger.actors.processes import descendants
from tierledger.events.errors import InvalidArgument, NotReady

NAMESPACE = "tierledger"
"""Of this process; each service has one of its own for its actors, see `handles`."""

AUTO = "auto"
"""In place of an address: the cluster of this machine."""

ASK_TIMEOUT_S = 3.0
"""How long a cluster's control store may take to say who it is."""

LOOPBACK = ("127.0.0.1:", "localhost:", "[::1]:")

OBJECT_STORE_BYTES = 128 * 1024 * 1024
"""Shared memory of a cluster of our own: our calls are small and travel inline."""


T = TypeVar("T")

_joining = threading.Lock()

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
    """A cluster of one node, owned by this process; its address for others.

    Raises:
        NotReady: Ray's processes did not start in time.
    """
    context: Any = tried_twice(
        lambda: ray.init(
            address="local",
            namespace=NAMESPACE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=OBJECT_STORE_BYTES,
        )
    )
    # Ray would ask with SIGTERM first, which none of them hears where this thread does not.
    node: Any = ray._private.worker._global_node
    node.kill_all_processes = lambda **_: end_own_cluster()
    address: str = context.address_info["gcs_address"]
    return address


def ensure_token() -> None:
    """Make the user's Ray token if there is none: `ray.init` does, Ray's `Cluster` does not."""
    authentication_token_setup.ensure_token_if_auth_enabled()


def tried_twice(start: Callable[[], T]) -> T:
    """What `start` returns, which starts processes of Ray's.

    They have 30 s, which Ray does not let anybody change; on a busy machine a first start can
    take longer, and a second one finds the programs in memory.

    Raises:
        NotReady: They did not start in time either time; none of them is left.
    """
    for is_last in (False, True):
        before = descendants((os.getpid(),))
        try:
            return start()
        except RuntimeError as error:
            for process in descendants((os.getpid(),)):
                if process not in before:
                    process.signal(signal.SIGKILL)
            if is_last:
                raise NotReady(f"Ray did not start on this machine: {error}") from error
            _log.warning("Ray did not start in time, and is started again", error=str(error))
    raise AssertionError("the last try returns or raises")


def end_own_cluster() -> None:
    """End the processes of a cluster that this process started, if it has, at once."""
    node: Any = ray._private.worker._global_node
    started = {} if node is None else node.all_processes
    roots = {one.process.pid: one.process for kind in started.values() for one in kind}
    started.clear()  # None of them has died by itself.
    family = descendants(roots)
    for root in roots.values():
        root.kill()
    for process in family:
        process.signal(signal.SIGKILL)
    for root in roots.values():
        root.wait()


def own_cluster_died() -> bool:
    """Whether one without which a cluster is none has ended, of those this process started."""
    node: Any = ray._private.worker._global_node
    started = {} if node is None else node.all_processes
    return any(
        one.process.poll() is not None
        for kind in ("gcs_server", "raylet")
        for one in started.get(kind, ())
    )


def join_cluster(address: str) -> str:
    """Join the cluster at `address` (or `auto`); a second call is a no-op. Its address.

    Raises:
        InvalidArgument: That is no address.
        NotReady: It cannot be joined (from here, or by this user), or nothing answers there.
    """
    with _joining:
        return _joined(address)


def _joined(address: str) -> str:
    if ray.is_initialized():
        return joined_address()
    if address != AUTO:
        _require_cluster(address)
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


def _require_cluster(address: str) -> None:
    """Ask first: Ray itself waits a minute for one that is not there, and says nothing."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise InvalidArgument(
            "expected the HOST:PORT of a Ray cluster's head, as `ray start --head` prints it, "
            f"or {AUTO!r}; got {address!r}"
        )
    if cluster_id(address) is None:
        raise NotReady(
            f"no Ray cluster answers at {address} within {ASK_TIMEOUT_S:g} s; expected the "
            "HOST:PORT of its head, as `ray start --head` prints it, and the same token"
        )


def joined_address() -> str:
    """Where others find the cluster that this process is in."""
    address: str = ray.get_runtime_context().gcs_address
    return address


async def has_lost_cluster() -> bool:
    """Whether the cluster that this process is in has ended, so that it may join another."""
    if not ray.is_initialized():
        return False
    return await cluster_at(joined_address()) != own_cluster()


def leave_cluster() -> None:
    """Leave; a cluster that this process started ends with it."""
    ray.shutdown()


def own_node() -> str:
    """The id of the Ray node that this process is on."""
    node: str = ray.get_runtime_context().get_node_id()
    return node


def own_ip() -> str:
    """The address at which other nodes reach this process's node."""
    ip: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    return ip


def own_cluster() -> str:
    """The id of the cluster that this process is in; a new one at each start of Ray."""
    worker: Any = ray._private.worker.global_worker
    cluster: str = worker.gcs_client.cluster_id.hex()
    return cluster


async def cluster_at(address: str) -> str | None:
    """The id of the Ray cluster at `address`; none if no such answers there in time."""
    return await beside(lambda: cluster_id(address))


def cluster_id(address: str) -> str | None:
    """The same, for a thread that may wait."""
    found: list[str] = []

    def ask() -> None:
        # What listens there may be no Ray.
        with contextlib.suppress(ray.exceptions.RayError, OSError, RuntimeError):
            found.append(GcsClient(address=address).cluster_id.hex())

    # A thread that is left behind: against what is not Ray its call takes 40 s.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ASK_TIMEOUT_S)
    return found[0] if found else None


async def beside(work: Callable[[], T]) -> T:
    """What `work` returns or raises, done in a thread: Ray blocks for up to a minute.

    Who gives up on it leaves it running; it does not keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type] # Then there is a result.
        else:
            done.set_exception(error)

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - It is raised where it is waited for.
            failure = error
        with contextlib.suppress(RuntimeError):  # The loop may be closed by then.
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, name="tierledger-ray", daemon=True).start()
    return await done


def on_node(node: str) -> Any:
    """The scheduling strategy for what must run on one node."""
    return NodeAffinitySchedulingStrategy(node, soft=False)


def live_nodes() -> list[str]:
    """The nodes of the cluster that Ray believes to live."""
    nodes: Any = ray.nodes  # Its type is not told.
    return sorted(node["NodeID"] for node in nodes() if node["Alive"])


def node_ips() -> set[str]:
    """The machines of the cluster's nodes, by address."""
    nodes: Any = ray.nodes
    return {node["NodeManagerAddress"] for node in nodes() if node["Alive"]}


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
