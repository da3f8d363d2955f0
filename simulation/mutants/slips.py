"""Slips: small mistakes as people make them, each one replaced piece of a function's text.

Each is planted by itself, and any checker may find it; together they measure how much the
simulator notices. `mutants` are chosen the other way round: each checker has one that it must
find.
"""

from __future__ import annotations

from typing import Any

from tierledger.actors.client.retries import Retries
from tierledger.actors.coordinator import decide as coordinator_decide
from tierledger.actors.coordinator import displaced, refusals
from tierledger.actors.coordinator import evolve as coordinator_evolve
from tierledger.actors.coordinator import placement as places
from tierledger.actors.coordinator.machine import Coordinator
from tierledger.actors.coordinator.purges import Purges
from tierledger.actors.coordinator.state import CoordinatorState
from tierledger.actors.door.server.desk import Desk
from tierledger.actors.feed.replica import Replica
from tierledger.actors.feed.source import FeedSource
from tierledger.actors.follower import Follower
from tierledger.actors.host.machine import HostMachine
from tierledger.actors.host.partition_shell import PartitionShell
from tierledger.actors.host.placement_order import PlacementOrder
from tierledger.actors.host.store_queues import SlotReader
from tierledger.actors.hosted_backend import HostedBackend
from tierledger.actors.leader import batch as leader_batch
from tierledger.actors.leader.checkpoints import Checkpoints
from tierledger.actors.leader.claim import WaitingClaims
from tierledger.actors.leader.machine import Leader
from tierledger.events.partition import answers, decide, evolve, placement
from tierledger.events.partition import imports as decide_import
from tierledger.events.partition import sessions as decide_session
from tierledger.events.partition.overlay import Overlay
from tierledger.events.partition.state import PartitionState, Tombstones
from tierledger.events.tables import segment_rows
from tierledger.events.tables.epoch_tables import EpochTables
from tierledger.events.tables.paged_map import Page, PagedMap
from tierledger.events.tables.spilled_map import SpilledPage
from tierledger.simulation.mutants.catalogue import Mutant
from tierledger.simulation.mutants.rewriting import rewritten
from tierledger.storage.partition import event_log
from tierledger.storage.partition.checkpoint import CheckpointStore, CheckpointWriter


def _slip(number: int, mistake: str, function: Any, old: str, new: str) -> Mutant:  # noqa: ANN401
    where = function.__qualname__.lower().replace("_", "-")
    return Mutant(
        f"S{number:02} {where}", mistake, frozenset(), lambda: rewritten(function, old, new)
    )


_NOTICED_BY_NOBODY = (
    (
        "a follower of a lost host is never placed again",
        CoordinatorState.review,
        "bool(entry.followers) and entry.follower_host is None",
        "False",
    ),
    (
        "a follower is ready after a read that began before the announcement",
        Follower._slot_read,
        "if read.number == self.next_batch and read.value is None:",
        "if True:",
    ),
    (
        "a dropped tombstone stays in the id index",
        Tombstones.drop_at,
        "self._positions.drop(hash(value[:ID_BYTES]), position)",
        "pass",
    ),
    (
        "a checkpoint's conflict is always taken for one's own write",
        PartitionShell._write_checkpoint,
        "standing is Standing.OURS, standing is Standing.LESS",
        "True, False",
    ),
)
"""Slips that neither tests nor the simulator had found before."""

