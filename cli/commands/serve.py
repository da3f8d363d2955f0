"""`tierledger serve`: run the service on a store, until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, NoReturn

import typer
from typing_extensions import override

from tierledger.cli.backup_place import backup_files
from tierledger.cli.exit_status import ExitStatus
from tierledger.cli.log_setup import log_to_stderr
from tierledger.cli.opened_store import StoreOptions
from tierledger.cli.options import (
    ClusterOption,
    KafkaConfigOption,
    StoreOption,
    duration_ms,
    file_option,
    given_brokers,
)
from tierledger.cli.output import error_line, note_line
from tierledger.cli.service_manager import told_of
from tierledger.events.errors import (
    InvalidArgument,
    RejectedError,
    RemoteResourceNotFound,
    StorageUnavailable,
    StoreRefused,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.actors.ray.service import RayConnection, RayService
    from tierledger.health.server import MetricsOptions
    from tierledger.moving.broker_versions import OldestVersion
    from tierledger.storage.kafka_brokers import KafkaBrokers

STOPS = {signal.SIGINT, signal.SIGTERM}

LOOK_S = 0.2
"""The pause between two checks for a signal."""

START_GRACE_S = 5.0
"""How long a cancelled start may take to undo what it has done."""

BROKERS_S = 3.0
"""How long Kafka's brokers may take at the start to say of which cluster they are."""

SILENCES = 2
"""A Ray cluster counts as gone after so many unanswered requests in a row."""

LimitOption = Annotated[
    int,
    typer.Option(
        "--custom-metadata-max-bytes",
        min=0,
        max=2**31 - 1,
        help="Maximum bytes of custom metadata (KIP-917). If it is below the brokers' own "
        "limit, remote.log.metadata.custom.metadata.max.bytes, brokers upload segments again "
        "at every interval.",
    ),
]
TombstonesOption = Annotated[
    str,
    typer.Option(
        "--tombstone-retention",
        metavar="TIME",
        help="How long ids of deleted segments are remembered, at least: a broker's request "
        "that comes later may bring one back. Each takes 200 bytes on two hosts until then.",
    ),
]
HostsOption = Annotated[
    int,
    typer.Option(
        min=1,
        max=1000,
        help="Number of host processes to start, even if there is nothing to serve yet.",
    ),
]
PartitionsPerHostOption = Annotated[
    int,
    typer.Option(
        min=1,
        help="Maximum number of leaders and followers on a host; when all hosts are full, "
        "further hosts are started.",
    ),
]
BreakerOption = Annotated[
    int,
    typer.Option(
        "--breaker",
        metavar="PERCENT",
        min=0,
        max=100,
        help="If brokers have deleted more than so much of all that is tiered within an hour, "
        "and more than 1 GiB, nothing is deleted any more until an operator releases the hold "
        "`breaker`. 0 switches that off.",
    ),
]
TopicBreakerOption = Annotated[
    int,
    typer.Option(
        "--topic-breaker",
        metavar="PERCENT",
        min=0,
        max=100,
        help="If retention has deleted more than so much of a topic within an hour, and more "
        "than 1 GiB, nothing of the topic is deleted any more until an operator releases the "
        "hold `breaker-TOPIC`. 0 switches that off.",
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Use the Ray cluster at this address, or the one that `auto` finds, instead of "
        "a new one on this machine.",
    ),
]
NodesOption = Annotated[
    int,
    typer.Option(
        min=1,
        help="Nodes of the Ray cluster of --address: the start waits for them, a minute at "
        "most, and spreads the hosts over those that are there. Later it is a trouble if fewer "
        "are alive.",
    ),
]
ListenOption = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Address at which host-0 listens for clients; host-N takes the N-th port after "
        "it. With port 0 each host takes a free port.",
    ),
]
AdvertiseOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST[:PORT]",
        help="Address that clients connect to, if it is not the one on which hosts listen. "
        "{node} in it becomes the address of the host's machine, with dashes: 10-0-0-7.",
    ),
]
KafkaOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        help="Brokers of the Kafka cluster. The service asks all of them which broker leads "
        "a partition, and in which leader epoch; without this option the later claim "
        "leads. While Kafka's own manager owns the metadata, the service imports "
        "Kafka's metadata topic as it grows.",
    ),
]
MirrorOption = Annotated[
    bool | None,
    typer.Option(
        "--mirror/--no-mirror",
        help="With --kafka: write the contents of tierledger's logs into Kafka's metadata "
        "topic, so that Kafka's own manager can take over again. By default on if the "
        "cluster's metadata came from Kafka's own manager.",
    ),
]
NewOption = Annotated[
    bool,
    typer.Option(
        "--new",
        help="Start on a store that has nothing of the cluster yet, even though it holds other "
        "clusters, or Kafka's metadata topic shows that another store owns the cluster's "
        "metadata.",
    ),
]
CertificateOption = Annotated[
    Path | None,
    file_option("The hosts' certificate chain, PEM; with it the hosts accept only TLS."),
]
KeyOption = Annotated[Path | None, file_option("The key of --tls-cert, PEM, not encrypted.")]
ClientCaOption = Annotated[
    Path | None,
    file_option(
        "Certificate authorities, PEM; a client needs a certificate that one of them "
        "has signed."
    ),
]
CaOption = Annotated[
    Path | None,
    file_option(
        "Certificate authorities, PEM, that hosts trust for connections to each other; "
        "by default those of --tls-client-ca."
    ),
]
TokensOption = Annotated[
    Path | None,
    file_option("List of tokens and their owners; a client needs one of these tokens."),
]
HostTokenOption = Annotated[
    Path | None, file_option("The token with which hosts connect to each other.")
]
PlaintextOption = Annotated[
    bool,
    typer.Option(
        "--allow-plaintext",
        help="Allow listening beyond loopback without TLS: the traffic can be read and "
        "changed on the way.",
    ),
]
AnonymousOption = Annotated[
    bool,
    typer.Option(
        "--allow-anonymous",
        help="Allow listening beyond loopback without authentication: every client is let in.",
    ),
]
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65_535,
        help="Serve metrics for Prometheus on this port; 0 takes a free port. Without this "
        "option no metrics are served.",
    ),
]
MetricsHostOption = Annotated[
    str,
    typer.Option(
        help="Address on which metrics are served; anyone who reaches it can read them."
    ),
]
ConsoleOption = Annotated[
    str | None,
    typer.Option(
        "--console",
        metavar="HOST:PORT",
        help="Serve live pages for browsers at this address; one that other machines reach "
        "needs --tls-cert, --tls-key and --tokens. With port 0 at a free port. Without this "
        "option there are none.",
    ),
]
BackupsOption = Annotated[
    str | None,
    typer.Option(
        "--backups",
        metavar="PLACE",
        help="Where `backup make` writes; a metric tells when the newest backup was made.",
    ),
]
LogFormatOption = Annotated[
    Literal["text", "json"],
    typer.Option(
        "--log-format",
        help="How the service's processes write their logs: lines for people, or a JSON object "
        "per line.",
    ),
]
TracesOption = Annotated[
    str | None,
    typer.Option(
        "--traces",
        metavar="URL",
        help="Send OpenTelemetry spans of calls to this receiver of OTLP over gRPC, as "
        "http://127.0.0.1:4317; https is TLS. Without this option there are none.",
    ),
]
TracesRatioOption = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1.0,
        help="Which part of the traces that begin at a host is recorded. A call of a traced "
        "program is recorded as that says.",
    ),
]
MetricsPartitionsOption = Annotated[
    int,
    typer.Option(
        min=0,
        help="Maximum number of partitions with metrics of their own; with more partitions "
        "only the totals are served.",
    ),
]


