"""Faults planted in the service itself, each of them a mistake somebody could make.

A world that does not notice them proves nothing. Each mutant replaces one rule while a campaign
runs; the service's own code has no switches.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

from tierledger.simulation.machines.scenario import MOVES_EVERY, MOVES_FIRST
from tierledger.simulation.mutants import feed as feeding
from tierledger.simulation.mutants import leader as leading
from tierledger.simulation.mutants import moving, readers, served, sessions, state, storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Mutant(NamedTuple):
    """One mistake, what replaces what for it, and who has to notice."""

    name: str
    """A number, by which it can be called, and a few words."""
    mistake: str
    caught_by: frozenset[str]
    """Names of the checkers of which one has to find it; any may, if none is named."""
    patches: Callable[[], list[tuple[Any, str, Any]]]
    """Object, attribute and replacement, made when the mutant begins."""
    within: int = 100
    """Seeds of which one has to find it."""
    first: int = 0
    every: int = 1
    """Which seeds those are: from the first on, one in so many."""
    in_service: bool = False
    """Whether it shows in the world of the whole service, and not in that of the machines."""

    def seeds(self, count: int | None = None) -> range:
        """As many as that in which it may show, or those within which it has to."""
        count = self.within if count is None else count
        return range(self.first, self.first + count * self.every, self.every)


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The service with the mistake in it."""
    with ExitStack() as undo:
        for owner, name, replacement in mutant.patches():
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield


_LOG = "CorruptLog lost_write fencing linearizability phantom_write feed_gap two_leaders"
"""What two histories in one log come to."""


def _mutant(
    name: str,
    mistake: str,
    caught_by: str,
    patches: Callable[[], list[tuple[Any, str, Any]]],
    within: int = 100,
) -> Mutant:
    return Mutant(name, mistake, frozenset(caught_by.split()), patches, within)