_EVENTS = (
    (
        "the newest request ids are forgotten, not the oldest",
        evolve.evolve_each,
        "list(kept)[:-REQUESTS_KEPT]",
        "list(kept)[REQUESTS_KEPT:]",
    ),
    ("log time is not kept", evolve.evolve_each, "state.log_time_ms = log_time_ms", "pass"),
    (
        "the bytes of the former state stay counted",
        evolve._segment_updated,
        "totals[was] -= size",
        "pass",
    ),
    (
        "finishing again keeps the position of the first time",
        evolve._segment_updated,
        "fields[FINISHED_AT] = event.position",
        "fields[FINISHED_AT] = fields[FINISHED_AT] if again else event.position",
    ),
    (
        "a closed session counts as open",
        evolve._session_closed,
        "is_open=False",
        "is_open=True",
    ),
    (
        "a deleted partition keeps its tombstones",
        evolve._partition_delete_updated,
        "state.tombstones = Tombstones()",
        "pass",
    ),
    (
        "one tombstone too few is dropped",
        evolve._tombstones_dropped,
        "oldest(body.ids)",
        "oldest(body.ids - 1)",
    ),
    (
        "a copy that never finished cannot be cleaned up",
        decide._update,
        "    if row is None:\n        if target",
        "    if row is None or row[19] == 0 and target == 2:\n        if target",
    ),
    (
        "an update that differs in its time alone counts as held already",
        decide._update,
        "before == [target, update.broker_id, update.event_timestamp_ms, custom]",
        "now[:2] + now[3:] == [target, update.broker_id, custom]",
    ),
    (
        "adding a known segment with other content counts as held already",
        decide._add,
        "if row == pack_row(started_fields(body)):",
        "if row:",
    ),
    (
        "ids are remembered half as long",
        decide._decided,
        "limits.tombstone_retention_ms",
        "limits.tombstone_retention_ms // 2",
    ),
    (
        "the record where an import goes on is taken over twice",
        decide_import.import_events,
        "item.offset <= view",
        "item.offset < view",
    ),
    (
        "records of one batch do not see each other's offsets",
        Overlay._note_source,
        'self._imported[(cluster or "", source[0])] = source[1]',
        "pass",
    ),
    (
        "an added copy of what is there is imported",
        decide_import._added,
        "if not is_valid_segment_transition(_state_of(view, segment_id), metadata.state):",
        "if False:",
    ),
    (
        "a batch does not see what it has deleted itself",
        Overlay._note_update,
        "self._deleted[body.segment_id] = event.position",
        "pass",
    ),
    (
        "a batch does not see what it has updated itself",
        Overlay._note_update,
        "self._changes.setdefault(body.segment_id, []).append(body)",
        "pass",
    ),
    (
        "a batch does not see that it has closed the session",
        Overlay.note,
        "self.session = self.session._replace(is_open=False)",
        "pass",
    ),
    (
        "an oracle's answer from before the dispute counts",
        decide_session._verdict,
        "verdict.leader_epoch < max(known, default=-1)",
        "verdict.leader_epoch < -1",
    ),
    (
        "disputes in a row are not counted on",
        decide_session._in_a_row,
        "return run.in_a_row",
        "return 0",
    ),
    (
        "a claim whose session was closed opens another",
        decide_session._refuse_outdated,
        "if not session.is_open and",
        "if session.is_open and",
    ),
    (
        "the first entry of a page moves, and its index does not",
        PagedMap.set,
        "page.first = self._firsts[at] = key",
        "page.first = key",
    ),
    ("a split page keeps its size", PagedMap._split, "page.size = len(keys)", "pass"),
    (
        "a page from which an entry went is not stored again",
        PagedMap.delete,
        "self.changed.add(page.number)",
        "pass",
    ),
    (
        "the pages of a snapshot are changed in place",
        PagedMap.snapshot,
        "self._owner = object()",
        "copy._owner = self._owner",
    ),
    (
        "the entry behind the last of a page is not found",
        PagedMap.above,
        "at : at + 2",
        "at : at + 1",
    ),
    ("a copied page shares its entries", Page.copy, "list(self.keys)", "self.keys"),
    (
        "a segment of two epochs holds one offset too many",
        segment_rows.end_in_epoch,
        "- 1",
        "- 0",
    ),
    (
        "a segment that ends with another does not supersede it",
        placement._reference_over,
        "highest > end",
        "highest >= end",
    ),
    (
        "the segment before one that goes stays hidden",
        placement.unreference,
        "_review_before(state, epoch, tables, start)",
        "pass",
    ),
    (
        "a deleted segment's bytes stay in its epoch",
        placement.unlist,
        "tables.size -= size",
        "pass",
    ),
    (
        "the highest offset of an epoch is the last one's",
        placement.reference,
        "if highest is None or end > highest:",
        "if True:",
    ),
    (
        "a miss looks at the last page of hidden segments alone",
        EpochTables.holders,
        "hidden.page_at(until), -1, -1",
        "hidden.page_at(until), hidden.page_at(until) - 1, -1",
    ),
    (
        "pages with a transaction index are skipped",
        answers._run_end,
        "if not whole or not fields[TXN_EMPTY]:",
        "if not whole:",
    ),
)

