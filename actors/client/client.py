"""Kafka's `RemoteLogMetadataManager` for Python programs, on asyncio.

The thirteen operations of the interface in Python's spelling, plus `as_of`. One manager
represents one broker. It registers under a new incarnation. Its writes are accepted only while
the partition's session is the one that its last announcement opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Annotated, Any, Self, TypeAlias

from msgspec import Meta

from tierledger.actors.calls import (
    FOLLOWER,
    LEADER,
    STORAGE,
    Answered,
    CommandCall,
    PartitionKey,
    QueryCall,
)
from tierledger.actors.client.history import PartitionHistory
from tierledger.actors.client.lists import all_rows, pages
from tierledger.actors.client.roles import Roles
from tierledger.actors.client.router import Router
from tierledger.actors.client.service_link import ServiceLink
from tierledger.actors.connection import ServiceConnection
from tierledger.actors.coordinator.events import LeaderItem
from tierledger.actors.deadline import Deadline
from tierledger.actors.discovery.connecting import connect as connect_by_url
from tierledger.actors.host_settings import (
    ServiceSettings,
    broker_of,
    limits_of,
    refuse_near_misses,
    without_prefix,
)
from tierledger.actors.messages import Query
from tierledger.actors.ports import IdSource
from tierledger.actors.queries import LISTS
from tierledger.actors.wall_clock import RandomIds
from tierledger.events import commands as cmd
from tierledger.events.errors import InvalidArgument, NotLeader, NotReady
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.lifecycle import RemoteLogSegmentState
from tierledger.events.log_events import Origin
from tierledger.events.metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)
from tierledger.events.partition.answers import PartitionSummary, metadata_of
from tierledger.events.typed_fields import (
    ITEMS_MAX,
    Count,
    Int32,
    Int64,
    Text,
    checked,
    checked_items,
)
from tierledger.storage.own_process import OwnProcess

EpochByPartition: TypeAlias = Annotated[
    Mapping[TopicIdPartition, Int32], Meta(max_length=ITEMS_MAX)
]
TimeByPartition: TypeAlias = Annotated[
    Mapping[TopicIdPartition, Int64], Meta(max_length=ITEMS_MAX)
]

DEADLINE_S = 30.0
"""Time after which a call fails with the last answer it got; brokers wait without a limit. It
counts from where the call enters, and includes everything that the call waits for."""

ANOTHER_LOOP = (
    "this manager was configured on another event loop: expected calls on that one, or another "
    "manager"
)

READY_PAUSE_S = 0.005
"""Shortest pause between two checks whether partitions are ready."""


class AsyncRemoteLogMetadataManager:
    """Stores and fetches remote log segment metadata, with strong consistency.

    Reads of a partition that this broker leads are linearizable. Others come from a follower,
    never behind what this manager has read or written before.

    Every call ends within the deadline, a list within one deadline per page; only `as_of` takes
    as long as it takes to read the log. A write or announcement that may have been sent by then
    raises `OutcomeUnknown`, one that was not sent a `RetryableError`. Unforeseen errors on the
    way become one of these two, and the next call looks for the service again.

    It belongs to one process and one event loop: in a forked process, and on another loop,
    each call raises `InvalidArgument` at once.
    """

    def __init__(
        self,
        connect: Callable[[ServiceSettings], Awaitable[ServiceConnection]] | None = None,
        ids: IdSource | None = None,
        *,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """A manager that does nothing before `configure`.

        `connect` finds the service; by default it does so by the configured URL.
        """
        self._home = OwnProcess("this manager")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connect = connect or connect_by_url
        self._ids = ids or RandomIds()
        self._deadline_s = deadline_s
        self._request = self._ids.request_id()
        """The registration's id, the same for each retry; ids of questions begin with it."""
        self._router: Router | None = None
        self._settings: ServiceSettings | None = None
        self._roles: Roles | None = None
        self._seen: dict[PartitionKey, int] = {}

    # Life.

    async def configure(self, config: Mapping[str, object]) -> None:
        """Connect to the service for the broker that `config` describes.

        `config` is the map a broker passes (`cluster.id`, `broker.id`, the plugin's settings
        without their prefix) or a broker's file with the prefix `rlmm.config.`. A second call
        is ignored, as Kafka's own manager does.

        Raises:
            InvalidArgument: A setting is missing or wrong, or its name is nearly one of ours;
                or an extra is not installed.
            NoSuchStore: There is no such store.
            NotReady: No service runs on the store, or none was found within the deadline.
            OutcomeUnknown: The service was found and did not answer; call it again.
        """
        self._check_home()
        if self._router is not None:
            return
        plain = without_prefix(config)
        refuse_near_misses(plain)
        broker_id, cluster_id = broker_of(plain)
        settings = ServiceSettings(cluster_id, plain, limits_of(plain))
        link = ServiceLink(lambda: self._connect(settings))
        router = Router(link, self._deadline_s, self._request)
        deadline = router.deadline()
        try:
            await _found(link, deadline)
            self._roles = await Roles.register(router, broker_id, self._request, deadline)
        except BaseException:
            await router.close()
            raise
        self._settings, self._router = settings, router
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Leave the service; this broker's announcements stay in force. Later calls fail."""
        router, self._router = self._router, None
        # In a forked process, and after the end of its loop, there is nothing to close.
        if router is not None and self._home.is_here and not self._loop_has_ended():
            await router.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Notifications.

    async def on_partition_leadership_changes(
        self,
        leader_partitions: Collection[TopicIdPartition],
        follower_partitions: Collection[TopicIdPartition],
        *,
        leader_epochs: Mapping[TopicIdPartition, int] | None = None,
    ) -> None:
        """Announce which partitions this broker leads and follows now; durable on return.

        Repeats of what is in force cost nothing. The sessions open soon after: ask `is_ready`.

        Raises:
            InvalidArgument: An argument names no partition; nothing was announced.
            Fenced: Another manager has registered for this broker since; use that one.
            NotLeader: Another broker leads some of these partitions, by Kafka's answer or its
                leader epoch; all the others were announced.
            RetryableError: Nothing was announced within the deadline.
            OutcomeUnknown: The announcement may be durable; announce it again.
        """
        following = partitions_of(follower_partitions, "follower_partitions")
        given = {} if leader_epochs is None else leader_epochs
        epochs = checked(EpochByPartition, given, "leader_epochs")
        leaders = [
            (bytes(tip.topic_id), tip.partition, tip.topic, epochs.get(tip), None)
            for tip in partitions_of(leader_partitions, "leader_partitions")
        ]
        await self._announce(leaders, following, ())

    async def on_stop_partitions(self, partitions: Collection[TopicIdPartition]) -> None:
        """Announce that this broker no longer hosts `partitions`. Nothing is deleted."""
        await self._announce([], (), partitions_of(partitions, "partitions"))

    async def announce_import(
        self,
        times: Mapping[TopicIdPartition, int],
        followers: Collection[TopicIdPartition],
        cluster: str,
    ) -> None:
        """Lead partitions in order to import recorded history of the Kafka cluster `cluster`.

        `times`: per partition the recorded time (ms) at which its session opens.
        """
        leaders = [
            (bytes(tip.topic_id), tip.partition, tip.topic, None, time)
            for tip, time in checked(TimeByPartition, times, "times").items()
        ]
        following = partitions_of(followers, "followers")
        origin = checked(Text, cluster, "cluster")
        await self._announce(leaders, following, (), origin)

    async def _announce(
        self,
        leaders: Collection[LeaderItem],
        followers: Collection[TopicIdPartition],
        stopped: Collection[TopicIdPartition],
        import_cluster: str | None = None,
    ) -> None:
        roles, deadline = self._roles_known(), self._connected().deadline()
        await roles.announce(leaders, followers, stopped, import_cluster, deadline=deadline)

    def claim_to_lead(self, topic_id_partition: TopicIdPartition) -> cmd.Claim | None:
        """The claim under which this broker writes to the partition; None if it may not."""
        return self._roles_known().claim_to_lead(PartitionKey.of(topic_id_partition))

    async def is_ready(self, topic_id_partition: TopicIdPartition) -> bool:
        """Whether this broker's announcement is in force and its replica has caught up.

        True once the announcement is durable and the replica that this manager asks has
        applied the head of the log that stood then.
        """
        keys = [PartitionKey.of(topic_id_partition)]
        return (await self._roles_known().are_ready(keys, self._connected().deadline()))[0]

    async def when_ready(self, partitions: Collection[TopicIdPartition]) -> None:
        """Return once all `partitions` are ready.

        Raises:
            NotReady: One of them was not ready within the deadline.
        """
        named = partitions_of(partitions, "partitions")
        loop, deadline = asyncio.get_running_loop(), self._connected().deadline()
        waiting = {PartitionKey.of(tip): tip for tip in named}
        while waiting:
            begun = loop.time()
            ready = await self._roles_known().are_ready(list(waiting), deadline)
            items = zip(waiting.items(), ready, strict=True)
            waiting = {key: tip for (key, tip), is_ready in items if not is_ready}
            if waiting and deadline.left_s <= 0:
                tip = next(iter(waiting.values()))
                raise NotReady(f"{tip} was not ready within {self._deadline_s:g} s")
            if waiting:
                # Check during half of the time at most: checks slow the hosts down.
                pause = max(READY_PAUSE_S, loop.time() - begun)
                await asyncio.sleep(min(pause, max(0, deadline.left_s)))

    # Writes.

    async def add_remote_log_segment_metadata(self, metadata: RemoteLogSegmentMetadata) -> int:
        """Store a segment whose copy starts; the position from which that holds. Durable.

        Raises:
            InvalidArgument: The segment's state is not COPY_SEGMENT_STARTED.
            InvalidStateTransition: The id is known with other content, or was deleted.
            Fenced: This broker no longer leads the partition. NotLeader: it never announced.
            RetryableError: The write did not happen within the deadline, and will not.
            OutcomeUnknown: No answer came within the deadline; the write may be durable.
        """
        metadata = checked(RemoteLogSegmentMetadata, metadata, "metadata")
        if metadata.state != RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            raise InvalidArgument(
                f"expected COPY_SEGMENT_STARTED to be added, got {metadata.state.name}"
            )
        tip = metadata.topic_id_partition
        return await self._write(
            tip, lambda claim, origin: cmd.AddSegment(claim, origin, metadata)
        )

    async def update_remote_log_segment_metadata(
        self, update: RemoteLogSegmentMetadataUpdate
    ) -> int:
        """Move a segment on in its lifecycle; the position from which that holds. Durable.

        Raises:
            InvalidArgument: The new state is COPY_SEGMENT_STARTED.
            InvalidStateTransition: The lifecycle has no such step; nothing changed.
            RemoteResourceNotFound: COPY_SEGMENT_FINISHED of an unknown segment. (DELETE_* of
                an unknown segment counts as done.)
            CustomMetadataSizeLimitExceeded: KIP-917; nothing was stored.
            Fenced, RetryableError, OutcomeUnknown: As for adding.
        """
        update = checked(RemoteLogSegmentMetadataUpdate, update, "update")
        if update.state == RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            raise InvalidArgument("expected a state after COPY_SEGMENT_STARTED")
        tip = update.topic_id_partition
        return await self._write(
            tip, lambda claim, origin: cmd.UpdateSegment(claim, origin, update)
        )

    async def put_remote_partition_delete_metadata(
        self, metadata: RemotePartitionDeleteMetadata
    ) -> int:
        """Move the deletion of a whole partition on; as for updates of segments."""
        metadata = checked(RemotePartitionDeleteMetadata, metadata, "metadata")
        tip = metadata.topic_id_partition
        return await self._write(
            tip, lambda claim, origin: cmd.PutPartitionDelete(claim, origin, metadata)
        )

    async def import_records(
        self, topic_id_partition: TopicIdPartition, records: Collection[cmd.ImportedRecord]
    ) -> int:
        """Store recorded history (see `announce_import`), durable; repeats are recognised."""
        given = tuple(checked_items(cmd.ImportedRecord, records, "records"))
        return await self._write(
            topic_id_partition, lambda claim, _: cmd.ImportRecords(claim, given)
        )

    async def _write(
        self, tip: TopicIdPartition, make: Callable[[cmd.Claim, Origin], cmd.Command]
    ) -> int:
        key, router, roles = PartitionKey.of(tip), self._connected(), self._roles_known()
        deadline = router.deadline()
        claim = roles.claim_to_lead(key)
        if claim is None:
            raise NotLeader(f"broker {roles.broker_id} has not announced that it leads {tip}")
        command = make(claim, Origin(roles.broker_id, self._ids.request_id()))
        position: int = await router.change(key, CommandCall(key, command), deadline)
        self._observe(key, position)
        return position

    # Reads.

    async def remote_log_segment_metadata(
        self, topic_id_partition: TopicIdPartition, epoch_for_offset: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The finished segment that holds `offset` in that leader epoch; None if none does.

        Raises:
            RemoteResourceNotFound: The partition is unknown, or its deletion is finished.
            NotReady: The partition is known, but did not answer within the deadline.
        """
        answered = await self._ask(
            topic_id_partition, Query("lookup", epoch_for_offset, offset)
        )
        return self._metadata(topic_id_partition, answered)

    async def highest_offset_for_epoch(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int | None:
        """The highest offset that finished in `leader_epoch`; None if none did. See lookup."""
        answered = await self._ask(topic_id_partition, Query("highest_offset", leader_epoch))
        value: Any = answered.value
        return None if value is None else int(value)

    async def remote_log_size(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int
    ) -> int:
        """Bytes of all segments listed for `leader_epoch`; O(1) (KIP-852). See lookup."""
        answered = await self._ask(topic_id_partition, Query("size", leader_epoch))
        value: Any = answered.value
        return int(value)

    async def next_segment_with_txn_index(
        self, topic_id_partition: TopicIdPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The first segment from `offset` on that may have a transaction index (KIP-1058)."""
        answered = await self._ask(topic_id_partition, Query("next_txn", epoch, offset))
        return self._metadata(topic_id_partition, answered)

    async def partition_summary(self, topic_id_partition: TopicIdPartition) -> PartitionSummary:
        """What the partition holds, in numbers, from one query. See lookup."""
        value: Any = (await self._ask(topic_id_partition, Query("summary"))).value
        return PartitionSummary(*value)

    async def list_remote_log_segments(
        self, topic_id_partition: TopicIdPartition, leader_epoch: int | None = None
    ) -> AsyncIterator[RemoteLogSegmentMetadata]:
        """All segments, or those of `leader_epoch` by start offset, as of one position.

        Pages are fetched as the caller iterates, each within the deadline.

        Raises:
            NotReady: The host closed the list, or was lost; begin it again. See lookup.
        """
        kind = "list" if leader_epoch is None else "list_epoch"
        query = Query(kind, 0 if leader_epoch is None else leader_epoch)
        async for page in self._pages(topic_id_partition, query):
            for row in page:
                yield metadata_of(topic_id_partition, row)

    async def rows(
        self, tip: TopicIdPartition, query: Query, role: str | None = None
    ) -> list[bytes]:
        """All rows of a list, as of one position. It is begun again if its host closed it."""
        query = checked(Query, query, "query")
        if query.kind not in LISTS:
            raise InvalidArgument(f"expected {' or '.join(LISTS)}, got {query.kind!r:.80}")
        deadline = self._connected().deadline()
        return await all_rows(lambda: self._pages(tip, query, role, deadline))

    def _pages(
        self,
        tip: TopicIdPartition,
        query: Query,
        role: str | None = None,
        deadline: Deadline | None = None,
    ) -> AsyncIterator[list[bytes]]:
        """The list's pages; without a `deadline` for all, each page has one of its own."""
        key = PartitionKey.of(tip)
        role = role or self._role(key)
        return pages(
            lambda: self._ask(tip, query, role, deadline),
            lambda cursor: self._connected().next_page(key, role, cursor, deadline),
        )

    def observe(self, topic_id_partition: TopicIdPartition, position: int) -> None:
        """Read this partition at `position` or later from here on."""
        key = PartitionKey.of(topic_id_partition)
        self._observe(key, checked(Int64, position, "position"))

    def _observe(self, key: PartitionKey, position: int) -> None:
        if position > self._seen.get(key, -1):
            self._seen[key] = position

    async def ask(
        self, topic_id_partition: TopicIdPartition, role: str, query: Query
    ) -> Answered:
        """The answer of the partition's `LEADER` or `FOLLOWER`, whatever this broker's role.

        For `STORAGE` the leader answers, or if nobody leads the partition, its log.
        """
        return await self._ask(topic_id_partition, query, role)

    def as_of(
        self,
        topic_id_partition: TopicIdPartition,
        *,
        position: int | None = None,
        time_ms: int | None = None,
    ) -> PartitionHistory:
        """The partition's answers as they were at a position or a time (ms).

        Give exactly one of the two. This process folds the log, not the leader's host.
        """
        self._check_home()
        if self._settings is None:
            raise NotReady("configure the manager first")
        if (position is None) == (time_ms is None):
            raise InvalidArgument("expected a position or a time, and not both")
        return PartitionHistory(
            self._settings,
            checked(TopicIdPartition, topic_id_partition, "topic_id_partition"),
            checked(Count | None, position, "position"),
            checked(Int64 | None, time_ms, "time_ms"),
        )

    async def _ask(
        self,
        tip: TopicIdPartition,
        query: Query,
        role: str | None = None,
        deadline: Deadline | None = None,
    ) -> Answered:
        key, deadline = PartitionKey.of(tip), deadline or self._connected().deadline()
        query = checked(Query, query, "query")
        if role is not None and checked(Text, role, "role") not in {LEADER, FOLLOWER, STORAGE}:
            raise InvalidArgument(
                f"expected {LEADER}, {FOLLOWER} or {STORAGE} for role, got {role!r:.80}"
            )
        position_min = self._seen.get(key, -1)

        def make(role: str) -> QueryCall:
            # 90 % of what is left: the host's reason should arrive before the deadline.
            return QueryCall(key, role, query, position_min, int(deadline.left_s * 900))

        answered: Answered = await self._connected().ask(
            key, role or self._role(key), make, deadline
        )
        self._observe(key, answered.position)
        return answered

    def _role(self, key: PartitionKey) -> str:
        return self._roles_known().role(key)

    def _metadata(
        self, tip: TopicIdPartition, answered: Answered
    ) -> RemoteLogSegmentMetadata | None:
        row: Any = answered.value
        return None if row is None else metadata_of(tip, row)

    def _check_home(self) -> None:
        """Refuse a process or an event loop on which nothing would ever be answered."""
        self._home.check()
        if self._loop is not None and self._router is not None:
            with suppress(RuntimeError):  # Without a running loop nothing is awaited.
                if asyncio.get_running_loop() is not self._loop:
                    raise InvalidArgument(ANOTHER_LOOP)

    def _loop_has_ended(self) -> bool:
        return self._loop is not None and self._loop.is_closed()

    def _roles_known(self) -> Roles:
        self._connected()
        assert self._roles is not None, "a connected manager has registered"
        return self._roles

    def _connected(self) -> Router:
        self._check_home()
        if self._router is None:
            raise NotReady("the manager is not configured, or closed")
        return self._router


def partitions_of(given: object, name: str) -> list[TopicIdPartition]:
    """The partitions that a caller named, all of them checked before any is sent."""
    return checked_items(TopicIdPartition, given, name)


async def _found(link: ServiceLink, deadline: Deadline) -> None:
    try:
        with deadline.bound():
            await link.ready()
    except TimeoutError:
        raise NotReady(f"no service was found within {deadline.seconds:g} s") from None