class ServeRequest(NamedTuple):
    """What a user asks of `serve`."""

    store: StoreOptions
    settings: ServiceSettings
    """Without the store and the cluster, which are looked for when it starts."""
    address: str | None = None
    """The Ray cluster to run on; None: a new one on this machine."""
    mirror: bool | None = None
    is_new: bool = False
    metrics: MetricsOptions | None = None
    console: str | None = None


def serve_command(
    store: StoreOption = None,
    cluster: ClusterOption = None,
    limit: LimitOption = 128,
    tombstones: TombstonesOption = "7d",
    hosts: HostsOption = 1,
    partitions_per_host: PartitionsPerHostOption = 4096,
    address: AddressOption = None,
    nodes: NodesOption = 1,
    listen: ListenOption = "127.0.0.1:0",
    advertise: AdvertiseOption = None,
    kafka: KafkaOption = None,
    kafka_config: KafkaConfigOption = None,
    mirror: MirrorOption = None,
    new: NewOption = False,
    breaker: BreakerOption = 50,
    topic_breaker: TopicBreakerOption = 0,
    tls_cert: CertificateOption = None,
    tls_key: KeyOption = None,
    tls_client_ca: ClientCaOption = None,
    tls_ca: CaOption = None,
    tokens: TokensOption = None,
    host_token: HostTokenOption = None,
    allow_plaintext: PlaintextOption = False,
    allow_anonymous: AnonymousOption = False,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    metrics_partitions: MetricsPartitionsOption = 1000,
    backups: BackupsOption = None,
    console: ConsoleOption = None,
    log_format: LogFormatOption = "text",
    traces: TracesOption = None,
    traces_ratio: TracesRatioOption = 1.0,
) -> None:
    """Run the service on a store: a coordinator and its hosts, on a Ray cluster.

    The service writes its address into the store, where every other command and client finds
    it. SIGINT or SIGTERM drain all partitions and end the service with exit status 0.
    """
    from tierledger.actors.coordinator.breaker import BreakerShares
    from tierledger.actors.door.security.settings import DoorSecurity
    from tierledger.actors.door.traces import Traces
    from tierledger.actors.host_settings import ServiceSettings
    from tierledger.events.partition.decide import Limits
    from tierledger.health.server import MetricsOptions

    log_to_stderr(log_format)
    metrics = None
    seen = None if backups is None else backup_files(backups)
    if metrics_port is not None:
        metrics = MetricsOptions(metrics_host, metrics_port, metrics_partitions, backups=seen)
    elif seen is not None:
        raise InvalidArgument("--backups: expected --metrics-port, too")
    security = DoorSecurity(
        certificate=_text(tls_cert),
        key=_text(tls_key),
        client_ca=_text(tls_client_ca),
        tokens=_text(tokens),
        host_token=_text(host_token),
        ca=_text(tls_ca),
        allow_plaintext=allow_plaintext,
        allow_anonymous=allow_anonymous,
    )
    if nodes > 1 and address is None:
        raise InvalidArgument("--nodes: expected --address, too")
    settings = ServiceSettings(
        cluster_id="",
        storage={},
        limits=Limits(limit, duration_ms(tombstones, "--tombstone-retention")),
        hosts=hosts,
        partitions_per_host=partitions_per_host,
        listen=listen,
        advertise=advertise,
        security=security,
        kafka=given_brokers(kafka, kafka_config),
        breaker=BreakerShares(breaker, topic_breaker),
        log_format=log_format,
        traces=None if traces is None else Traces(traces, traces_ratio),
        nodes=nodes,
    )
    chosen = StoreOptions(store, cluster)
    asked = ServeRequest(chosen, settings, address, mirror, new, metrics, console)
    _until_stopped(_Serving(asked))


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