_ACTORS = (
    (
        "a refusal ends the doubt about an earlier attempt",
        Leader._append_refused,
        "if flight.sent.refused() is NextStep.LOOK_LATER:",
        "if False:",
    ),
    (
        "claims of a batch that was refused are not tried again",
        Leader._append_refused,
        "if not again:",
        "if True:",
    ),
    (
        "a leader that stops refuses what is on its way",
        Leader._stop_arrived,
        "not (self._in_flight or self._has_claimed)",
        "self._in_flight",
    ),
    (
        "a claim does not call a leader back that is being let go",
        Leader._stays_for,
        "self._stop = None",
        "pass",
    ),
    (
        "a leader leads before it has read to the log's end",
        Leader._log_read,
        "if stimulus.batches and not stimulus.is_end:",
        "if False:",
    ),
    (
        "a second checkpoint begins while the first is written",
        Checkpoints.due,
        "if self.is_writing or",
        "if",
    ),
    (
        "a leader writes one checkpoint",
        Checkpoints.done,
        "self.is_writing = False",
        "self.is_writing = done.stored",
    ),
    (
        "claims that wait are dropped when the session changes",
        WaitingClaims.release,
        "waiting = sorted(self._of_broker.values(), key=lambda one: one.command.assignment)",
        "waiting = []",
    ),
    (
        "a refused claim is not reported if the store was away",
        leader_batch.unkept,
        "[*refusals(replies, error), *kept]",
        "refusals(replies, error)",
    ),
    (
        "a hint of the next position is taken for an old one",
        Follower._hinted,
        "position <= self.position",
        "position <= self.position + 1",
    ),
    (
        "readers that still wait are dropped when others are served",
        Follower._serve,
        "q.position_min > self.position]",
        "q.position_min > self.position + 1]",
    ),
    (
        "a follower is ready for a claim as soon as another replaces it",
        Follower._assigned,
        "self._ready.discard(former)",
        "self._ready.add(claim)",
    ),
    (
        "a read that waits for a position is not refused at the quarantine",
        Follower._quarantine,
        "for query in waiting",
        "for query in waiting[1:]",
    ),
    (
        "a leader lost with its host keeps its number",
        coordinator_evolve._host_lost,
        "entry.leadership._replace(assignment=0)",
        "entry.leadership",
    ),
    (
        "a late release removes what was placed after it",
        coordinator_evolve._released,
        "until=number",
        "until=number + 5",
    ),
    (
        "a claim that was replaced is forgotten",
        coordinator_evolve._announced,
        "entry.displaced[entry.leadership.claim.broker_id] = entry.leadership",
        "pass",
    ),
    (
        "a broker that follows keeps its claim to lead",
        coordinator_evolve._resign,
        "entry.leadership, claim = None, led.claim",
        "claim = led.claim",
    ),
    (
        "a coordinator that starts forgets the followers",
        coordinator_evolve.standing_work,
        "if role == FOLLOWER:",
        "if False:",
    ),
    (
        "a follower is placed beside its leader",
        places._Placing.follow,
        "led_from = self.homes.get(key, entry.leader_host)",
        "led_from = None",
    ),
    (
        "a leader's next claim is placed on another host",
        places._Placing.lead,
        "if home is None or home in self.closed.emptied:",
        "if True:",
    ),
    (
        "a new life of a broker does not announce that it follows",
        coordinator_decide._follows,
        "claim is None or claim.incarnation != given.incarnation",
        "claim is None",
    ),
    (
        "a new life of a broker does not announce that it leads",
        coordinator_decide._leads,
        "(led.claim.broker_id, led.claim.incarnation) == (given.broker_id, given.incarnation)",
        "led.claim.broker_id == given.broker_id",
    ),
    (
        "a report of any host that a claim was refused counts",
        refusals.leader_refused,
        "if entry.leader_host != host:",
        "if False:",
    ),
    (
        "of the claims that stand the oldest is put in force",
        displaced._last_standing,
        "reversed(entry.displaced.items())",
        "entry.displaced.items()",
    ),
    (
        "a host is given up for the end of its former process",
        coordinator_decide.host_lost,
        "process not in {None, known}",
        "False",
    ),
)

