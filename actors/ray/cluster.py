"""Starts, joins and leaves a Ray cluster. Loopback only, no dashboard, no usage reports.

Ray reads its environment variables when it is imported. So this module sets them, then imports
Ray, and all other modules take Ray from here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# A cluster that Ray starts asks for the user's token (in ~/.ray), but a process that joins it
# sends the token only with this setting.
os.environ.setdefault("RAY_AUTH_MODE", "token")
# Without this Ray listens on all interfaces of a Linux machine, whatever address it is given.
# The name is about other systems, but the effect is the same on Linux. This does not change a
# cluster that others have started.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
# Otherwise a call after the end of the cluster would start a new cluster.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Silences a warning.
# Task events are for the dashboard only; with them it takes 5 s to leave a dead cluster.
os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
# With Ray's default of 15, a host gets 1/28 of the processor time of each other busy process of
# its session: beside a few of these, a successor took a minute to start.
os.environ.setdefault("RAY_worker_niceness", "0")

import ray
import ray._private.node
import ray._private.ray_constants
import ray._private.worker
import ray.exceptions
import ray.util
from ray._private.authentication import authentication_token_setup
from ray._private.authentication.authentication_token_generator import (
    generate_new_authentication_token,
)
from ray._raylet import (  # type: ignore[attr-defined] # They are compiled.
    AuthenticationTokenLoader,
    GcsClient,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tierledger.actors.door.addresses import PORT_MAX
from tierledger.actors.processes import descendants
from tierledger.actors.ray.sessions import RaySession, remove_dead
from tierledger.events.errors import InvalidArgument, NotReady
from tierledger.storage.process_log import ProcessLog

ENVIRONMENT = dict(os.environ)
"""Of this process, before Ray adds to it at the start of a cluster."""

NAMESPACE = "tierledger"
"""The Ray namespace of this process; each service has another for its actors, see `handles`."""

AUTO = "auto"
"""In place of an address: the cluster that runs on this machine."""

ASK_TIMEOUT_S = 3.0
"""How long a cluster's control store may take to give the cluster's id."""

HEAD = "node:__internal_head__"
"""The resource by which Ray tells the head from other nodes."""

LOOPBACK = ("127.0.0.1:", "localhost:", "[::1]:")

OBJECT_STORE_BYTES = 128 * 1024 * 1024
"""Shared memory of a cluster of our own: our calls are small and travel inline."""


T = TypeVar("T")

_joining = threading.Lock()

_log = ProcessLog("tierledger.ray")

__all__ = ["NAMESPACE", "find_actor", "join_cluster", "leave_cluster", "ray", "start_cluster"]


def _to_log(data: dict[str, Any], *_: object, **__: object) -> None:
    """Write the raylet's messages into our log."""
    for line in data["lines"]:
        _log.debug("ray", message=line)


# Ray prints the raylet's messages (a worker died) on the driver's stdout, in the middle of
# results that a program may parse, and has no setting for that. Ray's version is pinned.
ray._private.worker.print_to_stdstream = _to_log


def _not_started(*_: object, **__: object) -> None:
    """Nobody asks this process of a cluster of our own."""


# The server of a dashboard that is off, an autoscaler, and a reader of logs: two thirds of the
# processor time of a cluster's start, and Ray has no setting for them either.
UNUSED = ("start_api_server", "start_monitor", "start_log_monitor")
for name in UNUSED:
    setattr(ray._private.node.Node, name, _not_started)


def start_cluster() -> str:
    """Start a cluster of one node, owned by this process; returns its address for others.

    Raises:
        NotReady: Ray's processes did not start in time.
    """
    ensure_token()
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
    # Ray would send SIGTERM first, which its processes do not get if this thread blocks it.
    node: Any = ray._private.worker._global_node
    node.kill_all_processes = lambda **_: end_own_cluster()
    node.session = RaySession(Path(node.get_session_dir_path()))
    remove_dead(Path(node.get_temp_dir_path()))
    address: str = context.address_info["gcs_address"]
    return address


def ensure_token() -> None:
    """Make the user's Ray token if there is none: `ray.init` does, Ray's `Cluster` does not.

    Ray keeps it in the home folder. A user without one that can be written, as in a container,
    gets a token in the environment, of this process and those that it starts: nobody else
    joins a cluster of its own.
    """
    try:
        authentication_token_setup.ensure_token_if_auth_enabled()
    except (OSError, RuntimeError) as error:  # The latter: nothing names a home folder.
        _log.info("Ray's token cannot be kept, this process has its own", error=str(error))
        os.environ["RAY_AUTH_TOKEN"] = generate_new_authentication_token()
        AuthenticationTokenLoader.instance().reset_cache()


def tried_twice(start: Callable[[], T]) -> T:
    """The result of `start`, which starts Ray's processes; it is tried twice.

    Ray gives them 30 s, and has no setting for that. On a busy machine a first start can take
    longer; a second one finds the programs in memory.

    Raises:
        NotReady: They did not start in time twice; none of them is left.
    """
    for is_last in (False, True):
        before = descendants((os.getpid(),))
        try:
            return start()
        except Exception as error:  # Ray raises even this class if time is up.
            for process in descendants((os.getpid(),)):
                if process not in before:
                    process.signal(signal.SIGKILL)
            if is_last:
                raise NotReady(f"Ray did not start on this machine: {error}") from error
            _log.warning("Ray did not start, and is started again", error=str(error))
    raise AssertionError("the last try returns or raises")