MUTANTS = (
    _mutant(
        "M01 claim-not-appended",
        "a leader serves under whatever session it finds open in the log",
        "two_leaders",
        leading.claim_not_appended,
    ),
    _mutant(
        "M02 tail-not-replayed",
        "a leader claims behind a tail of the log of which it has read the sessions only",
        "wrong_answer replay_determinism",
        leading.tail_not_replayed,
    ),
    _mutant(
        "M03 claim-not-awaited",
        "a leader takes its session for open once it was sent",
        _LOG,
        leading.claim_not_awaited,
        within=200,
    ),
    _mutant(
        "M04 conflict-not-noticed",
        "the store carries out a step that expected another value",
        "checkpoint_regressed",
        storage.conflict_not_noticed,
        within=500,
    ),
    _mutant(
        "M05 foreign-write-taken-for-own",
        "that the slot exists is success",
        _LOG,
        leading.foreign_write_taken_for_own,
    ),
    _mutant(
        "M06 own-write-taken-for-foreign",
        "what a lost answer left in the slot is not recognised",
        "phantom_write",
        leading.own_write_taken_for_foreign,
        within=500,
    ),
    _mutant(
        "M07 conflict-taken-for-own",
        "a conflict in a slot that is free afterwards is success",
        "CorruptLog",
        leading.conflict_taken_for_own,
        within=500,
    ),
    _mutant(
        "M08 ack-before-durable",
        "writes are acknowledged when they are sent to the store",
        "early_answer",
        leading.ack_before_durable,
    ),
    _mutant(
        "M09 request-ids-forgotten",
        "a repeated request is decided again",
        "lost_write",
        state.request_ids_forgotten,
    ),
    _mutant(
        "M10 request-ids-not-in-checkpoint",
        "who loads a checkpoint does not know which requests were served",
        "duplicate_write lost_write",
        storage.request_ids_not_in_checkpoint,
        within=500,
    ),
    _mutant(
        "M11 checkpoint-ahead-of-log",
        "a checkpoint holds the batch that is still on its way",
        "early_checkpoint",
        storage.checkpoint_ahead_of_log,
        within=200,
    ),
    _mutant(
        "M12 checkpoint-off-by-one",
        "a checkpoint says that the log goes on one batch later than it does",
        "liveness",
        storage.checkpoint_off_by_one,
    ),
    _mutant(
        "M13 batch-after-checkpoint-skipped",
        "the first batch behind a checkpoint is not applied",
        "wrong_answer",
        storage.batch_after_checkpoint_skipped,
    ),
    _mutant(
        "M14 fold-reads-a-clock",
        "a leader stamps what it applies with its host's time",
        "checkpoint_is_fold",
        state.fold_reads_a_clock,
    ),
    _mutant(
        "M15 fold-iterates-a-set",
        "which requests are forgotten is left to the order of a set",
        "checkpoint_is_fold replay_determinism",
        state.fold_iterates_a_set,
    ),
    _mutant(
        "M16 old-assignment-reopens",
        "an assignment that has opened a session opens another",
        "fencing",
        sessions.old_assignment_reopens,
        within=200,
    ),
    _mutant(
        "M17 reads-without-probe",
        "a leader answers reads without a look at the next slot",
        "linearizability fencing",
        leading.reads_without_probe,
        within=500,
    ),
    _mutant(
        "M18 follower-ignores-position",
        "a follower answers behind what its reader has seen",
        "session_reads",
        readers.follower_ignores_position,
    ),
    _mutant(
        "M19 follower-applies-a-gap",
        "a follower goes on behind a batch it did not apply",
        "wrong_answer",
        readers.follower_applies_a_gap,
    ),
    _mutant(
        "M20 follower-regresses-after-restart",
        "a follower answers from its checkpoint before it has read on",
        "session_reads",
        readers.follower_regresses_after_restart,
        within=200,
    ),
    _mutant(
        "M21 tombstones-dropped-early",
        "ids of deleted segments are forgotten at the next checkpoint",
        "early_forgetting",
        state.tombstones_dropped_early,
    ),
    _mutant(
        "M22 zombie-checkpoint",
        "a checkpoint is written whatever stands there",
        "checkpoint_regressed CorruptCheckpoint",
        storage.zombie_checkpoint,
        within=500,
    ),
    _mutant(
        "M23 assignment-given-twice",
        "assignments are counted from those that run",
        "liveness",
        sessions.assignment_given_twice,
    ),
    _mutant(
        "M24 log-time-from-the-clock",
        "log time is what the host's clock says",
        "lifecycle",
        state.log_time_from_the_clock,
    ),
    _mutant(
        "M25 oracle-not-asked",
        "of two claims that cannot be compared the later one wins",
        "unsettled_dispute",
        sessions.oracle_not_asked,
    ),
    _mutant(
        "M26 disputes-not-counted-on",
        "of disputes in a row each counts as the first",
        "lifecycle",
        sessions.disputes_not_counted_on,
        within=200,
    ),
    _mutant(
        "M27 checksums-not-checked",
        "batches are applied as they are read",
        "wrong_answer replay_determinism feed_gap CorruptLog",
        storage.checksums_not_checked,
        within=500,
    ),
    _mutant(
        "M28 refused-claim-stays",
        "a claim that the log refused stays in force",
        "refusal_repeated",
        sessions.refused_claim_stays,
        within=500,
    ),
    _mutant(
        "M29 unreadable-batch-left-out",
        "a batch that does not verify is passed over",
        "wrong_answer replay_determinism feed_gap",
        storage.unreadable_batch_left_out,
        within=500,
    ),
    _mutant(
        "M30 upcaster-loses-a-field",
        "what an older release wrote is brought up to date with one field too few",
        "CorruptCheckpoint",
        storage.upcaster_loses_a_field,
        within=500,
    ),
    _mutant(
        "M31 unknown-format-left-out",
        "what a newer release wrote is passed over",
        "wrong_answer",
        storage.unknown_format_left_out,
        within=200,
    ),
    _mutant(
        "M32 newest-request-ids-forgotten",
        "of a broker's requests the newest are forgotten, not the oldest",
        "unlike_model",
        state.newest_request_ids_forgotten,
    ),
    _mutant(
        "M33 unknown-taken-for-failure",
        "what was not answered did not happen",
        _LOG,
        leading.unknown_taken_for_failure,
        within=500,
    ),
    _mutant(
        "M34 taken-slot-skipped",
        "a leader whose slot is taken takes the next",
        _LOG,
        leading.taken_slot_skipped,
    ),
    _mutant(
        "M35 late-announcement-wins",
        "an older announcement counts if it arrives later",
        "fencing",
        sessions.late_announcement_wins,
        within=200,
    ),
    _mutant(
        "M36 lower-leader-epoch-accepted",
        "a claim wins against a higher leader epoch",
        "fencing",
        sessions.lower_leader_epoch_accepted,
    ),
    _mutant(
        "M37 claim-not-compared",
        "who writes needs no claim as long as somebody leads",
        "fencing",
        sessions.claim_not_compared,
    ),
    _mutant(
        "M38 foreign-session-closed",
        "a broker that leads no more closes whatever session is open",
        "liveness",
        sessions.foreign_session_closed,
    ),
    _mutant(
        "M39 never-probed",
        "a leader says whatever appends nothing without a look at the next slot",
        "linearizability fencing wrong_refusal",
        leading.never_probed,
        within=500,
    ),
    _mutant(
        "M40 quarantine-answers-as-if-fresh",
        "answers from a partition in quarantine are not marked as stale",
        "linearizability fencing session_reads",
        readers.quarantine_answers_as_if_fresh,
        within=500,
    ),
    _mutant(
        "M41 closed-in-the-same-batch",
        "what follows in a batch that closes the session is decided as if it were open",
        "fencing",
        sessions.closed_in_the_same_batch,
        within=200,
    ),
    _mutant(
        "M42 custom-limit-excludes-equal",
        "custom metadata as long as the limit is refused",
        "wrong_refusal",
        state.custom_limit_excludes_equal,
    ),
    _mutant(
        "M43 custom-limit-not-enforced",
        "custom metadata of any length is taken",
        "lifecycle",
        state.custom_limit_not_enforced,
    ),
    _mutant(
        "M44 illegal-transition-accepted",
        "a segment goes from any state to any other",
        "lifecycle",
        state.illegal_transition_accepted,
    ),
    _mutant(
        "M45 deleted-id-comes-back",
        "a segment that was deleted can be added again",
        "lifecycle",
        state.deleted_id_comes_back,
        within=200,
    ),
    _mutant(
        "M46 update-says-another-time",
        "an update is stored with another time than it was given",
        "altered_write",
        served.update_says_another_time,
    ),
    _mutant(
        "M47 other-content-holds-already",
        "a segment that is added again with other content is said to be there",
        "hollow_write",
        served.other_content_holds_already,
    ),
    _mutant(
        "M48 highest-offset-goes-back",
        "the highest offset of an epoch is that of the last segment to finish",
        "unlike_model",
        served.highest_offset_goes_back,
    ),
    _mutant(
        "M49 replaced-claim-forgotten",
        "a claim that another's replaced is not kept in mind",
        "lockout",
        served.replaced_claim_forgotten,
        within=500,
    ),
    _mutant(
        "M50 follower-never-placed-again",
        "a follower of a lost host is never placed again",
        "unfollowed",
        served.follower_never_placed_again,
    ),
    _mutant(
        "M51 ready-too-early",
        "a follower is ready after a read that began before the announcement",
        "early_ready",
        served.ready_too_early,
        within=500,
    ),
    _mutant(
        "M52 never-ready",
        "a follower forgets who waits for it",
        "unready",
        served.never_ready,
    ),
    _mutant(
        "M53 tombstone-stays-in-index",
        "a tombstone that was dropped is still found by its id",
        "replay_determinism",
        served.tombstone_stays_in_index,
    ),
    _mutant(
        "M54 one-checkpoint-only",
        "a leader writes no checkpoint after its first",
        "stalled_checkpoint",
        served.one_checkpoint_only,
    ),
    _mutant(
        "M55 leader-moves-with-each-claim",
        "a leader's next claim is placed on another host",
        "needless_move",
        served.leader_moves_with_each_claim,
    ),
    _mutant(
        "M56 follower-stays-beside-leader",
        "a follower stays on the host where its leader has come",
        "together",
        served.follower_stays_beside_leader,
    ),
    _mutant(
        "M57 waiting-reader-dropped",
        "of those who wait for a position the first is forgotten",
        "unanswered",
        served.waiting_reader_dropped,
    ),
    _mutant(
        "M58 illegal-record-imported",
        "a recorded segment is added over one that is there",
        "wrong_import",
        served.illegal_record_imported,
        within=500,
    ),
    _mutant(
        "M59 former-process-ends-host",
        "a host is given up for the end of a process that it had before",
        "needless_loss",
        served.former_process_ends_host,
        within=500,
    ),
    _mutant(
        "M60 page-moves-without-its-index",
        "the first entry of a page is another, and is not found",
        "lifecycle",
        served.page_moves_without_its_index,
    ),
    _mutant(
        "M61 repeat-appended-again",
        "a repeated request is decided again, and appended although it holds",
        "duplicate_write",
        state.repeat_appended_again,
    ),
    _mutant(
        "M62 chain-not-followed",
        "a follower neither checks nor keeps the hash of what stands before a batch",
        "feed_gap",
        readers.chain_not_followed,
    ),
    _mutant(
        "M63 reads-beside-an-append",
        "a leader answers reads at once while a batch is on its way",
        "linearizability",
        leading.reads_beside_an_append,
        within=500,
    ),
    _mutant(
        "M64 claim-compared-with-nobody",
        "the coordinator fails at a claim to a partition that nobody leads",
        "unforeseen_failure",
        sessions.claim_compared_with_nobody,
    ),
    _mutant(
        "M65 readiness-taken-back-twice",
        "a step fails if an announcement is replaced for which nobody was ready yet",
        "unforeseen",
        readers.readiness_taken_back_twice,
    ),
    *starmap(_mutant, feeding.MISTAKES),
    _mutant(
        "M72 full-host-takes-one-more",
        "a host that has all that it has room for gets one more",
        "crowded",
        sessions.full_host_takes_one_more,
    ),
    _mutant(
        "M73 oldest-claim-stands-again",
        "of the claims that stand when one is given up the oldest is put in force",
        "passed_over",
        sessions.oldest_claim_stands_again,
        within=500,
    ),
    _mutant(
        "M74 anybody-refuses",
        "a claim is taken from its host on another's word that it was refused",
        "needless_move",
        sessions.anybody_refuses,
    ),
    _mutant(
        "M75 import-ends-at-the-hosts-time",
        "the end of an import makes its log as late as its host is",
        "lifecycle",
        sessions.import_ends_at_the_hosts_time,
    ),
    _mutant(
        "M76 waiting-does-not-count",
        "a claim that has waited waits as long again where the host's clock is behind",
        "misdecided",
        sessions.waiting_does_not_count,
        within=500,
    ),
    _mutant(
        "M77 late-registration-fences",
        "a broker's registration that comes late counts as its newest",
        "miscoordinated",
        sessions.late_registration_fences,
    ),
    _mutant(
        "M78 passed-pages-told-again",
        "entries of pages that were to be passed over are told all the same",
        "wrong_table",
        state.passed_pages_told_again,
    ),
    _mutant(
        "M79 late-word-of-the-oracle-counts",
        "the oracle's word on a claim counts for the one that replaced it",
        "wrong_memory",
        sessions.late_word_of_the_oracle_counts,
    ),
    _mutant(
        "M80 kafkas-word-ignored",
        "a claim is taken though Kafka names another broker",
        "against_kafka",
        sessions.kafkas_word_ignored,
    ),
    _mutant(
        "M81 kafkas-epoch-lost",
        "the leader epoch that Kafka names is not announced",
        "against_kafka",
        sessions.kafkas_epoch_lost,
    ),
    _mutant(
        "M82 plugin-let-in-too-early",
        "a broker's plugin is let in while nobody owns the metadata",
        "miscoordinated",
        sessions.plugin_let_in_too_early,
    ),
    _mutant(
        "M83 shadow-let-in-too-late",
        "a broker that decides by Kafka's own manager is let in while tierledger owns",
        "miscoordinated",
        sessions.shadow_let_in_too_late,
    ),
    _mutant(
        "M84 any-word-ends-a-move",
        "a move is ended by whom another one's word began",
        "miscoordinated",
        sessions.any_word_ends_a_move,
    ),
    _mutant(
        "M85 leader-beside-kafkas-manager",
        "a broker leads while Kafka's own manager owns the metadata",
        "miscoordinated",
        sessions.leader_beside_kafkas_manager,
    ),
    _mutant(
        "M86 move-ends-with-a-stranger",
        "a move from Kafka's own manager to tierledger may end with nobody",
        "miscoordinated",
        sessions.move_ends_anywhere,
    ),
    _mutant(
        "M87 unknown-leader-is-another",
        "a claim is refused though Kafka does not know who leads",
        "lockout",
        sessions.unknown_leader_is_another,
    ),
    _mutant(
        "M88 outranked-claim-taken",
        "a claim replaces one in force that has a higher leader epoch",
        "miscoordinated",
        sessions.outranked_claim_taken,
        within=200,
    ),
    *(
        _mutant(*one, within=200)._replace(first=MOVES_FIRST, every=MOVES_EVERY)
        for one in moving.MISTAKES
    ),
)