_STORAGE = (
    (
        "rows beyond the first page are not loaded",
        CheckpointStore._load_rows,
        "if len(found) < ROWS_PER_READ:",
        "if True:",
    ),
    (
        "the first changed row is not stored",
        CheckpointStore._changes,
        "sorted(shard)",
        "sorted(shard)[1:]",
    ),
    (
        "an epoch that has become empty is not stored",
        CheckpointStore.freeze,
        "whole or tables.changed",
        "whole or (tables.changed and tables.size)",
    ),
    (
        "segments that left are not found by id after a load",
        CheckpointStore._load_departed,
        "departed.index(position, entry)",
        "pass",
    ),
    (
        "a checkpoint that is further is written over",
        CheckpointWriter._standing,
        "Standing.LESS if position < plan.next_position else Standing.AS_MUCH",
        "Standing.LESS",
    ),
    (
        "a batch of several events chains to its first",
        event_log.encode_batch,
        "EncodedBatch(value, previous)",
        "EncodedBatch(value, chain(stored[0]))",
    ),
    (
        "disputes in a row are forgotten by a load",
        PartitionState.restore_head,
        "None if run is None else DisputeRun(*run)",
        "None",
    ),
    (
        "rows that were there before count on",
        PartitionState.settle,
        "if before is not None:",
        "if before is not None and after is None:",
    ),
    (
        "what was imported is forgotten by a load",
        PartitionState.restore_head,
        "{(cluster, at): offset for cluster, at, offset in imported}",
        "{}",
    ),
)

_LATER = (
    (
        "the first tombstone that a batch keeps counts as dropped in it",
        Overlay.is_deleted,
        "position >= self._tombstones_dropped_below",
        "position > self._tombstones_dropped_below",
    ),
    (
        "a segment that ends where the next begins is not found behind it",
        placement._hide_if_overlapped,
        "end >= following[0]",
        "end > following[0]",
    ),
    (
        "a lost segment is listed before Kafka's own of the same start",
        answers.list_epoch,
        "behind[:START_BYTES] < entry[:START_BYTES]",
        "behind[:START_BYTES] <= entry[:START_BYTES]",
    ),
    (
        "strays outlive the deletion of their partition",
        evolve._partition_delete_updated,
        "state.rows, state.epochs, state.strays = SegmentRows(), {}, {}",
        "state.rows, state.epochs = SegmentRows(), {}",
    ),
    (
        "a page is removed under the number that the next one took over",
        PagedMap._insert_page,
        "number = self.dropped.pop()",
        "number = min(self.dropped)",
    ),
    (
        "a claim of the leader epoch that another broker leads in replaces it",
        decide_session._against,
        "ours > theirs",
        "ours >= theirs",
    ),
    (
        "what a checkpoint that failed held is not written again",
        CheckpointWriter.freeze,
        "self.is_whole = True",
        "self.is_whole = self.is_whole",
    ),
    (
        "a read that fills its limit is taken for the log's end",
        event_log.BatchLog.page,
        "len(found) < limit",
        "len(found) <= limit",
    ),
    (
        "a look that the store did not answer counts as one",
        Leader._probe_failed,
        "unkept(replies, failed.error)",
        "replies",
    ),
    (
        "an oracle's answer to an earlier question counts for a later claim",
        WaitingClaims.answered,
        "waiting is None or waiting.number != answer.number",
        "waiting is None",
    ),
    (
        "a broker that repeats its announcement is refused as out of date",
        coordinator_decide.announce,
        "if pair < last:",
        "if pair <= last:",
    ),
    (
        "of the brokers that one replica follows for all but the first are late",
        PlacementOrder.is_late,
        "number <= known if placement.role == LEADER else number < known",
        "number <= known",
    ),
    (
        "a full host takes one more",
        places._Room.least,
        "load >= self._bound",
        "load > self._bound",
    ),
    (
        "a refusal is raised in place of the doubt about an earlier attempt",
        Retries.failed,
        "self.doubt = error",
        "pass",
    ),
)
"""Planted after the worlds and checkers were done; none of those was changed for these."""