def end_own_cluster() -> None:
    """Kill the processes of the cluster that this process started, or that it is starting."""
    node: Any = ray._private.worker._global_node
    if node is None:
        while begun := descendants((os.getpid(),)):
            for process in begun:
                process.signal(signal.SIGKILL)
        return
    started = node.all_processes
    roots = {one.process.pid: one.process for kind in started.values() for one in kind}
    started.clear()  # So that Ray does not take them for crashed.
    family = descendants(roots)
    for root in roots.values():
        root.kill()
    for process in family:
        process.signal(signal.SIGKILL)
    for root in roots.values():
        root.wait()


def own_cluster_died() -> bool:
    """Whether control store or raylet of the cluster that this process started has ended."""
    node: Any = ray._private.worker._global_node
    started = {} if node is None else node.all_processes
    return any(
        one.process.poll() is not None
        for kind in ("gcs_server", "raylet")
        for one in started.get(kind, ())
    )


def own_cluster_lacks() -> Path | None:
    """A deleted file without which the cluster that this process started starts no process."""
    node: Any = ray._private.worker._global_node
    session: RaySession | None = getattr(node, "session", None)
    return None if session is None else session.lacks()


def join_cluster(address: str) -> str:
    """Join the cluster at `address` (or `auto`); returns its address. A second call is a no-op.

    Raises:
        InvalidArgument: `address` is no address.
        NotReady: The cluster does not answer, or cannot be joined from here or by this user.
    """
    with _joining:
        return _joined(address)


def _joined(address: str) -> str:
    if ray.is_initialized():
        return joined_address()
    if address != AUTO:
        _require_cluster(address)
    # Otherwise this process would search for its own node on loopback.
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
    """Check that the cluster answers: Ray itself would wait a minute for one that is gone."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port[:6]) > PORT_MAX:
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
    """The address of the cluster that this process is in, for other processes."""
    address: str = ray.get_runtime_context().gcs_address
    return address


async def has_lost_cluster() -> bool:
    """Whether the cluster that this process is in has ended, so that it may join another."""
    if not ray.is_initialized():
        return False
    return await cluster_at(joined_address()) != own_cluster()


def leave_cluster() -> None:
    """Leave the cluster; one that this process started ends."""
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
    """The id of the Ray cluster at `address`; None if none answers in time."""
    return await beside(lambda: cluster_id(address))


def cluster_id(address: str) -> str | None:
    """The same, but it blocks for up to `ASK_TIMEOUT_S`."""
    found: list[str] = []

    def ask() -> None:
        # Something else than Ray may listen there.
        with contextlib.suppress(ray.exceptions.RayError, OSError, RuntimeError):
            found.append(GcsClient(address=address).cluster_id.hex())

    # The thread is left behind at the timeout: if no Ray listens there, the call takes 40 s.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ASK_TIMEOUT_S)
    return found[0] if found else None


async def beside(work: Callable[[], T]) -> T:
    """The result of `work`, which runs in a thread, since Ray blocks for up to a minute.

    If the caller is cancelled, `work` goes on; it does not keep the program from ending.
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
    """The scheduling strategy for an actor that must run on `node`."""
    return NodeAffinitySchedulingStrategy(node, soft=False)


def away_from_head(avoid: str | None = None) -> Any:
    """The scheduling strategy for an actor that should survive the loss of the cluster's head.

    Without the control store there Ray starts no actor, so none could replace it. This
    process's own node lives for sure, and comes first. Others may be gone without Ray knowing:
    `avoid` is where a former one ran, and only if there is no other node Ray may choose for
    itself. Any other is waited for: it may be so new that Ray does not use it yet.
    """
    others = _behind_head()
    if not others:
        return "DEFAULT"
    own = own_node()
    best = min(others, key=lambda node: (node != own, node == avoid))
    return NodeAffinitySchedulingStrategy(best, soft=best == avoid)


def may_leave_head() -> bool:
    """Whether this process is on the cluster's head, and there is another node."""
    others = _behind_head()
    return bool(others) and own_node() not in others


def _behind_head() -> list[str]:
    """The ids of the nodes, but the head, that Ray believes to live, sorted."""
    nodes: Any = ray.nodes
    return sorted(
        node["NodeID"] for node in nodes() if node["Alive"] and HEAD not in node["Resources"]
    )


def live_nodes() -> list[str]:
    """The ids of the cluster's nodes that Ray believes to live, sorted."""
    nodes: Any = ray.nodes  # Ray does not type it.
    return sorted(node["NodeID"] for node in nodes() if node["Alive"])


async def nodes_in_time() -> list[str] | None:
    """The same; None if the cluster's control store does not answer in `ASK_TIMEOUT_S`.

    `live_nodes` would wait for that for ever, until Ray ends this process.
    """

    def ask() -> list[str] | None:
        worker: Any = ray._private.worker.global_worker
        try:
            found = worker.gcs_client.get_all_node_info(timeout=ASK_TIMEOUT_S)
        except ray.exceptions.RayError:
            return None
        return sorted(node.hex() for node, one in found.items() if one.state == one.ALIVE)

    return await beside(ask)


def node_ips() -> set[str]:
    """The addresses of the machines of the cluster's living nodes."""
    nodes: Any = ray.nodes
    return {node["NodeManagerAddress"] for node in nodes() if node["Alive"]}


def find_actor(name: str, namespace: str) -> Any:
    """The handle of a named actor; None if it does not run."""
    try:
        return ray.get_actor(name, namespace=namespace)
    except ValueError:
        return None


def kill_actor(name: str, namespace: str) -> None:
    """End a named actor at once, if it runs."""
    actor = find_actor(name, namespace)
    if actor is not None:
        ray.kill(actor, no_restart=True)


def actor_names(namespace: str) -> list[str]:
    """The names of a namespace's actors that run, or are being started; sorted."""
    listed: Any = ray.util.list_named_actors(all_namespaces=True)
    return sorted(one["name"] for one in listed if one["namespace"] == namespace)