class _Serving(threading.Thread):
    """The service in a thread of its own, since requests to Ray may block for a minute."""

    def __init__(self, asked: ServeRequest) -> None:
        super().__init__(daemon=True)
        self.asked = asked
        self.begun = threading.Event()
        self.address: str | None = None
        """The address of the Ray cluster, once everything has started there."""
        self.error: BaseException | None = None
        self.given_up: str | None = None
        """Why this service cannot go on in this process."""
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    @override
    def run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - Raised where it is waited for.
            self.error = error

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self.begun.set()
        await _serve(self.asked, self)

    async def wait_for_stop(self, address: str) -> None:
        """Return when the service at `address`, which has started, is to end."""
        self.address = address
        async with told_of(f"serving on the Ray cluster at {address}"):
            await self._stopping.wait()

    def give_up(self, reason: str) -> None:
        """Let the process end at once: its Ray cluster is of no use any more."""
        self.given_up = reason

    def stop(self) -> None:
        """End the service, or cancel its start; may be called from any thread."""
        assert self._loop is not None, "it has begun"
        assert self._task is not None, "it has begun"
        how = self._task.cancel if self.address is None else self._stopping.set
        self._loop.call_soon_threadsafe(how)


def _until_stopped(serving: _Serving) -> None:
    """Serve until a signal; then end in order, or at once if Ray is gone or still starting.

    The signals are blocked for processes that Ray starts: they must live until all is drained.

    It ends with `FAILED` if Ray is gone, or of no use any more, and no signal has ended it.
    If files of Ray are deleted, it begins anew with another cluster.

    Raises:
        RemoteStorageError: The service cannot start.
    """
    former = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        # Not before: a signal while Ray is imported may be raised where it is swallowed.
        from tierledger.actors.ray import cluster as ray_cluster
        from tierledger.storage.process_log import LOG

        serving.start()
        serving.begun.wait()
        while serving.is_alive() and not signal.sigpending() & STOPS:
            serving.join(LOOK_S)
            if serving.address is None or signal.sigpending() & STOPS:
                continue
            if ray_cluster.own_cluster_died():
                serving.give_up("the Ray cluster of this service has ended")
            if serving.given_up is not None and not signal.sigpending() & STOPS:
                LOG.put(error_line(StorageUnavailable(serving.given_up)))
                _leave_at_once(ExitStatus.FAILED)
            if (path := ray_cluster.own_cluster_lacks()) is not None:
                anew = (
                    f"{path} was deleted, and Ray starts no host without it: beginning anew, "
                    "with another Ray cluster"
                )
                LOG.put(note_line(anew))
                _begin_anew()
        if serving.is_alive():
            signal.sigwait(STOPS)
            if serving.asked.address is None and serving.address is None:
                # All that has begun ends with Ray, which cannot be left while it starts.
                LOG.put(note_line("stopped before it served: there was nothing to drain"))
                _leave_at_once(ExitStatus.WELL)
            serving.stop()
            lost = threading.Event()
            threading.Thread(target=_watch, args=(serving.address, lost), daemon=True).start()
            while serving.is_alive():
                if lost.wait(LOOK_S) and serving.is_alive():
                    what = "Ray is gone" if serving.address else "Ray is still starting"
                    nothing = f"{what}: nothing was drained; the logs have everything"
                    LOG.put(note_line(nothing))
                    _leave_at_once(ExitStatus.WELL)
    finally:
        while signal.sigpending() & STOPS:
            signal.sigwait(STOPS)  # Sent again meanwhile.
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
    if not isinstance(serving.error, asyncio.CancelledError | None):
        raise serving.error