_FRESH = (
    (
        "an import's session is closed at the host's time",
        decide._decided,
        "if view.session is not None and view.session.import_cluster is not None:",
        "if False:",
    ),
    (
        "an id that comes back in the batch that buried it is forgotten with the others",
        Overlay._note_return,
        "self._buried.pop(position, None)",
        "pass",
    ),
    (
        "a batch does not see its own disputes",
        Overlay.note,
        "self.dispute_run = run_after(event, body, self.dispute_run)",
        "pass",
    ),
    (
        "what a claim has waited does not count against a clock that is behind",
        decide_session._back_off,
        "max(waited_ms, now_ms - run.log_time_ms)",
        "(now_ms - run.log_time_ms)",
    ),
    (
        "the leader epoch that the oracle named is not kept",
        decide_session._against,
        "return max(known, default=None), []",
        "return ours, []",
    ),
    (
        "bytes of a started copy that is added over stay counted",
        evolve._segment_added,
        "size - before[SIZE]",
        "size",
    ),
    (
        "sizes of epochs in which an id was left are not lowered",
        placement._keep_strays,
        "state.epochs[epoch].size -= before[SIZE]",
        "pass",
    ),
    (
        "a hidden segment that is being deleted is found still",
        placement.unreference,
        "if tables.hidden.pages:",
        "if False:",
    ),
    (
        "of the hidden segments that hold an offset the first to finish answers",
        answers.lookup,
        "candidate[0] > best[0]",
        "candidate[0] < best[0]",
    ),
    (
        "pages that overlap are listed as one sorted run",
        answers._runs,
        "if not stretch or found[0] < end:",
        "if not stretch:",
    ),
    (
        "whatever checkpoint stands is expected by the next one",
        CheckpointWriter.found,
        "if standing is not Standing.AS_MUCH:",
        "if True:",
    ),
    (
        "an append without an answer is not held for uncertain",
        Leader._append_answered,
        "self._in_flight = flight._replace(sent=flight.sent.in_doubt())",
        "pass",
    ),
    (
        "readers hear nothing of a leader that leaves",
        Leader._leave,
        "effects += [msg.ReplyError(query.reply_to, error) for query in self._queries]",
        "pass",
    ),
    (
        "what is tried again after a refusal is tried in reverse",
        Leader._append_refused,
        "for one in reversed(again)",
        "for one in again",
    ),
    (
        "a finished deletion is served by nobody",
        Leader._log_read,
        "self._has_claimed = state.is_finished",
        "self._has_claimed = False",
    ),
    (
        "a broker that gives up a claim gives up its newer one, too",
        WaitingClaims.withdraw,
        "if waiting is not None and waiting.command.claim == claim:",
        "if waiting is not None:",
    ),
    (
        "a leader that was placed stays among those to place",
        coordinator_evolve._leaders_placed,
        "state.review(key, entry)",
        "pass",
    ),
    (
        "a partition that was released keeps its seats",
        coordinator_evolve._release,
        "state.seat(key, entry, role, None)",
        "pass",
    ),
    (
        "an announcement that changed nothing is forgotten",
        coordinator_decide.announce,
        "for known in (state.announced, state.heard)",
        "for known in (state.announced,)",
    ),
    (
        "the holder's claim stays among those that were replaced",
        refusals.give_back,
        "entry.displaced.pop(body.holder[0], None)",
        "pass",
    ),
    (
        "a replica is sent `Ready` before it was sent what that needs",
        FeedSource._news_of_claim,
        "one.slices is not None or one.given[0] < one.ready_at",
        "one.slices is not None",
    ),
    (
        "an epoch's numbers in a snapshot replace those of a later change",
        Replica._change,
        "self._newer.update(numbers.epoch for numbers in one.contents.epochs)",
        "pass",
    ),
    (
        "a page that is appended to keeps the summary of its entries",
        PagedMap.append,
        "page.summary = None",
        "pass",
    ),
    (
        "the entry before a key is the key's own",
        PagedMap.below,
        "bisect_left(page.keys, key) - 1",
        "bisect_right(page.keys, key) - 1",
    ),
)
"""Written, like the next ones, before anybody tried whether they are found."""

