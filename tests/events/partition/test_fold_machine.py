"""The core's whole way (decide, encode, decode, evolve) against the slow model.

Broker's commands and imported records alternate on one partition. The slow model folds what was
accepted; replicas fold what was stored, in batches of their own.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from tests.models.compared_answers import assert_same_answers
from tests.models.driven_partition import (
    GENESIS,
    TIP,
    DrivenPartition,
    command_of,
    fold,
    import_of,
    open_session,
)
from tests.models.histories import (
    EPOCHS_PROBED,
    IDS,
    OFFSETS_PROBED,
    START_OFFSET_MAX,
    Step,
    adds,
    lives,
    odd_spans,
    partition_deletes,
    shorter_at_the_same_key,
    spans,
    unclean_elections,
    updates,
    uploads,
)
from tests.models.slow_model import Add, Record, SlowPartition, Update
from tierledger.events import commands as cmd
from tierledger.events.errors import Fenced, PartitionDeleted
from tierledger.events.log_events import Origin, TombstonesDropped
from tierledger.events.partition.decide import Accepted, Limits
from tierledger.events.partition.invariants import check
from tierledger.events.partition.state import PartitionState

LIMITS = Limits(custom_metadata_bytes_max=5, tombstone_retention_ms=100)
SOME_OFFSETS = range(0, START_OFFSET_MAX, 3)


class FoldMachine(RuleBasedStateMachine):
    """One partition that is written to and imported into, its model and a lagging replica."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = DrivenPartition(LIMITS)
        self.model = SlowPartition()
        self.replica = PartitionState(TIP, GENESIS)
        self.claim = cmd.Claim(1, 1, 0)
        self.now_ms = 0
        self.assignment = 0
        self.requests = 0
        self.imported: list[Record] = []

    @initialize(imports=st.booleans())
    def lead(self, imports: bool) -> None:
        self.open(imports=imports)

    def open(self, *, imports: bool) -> None:
        self.assignment += 1
        claim = self.claim._replace(announcement=self.claim.announcement + 1)
        command = open_session(claim, self.assignment, imports=imports)
        if self.model.deleted:
            self.partition.refuse(command, self.now_ms)
        else:
            self.partition.accept(command, self.now_ms)
            self.claim = claim

    @rule()
    def lead_by_another_kind_of_session(self) -> None:
        session = self.partition.state.session
        self.open(imports=session is None or session.import_cluster is None)

    @rule(record=adds(spans()) | adds(odd_spans()))
    def add(self, record: Add) -> None:
        self.write(record)

    @rule(record=updates())
    def update(self, record: Update) -> None:
        self.write(record)

    @rule(
        step=st.one_of(
            lives(odd=False),
            lives(odd=True),
            uploads(),
            shorter_at_the_same_key(),
            unclean_elections(),
        )
    )
    def several(self, step: Step) -> None:
        for record in step:
            self.write(record)

    @rule(step=partition_deletes(), really=st.integers(0, 9))
    def delete_partition(self, step: Step, really: int) -> None:
        if really == 0:
            self.write(step[0])

    def write(self, record: Record) -> None:
        """By whatever kind of session is open: as a record of history, or as a command."""
        session = self.partition.state.session
        if session is not None and session.import_cluster is not None:
            accepted = self.partition.accept(
                import_of([record], len(self.imported), self.claim), self.now_ms
            )
            self.imported.append(record)
            assert len(accepted.events) == 1
            self.model.apply(record)
            return
        self.requests += 1
        origin = Origin(self.claim.broker_id, self.requests.to_bytes(8, "big"))
        command = command_of(record, self.claim, origin)
        before = self.partition.state.next_position
        decision = self.partition.apply(command, self.now_ms)
        if not isinstance(decision, Accepted):
            return
        if decision.events:
            assert self.model.apply(record) == "applied"
            assert self.partition.apply(command) == Accepted((), before)

    @rule(back=st.integers(1, 20))
    def import_again_what_was_imported(self, back: int) -> None:
        session = self.partition.state.session
        if session is not None and session.import_cluster is not None and self.imported:
            first = max(0, len(self.imported) - back)
            command = import_of(self.imported[first:], first, self.claim)
            assert self.partition.accept(command).events == ()

    @rule(record=adds(spans()) | updates())
    def write_under_another_announcement(self, record: Record) -> None:
        claim = self.claim._replace(announcement=self.claim.announcement + 1)
        error = self.partition.refuse(command_of(record, claim))
        assert isinstance(error, PartitionDeleted if self.model.deleted else Fenced)

    @rule(passed_ms=st.sampled_from([0, 1, 30, 200]))
    def let_time_pass(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule()
    def forget_old_tombstones(self) -> None:
        accepted = self.partition.accept(cmd.DropTombstones(), self.now_ms)
        for event in accepted.events:
            assert isinstance(event.body, TombstonesDropped)
        # Log time may be ahead of the clock: imported records brought it.
        cutoff = self.now_ms - LIMITS.tombstone_retention_ms
        left = self.partition.state.tombstones.oldest(len(IDS))
        assert all(time_ms >= cutoff for _, time_ms in left)

    @rule(batch=st.integers(1, 7))
    def catch_up(self, batch: int) -> None:
        fold(self.replica, self.partition.stored[self.replica.next_position :], batch)
        assert self.replica.digest() == self.partition.state.digest()

    @rule()
    def compare_all_answers(self) -> None:
        assert_same_answers(self.partition.state, self.model, EPOCHS_PROBED, OFFSETS_PROBED)

    @invariant()
    def the_state_is_sound(self) -> None:
        check(self.partition.state)

    @invariant()
    def answers_are_the_models(self) -> None:
        assert_same_answers(self.partition.state, self.model, EPOCHS_PROBED, SOME_OFFSETS)

    @override
    def teardown(self) -> None:
        assert_same_answers(self.partition.state, self.model, EPOCHS_PROBED, OFFSETS_PROBED)
        for batch in (1, 3, 1_000):
            again = PartitionState(TIP, GENESIS)
            fold(again, self.partition.stored, batch)
            assert again.digest() == self.partition.state.digest()
            check(again)


TestFold = FoldMachine.TestCase
TestFold.settings = settings(stateful_step_count=30)