def _watch(address: str | None, lost: threading.Event) -> None:
    """Set `lost` when the cluster is gone; without an address, when its start took too long."""
    from tierledger.actors.ray import cluster as ray_cluster

    if address is None:
        lost.wait(START_GRACE_S)
    else:
        silences = 0
        while silences < SILENCES and not ray_cluster.own_cluster_died():
            silences = 0 if ray_cluster.cluster_id(address) else silences + 1
            lost.wait(LOOK_S)
    lost.set()


def _leave_at_once(status: int) -> NoReturn:
    """End this process and what it has started, though one of its threads waits for Ray."""
    from tierledger.actors.ray import cluster as ray_cluster
    from tierledger.storage.process_log import end_at_once

    ray_cluster.end_own_cluster()
    end_at_once(status)


def _begin_anew() -> NoReturn:
    """Run the same command in this process, after an end of what it has started.

    The pid and the standard streams stay, so whoever looks after this process need not know.
    """
    from tierledger.actors.ray import cluster as ray_cluster
    from tierledger.storage.process_log import FLUSH_S, LOG, RESULTS

    ray_cluster.end_own_cluster()
    for lines in (LOG, RESULTS):
        lines.flush(FLUSH_S)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)  # The new program inherits the mask.
    os.execve(sys.executable, sys.orig_argv, ray_cluster.ENVIRONMENT)


async def _serve(asked: ServeRequest, serving: _Serving) -> None:
    from tierledger.actors.coordinator.requests import DoorsCall
    from tierledger.actors.door.addresses import url_of
    from tierledger.actors.door.server.host_door import DoorSettings
    from tierledger.actors.ray.cluster import own_ip
    from tierledger.actors.ray.oracle import oracle_of
    from tierledger.actors.ray.service import RayConnection, RayService
    from tierledger.actors.wall_clock import WallClock
    from tierledger.health.server import metrics_served
    from tierledger.moving.broker_versions import OldestVersion
    from tierledger.storage.locate import public_url
    from tierledger.storage.process_log import LOG, RESULTS

    settings, metrics = await _settings(asked), asked.metrics
    oracle_of(settings)  # Refuses a wrong list of addresses.
    if settings.traces is not None:
        settings.traces.check()
    if settings.kafka is not None:
        settings.kafka.client_options()  # Refuses a wrong file.
        await _check_brokers(settings.kafka, settings.cluster_id)
        if not asked.is_new:
            await _check_store(settings.kafka, settings)
    version = OldestVersion(settings.kafka)
    if metrics is not None:
        metrics = metrics._replace(broker=version)
    doors = DoorSettings(settings.listen, settings.advertise, own_ip)
    settings.security.check(doors.listen(0), WallClock().now_ms)
    if asked.address is None:  # Hosts run on this machine only.
        doors.refuse_taken(settings.hosts)
    # The metrics end first. From then on no process may look for the coordinator: one that
    # misses it starts another.
    async with AsyncExitStack() as running, metrics_served(metrics) as served:
        start_console = _prepared_console(asked, settings.cluster_id, running)
        service = RayService(settings, served.address, asked.address, serving.give_up)
        record = await service.start()
        running.push_async_callback(_close, service)
        connection = RayConnection(service.settings)
        served.connect(connection)
        store = public_url(settings.storage["metadata.storage.url"])
        where = f"on the Ray cluster at {record.address}, pid {record.pid}"
        # Asked before the first line: from that line on, a lost cluster ends `serve`.
        found = (await connection.coordinator.ask(DoorsCall())).values()
        url = url_of(found, tls=settings.security.pair is not None)
        if service.made_store:
            LOG.put(note_line(f"{store} is a new, empty store"))
        RESULTS.put(f"serving cluster {settings.cluster_id} from {store} {where}")
        if served.address is not None:
            RESULTS.put(f"metrics at {served.address}")
        RESULTS.put(f"clients come in at {url}")
        start_console()
        async with _following(asked, service.settings, connection, version):
            await serving.wait_for_stop(record.address)