_HELD_BACK = (
    (
        "a closed session takes writes still",
        decide._require_session,
        "if session is None or not session.is_open:",
        "if session is None:",
    ),
    (
        "a batch does not see the announcements that its sessions have heard",
        Overlay.note,
        "self._heard[body.broker_id] = (body.incarnation, body.announcement)",
        "pass",
    ),
    (
        "the older of two former rows is lost for replicas",
        PartitionState.settle,
        "self.pending | self.touched",
        "self.touched | self.pending",
    ),
    (
        "what a damaged checkpoint left is not removed",
        CheckpointStore._in_place_of_all,
        "elif key not in wanted and key != guard.key:",
        "elif False:",
    ),
    (
        "a batch counts as one event towards the next checkpoint",
        Leader._stored,
        "self._checkpoints.applied(len(flight.events))",
        "self._checkpoints.applied(1)",
    ),
    (
        "a claim that waits again forgets how long it has waited",
        WaitingClaims.hold,
        "waited_ms=command.waited_ms + delay_ms",
        "waited_ms=delay_ms",
    ),
    (
        "a closed session is named as the one that a refused claim met",
        leader_batch._rejected,
        "session if session is not None and session.is_open else None",
        "session",
    ),
    (
        "announcements are forgotten for which a look failed",
        Follower._look_failed,
        "self._awaiting_end, self._looking = self._looking + self._awaiting_end, []",
        "self._looking = []",
    ),
    (
        "a claim of a broker's earlier life stands again",
        displaced._last_standing,
        "if is_alive and is_open",
        "if is_open",
    ),
    (
        "a registration that comes late fences the one after it",
        coordinator_decide.register,
        "after != newest or ",
        "",
    ),
    (
        "a source that starts anew forgets how far its replicas were",
        FeedSource.restarted,
        "one.floor = max(one.floor, one.given[0])",
        "pass",
    ),
    (
        "a replica stays ready when its broker announces itself anew",
        Replica.expect,
        "self.claim, self.is_ready = claim, False",
        "self.claim = claim",
    ),
)
"""A random third of these, held back until the gaps that the others showed were closed."""

_HOSTS = (
    (
        "an older placement takes the place of a leader that ended",
        HostMachine._ended,
        "self.order.ended(life.key, life.assignment)",
        "pass",
    ),
    (
        "the end of a leader is not reported",
        HostMachine._ended,
        "self.lost[life.key] = life.assignment",
        "pass",
    ),
    (
        "a leader that is here again is still reported as lost",
        HostMachine._placed,
        "self.lost.pop(placement.key, None)",
        "pass",
    ),
    (
        "a claim is reported as refused though a newer one was placed",
        HostMachine._placed,
        "self.refused.pop(placement.key, None)",
        "pass",
    ),
    (
        "a load that is over keeps its room",
        HostMachine._loaded,
        "self.loading.pop(life.number, None)",
        "pass",
    ),
    (
        "a load that was given up keeps its room",
        HostMachine._forget,
        "self.loading.pop(life.number, None)",
        "pass",
    ),
    (
        "loads that wait do not begin when another is over",
        HostMachine._loaded,
        "return self._load_next()",
        "return []",
    ),
    (
        "a newer claim is not noted of what runs",
        HostMachine._placed,
        "        life.assignment = assignment.number\n        if",
        "        if",
    ),
)
"""Slips in the host's own machine."""

_REFUSALS = (
    (
        "a claim is put in force again that was given up before its refusal was reported",
        refusals.leader_refused,
        "holder < entry.stopped.get(holder.broker_id, holder)",
        "False",
    ),
)
"""A mistake of the service's own, found after 70,000 seeds."""

_PLACED_TOGETHER = (
    (
        "what was announced beside the loss of a host is placed where it was, on that host",
        Coordinator._place_decided,
        "if self.state.unplaced or not self.state.hosts.items() <= draft.hosts.items():",
        "if self.state.unplaced:",
    ),
)
"""A slip in placing in the append that holds the announcement."""

_KEPT = (
    (
        "a page that has changed since it was read is taken out of memory as it was",
        SpilledPage.close,
        "self.summary is not _SPILLED",
        "self._number is None",
    ),
)
"""A slip in what is kept from deletion, which is not in memory."""

_REPLACED_WRITER = (
    (
        "a slot is taken for free as a replaced writer knows it",
        SlotReader._found,
        "await self._backend.last_keys(",
        "await self._backend.last_keys_seen(",
    ),
    (
        "room on open hosts is not counted before further hosts are called for",
        places.hosts_wanted,
        "crowded = max(0, crowded - unused)",
        "pass",
    ),
    (
        "a writer that was replaced counts as a damaged store",
        HostedBackend._ask,
        "raise StorageUnavailable(",
        "raise WriterReplaced(",
    ),
)
"""Slips around a writer's successor, and around further hosts."""

_COPIED = (
    (
        "the first checkpoint of a state that was a follower's has only what changed since",
        CheckpointWriter.begin_with_copy,
        "self.stored, self.is_whole = stored, True",
        "self.stored = stored",
    ),
    (
        "what no checkpoint has of a follower's state does not count for the next one",
        Checkpoints.begin,
        "self._events += uncovered or 0",
        "pass",
    ),
    (
        "a leader has the rows of the follower whose state it began with",
        PartitionState.copy,
        "self.rows.snapshot()",
        "self.rows",
    ),
)
"""Slips in leaders that begin with the state of a follower."""

_OF_A_STRANGER = (
    (
        "the lease of a purge is not kept",
        evolve._segment_purge_started,
        ", lease_until_ms=body.lease_until_ms",
        "",
    ),
    (
        "a batch does not see the bytes that it lets go",
        Overlay._note_update,
        "self._ended_bytes += unpack_row(stored)[SIZE]",
        "pass",
    ),
    (
        "a leader that is to stop stays if it is quarantined before",
        Leader._quarantine,
        "return effects if self._stop is None else effects + self._leave(msg.STOPPED)",
        "return effects",
    ),
    (
        "a leader begins with what a failed step has left in its follower",
        Follower.standby,
        "self.state is None or self._trouble is not None",
        "self.state is None",
    ),
    (
        "each look for what is due begins at the first that is kept",
        Purges._start,
        "one._replace(after=found.after)",
        "one",
    ),
    (
        "a door keeps a route that has led to a refusal",
        Desk._passed_on,
        "if answer.failure.fate in PASSED_ON:",
        "if False:",
    ),
)
"""Planted by somebody who had seen neither worlds nor checkers."""

SLIPS = tuple(
    _slip(number, *given)
    for number, given in enumerate(
        (
            *(*_NOTICED_BY_NOBODY, *_EVENTS, *_ACTORS, *_STORAGE),
            *(*_LATER, *_FRESH, *_HELD_BACK, *_HOSTS, *_REFUSALS, *_PLACED_TOGETHER, *_KEPT),
            *(*_REPLACED_WRITER, *_COPIED, *_OF_A_STRANGER),
        ),
        1,
    )
)