def _prepared_console(
    asked: ServeRequest, cluster: str, running: AsyncExitStack
) -> Callable[[], None]:
    """A function that starts the console; its address is taken now, before what takes long.

    Raises:
        InvalidArgument: It cannot listen there.
    """
    listen, security = asked.console, asked.settings.security
    if listen is None:
        return lambda: None
    from tierledger.actors.door.server.host_door import of_node
    from tierledger.actors.ray.cluster import own_ip
    from tierledger.cli.commands.console.serving import Console, ConsoleSecurity, is_local
    from tierledger.storage.process_log import RESULTS

    shown_to = None
    if not is_local(listen, "--console"):
        advertise = asked.settings.advertise
        name = advertise and of_node(advertise, own_ip)
        shown_to = ConsoleSecurity.of_door(security, name)
    # As hosts come in at each other's doors: whoever starts the service need not be a client.
    own = StoreOptions(asked.store.store, cluster, security.as_client.config)
    pages = Console(own, listen, "--console", shown_to)
    running.callback(pages.close)

    def start() -> None:
        pages.start()
        RESULTS.put(f"console at {pages.url}")

    return start


async def _settings(asked: ServeRequest) -> ServiceSettings:
    """The settings of the service, with its store and cluster."""
    from tierledger.cli.service_settings import service_settings

    try:
        found = await service_settings(asked.store, is_new=asked.is_new)
    except RemoteResourceNotFound as error:
        error.add_note("to add a cluster to this store: --new")
        raise
    return replace(asked.settings, cluster_id=found.cluster_id, storage=found.storage)


async def _check_brokers(brokers: KafkaBrokers, cluster_id: str) -> None:
    """Refuse brokers of another cluster; those that do not answer now are checked later.

    Raises:
        InvalidArgument: They are of another cluster.
    """
    from tierledger.moving.topic import check_cluster, kafka_cluster

    try:
        async with asyncio.timeout(BROKERS_S):
            found = await kafka_cluster(brokers)
    except (TimeoutError, StorageUnavailable):
        return  # They may start after the service, which reports it then.
    try:
        check_cluster(brokers, found.cluster_id, cluster_id)
    except RejectedError as error:
        raise InvalidArgument(f"--cluster: {error}") from None


async def _check_store(brokers: KafkaBrokers, settings: ServiceSettings) -> None:
    """Refuse a store that has nothing of the cluster, if another store owns its metadata.

    Raises:
        StoreRefused: Kafka's metadata topic says so.
    """
    from tierledger.cli.service_settings import was_served
    from tierledger.moving.freshness import TO_DO, seal_of
    from tierledger.storage.locate import public_url

    if await was_served(settings):
        return
    try:
        async with asyncio.timeout(BROKERS_S):
            seal = await seal_of(brokers)
    except (TimeoutError, StorageUnavailable):
        return  # As above; `handover` asks again.
    if seal is not None:
        store = public_url(settings.storage["metadata.storage.url"])
        raise StoreRefused(
            f"{store} has nothing of the cluster {settings.cluster_id}, but {seal}; {TO_DO}. "
            "To start on this store all the same: --new"
        )


async def _close(service: RayService) -> None:
    from tierledger.storage.process_log import LOG

    LOG.put(note_line("stopping: draining partitions"))
    await service.close()


@asynccontextmanager
async def _following(
    asked: ServeRequest,
    settings: ServiceSettings,
    connection: RayConnection,
    version: OldestVersion,
) -> AsyncIterator[None]:
    """Meanwhile import Kafka's metadata topic, or mirror into it, as the owner requires."""
    if settings.kafka is None:
        yield
        return
    from tierledger.actors.ray.cluster import beside, own_node
    from tierledger.moving.following import Following, FollowOptions
    from tierledger.moving.standby import start_standby

    options = FollowOptions(settings.kafka, asked.mirror)
    if asked.address is not None:  # Else nothing outlives this process.
        await beside(lambda: start_standby(settings, options, own_node()))
    following = Following(settings, connection.coordinator, options)
    tasks = [asyncio.create_task(one.run()) for one in (following, version)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
