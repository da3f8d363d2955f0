"""The steps of a move, stimulus by stimulus: when it begins, ends, and is given back."""

from typing import Any

import pytest

from tierledger.actors.coordinator.attendance import MOVE_DIFFERENCES_MAX, MoveReport
from tierledger.actors.coordinator.events import Owner
from tierledger.actors.coordinator.ownership import ACCEPTED_MAX, Handover, Owned
from tierledger.moving.procedure import (
    COMPARISONS,
    HEARS,
    LOOKS,
    SETTLED_COMPARISONS,
    Begun,
    ChangeOwner,
    Compare,
    Compared,
    Effect,
    EndMove,
    Failed,
    HandedOver,
    Looked,
    MovePhase,
    PrintLine,
    Procedure,
    ReadStatus,
    Stimulus,
    TimeIsUp,
)

FIRST, AGAIN = 2, 3
TASKS = {Owner.TIERLEDGER: "import", Owner.KAFKA: "mirror"}


def plugin(broker_id: int = 1, **changed: object) -> dict[str, Any]:
    report = {
        "broker_id": broker_id,
        "incarnation": 1,
        "mode": "handover",
        "owner_epoch": 1,
        "is_idle": False,
        "heard_ms_ago": 100,
    }
    return {**report, **changed}


def idle(broker_id: int = 1, owner_epoch: int = FIRST) -> dict[str, Any]:
    return plugin(broker_id, owner_epoch=owner_epoch, is_idle=True)


def follower(reports: int = 1, round_: int = 5, **changed: object) -> dict[str, Any]:
    found = {"follower": "a serve", "task": "import", "reports": reports, "round": round_}
    return {**found, "heard_ms_ago": 100, "records": 40, "trouble": None, **changed}


def looked(*attending: dict[str, Any], **changed: Any) -> Looked:  # noqa: ANN401
    well = Looked(1, "kafka", frozenset({1}), attending, follower())
    return well._replace(**changed)


def moving(*attending: dict[str, Any], **changed: Any) -> Looked:  # noqa: ANN401
    return looked(*attending, owner_epoch=FIRST, owner="moving")._replace(**changed)


def witnessed(*attending: dict[str, Any], **changed: Any) -> Looked:  # noqa: ANN401
    return moving(*attending, owner_epoch=AGAIN, following=follower(12, 9))._replace(**changed)


class Driven:
    """A procedure, and what it called for last."""

    def __init__(self, to: Owner = Owner.TIERLEDGER, **options: Any) -> None:  # noqa: ANN401
        self.procedure = Procedure(to, **options)
        self.effects: list[Effect] = []

    def hear(self, *stimuli: Stimulus) -> Effect:
        for stimulus in stimuli:
            self.effects = self.procedure.handle(stimulus)
        found = [one for one in self.effects if not isinstance(one, PrintLine)]
        assert len(found) == 1, "one thing at a time"
        return found[0]


MOVING = HandedOver(Owned("moving", FIRST))
HELD = (Begun(), looked(plugin()), Compared(()), MOVING, moving(idle()))
TAKEN = (
    *HELD,
    moving(idle(), following=follower(7, 5)),
    moving(idle(), following=follower(9, 6)),
    moving(idle(), following=follower(10, 8)),
)
ASKS_AGAIN = ChangeOwner(Handover(Owner.MOVING, Owner.MOVING, Owner.TIERLEDGER, FIRST))
AGAIN_COMPARED = Compare(is_all=False, is_again=True)
REPEATED = (*TAKEN, Compared(()), HandedOver(Owned("moving", AGAIN)))
GIVEN_BACK = ChangeOwner(Handover(Owner.KAFKA, Owner.MOVING, owner_epoch=FIRST))
GIVEN_BACK_LATE = ChangeOwner(Handover(Owner.KAFKA, Owner.MOVING, owner_epoch=AGAIN))


def test_a_cluster_moves() -> None:
    one = Driven()
    assert one.hear(Begun()) == ReadStatus()
    assert one.hear(looked(plugin())) == Compare(is_all=True)
    begins = Handover(Owner.MOVING, Owner.KAFKA, Owner.TIERLEDGER)
    assert one.hear(Compared(())) == ChangeOwner(begins)
    assert one.hear(MOVING) == ReadStatus()
    assert one.hear(moving(plugin(), plugin(2))) == ReadStatus()
    assert one.hear(moving(idle(), plugin(2))) == ReadStatus()
    assert one.hear(moving(idle(), idle(2))) == ReadStatus()
    assert one.hear(*TAKEN[-3:]) == Compare(is_all=False)
    assert one.hear(Compared(())) == ASKS_AGAIN
    assert one.hear(HandedOver(Owned("moving", AGAIN))) == ReadStatus()
    assert one.hear(witnessed(idle(1, AGAIN), idle(2))) == ReadStatus()
    ends = ChangeOwner(Handover(Owner.TIERLEDGER, Owner.MOVING, None, AGAIN))
    assert one.hear(witnessed(idle(1, AGAIN), idle(2, AGAIN))) == ends
    assert one.hear(HandedOver(Owned("tierledger", 4))) == EndMove(None)


@pytest.mark.parametrize(
    ("unfit", "why"),
    [
        (looked(), "broker 1 does not attend"),
        (looked(plugin(heard_ms_ago=3001)), "broker 1 does not attend"),
        (looked(plugin(mode="shadow")), "broker 1 runs in shadow"),
        (looked(plugin(mode="tierledger")), "broker 1 runs in tierledger"),
        (looked(plugin(incarnation=0)), "broker 1 is not registered"),
        (looked(plugin(), brokers=frozenset({1, 2})), "broker 2 does not attend"),
        (looked(plugin(), plugin(2)), "brokers 2 attend, and Kafka does not know them"),
        (looked(plugin(), owner="tierledger"), "expected the owner to be kafka"),
        (looked(plugin(), owner="moving"), "expected the owner to be kafka"),
        (looked(plugin(), following=None), "no serve --kafka runs"),
        (looked(plugin(), following=follower(heard_ms_ago=3001)), "no serve --kafka runs"),
        (
            looked(plugin(), following=follower(task="nothing")),
            "expected serve --kafka to import",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_begins(unfit: Looked, why: str) -> None:
    ended = Driven().hear(Begun(), unfit)

    assert isinstance(ended, EndMove)
    assert ended.trouble is not None
    assert why in ended.trouble


@pytest.mark.parametrize(
    "busy",
    [
        moving(plugin(owner_epoch=FIRST)),
        moving(plugin(is_idle=True)),
        moving(plugin(owner_epoch=FIRST, is_idle=True, heard_ms_ago=3001)),
        moving(plugin(owner_epoch=FIRST, is_idle=True, mode="tierledger")),
        moving(idle(), plugin(2)),
        moving(idle(), brokers=frozenset({1, 2})),
        moving(brokers=frozenset()),
    ],
)
def test_every_broker_that_lives_lived_or_attends_has_to_be_idle_in_that_owner_epoch(
    busy: Looked,
) -> None:
    one = Driven()

    assert one.hear(*HELD[:-1], busy) == ReadStatus()
    assert one.procedure.phase is MovePhase.HOLDING
    assert one.hear(TimeIsUp()) == GIVEN_BACK


@pytest.mark.parametrize(
    "reports",
    [
        (follower(7, 5),),
        (follower(7, 5), follower(8, 9)),
        (follower(7, 5), follower(9, 6), follower(10, 7)),
    ],
)
def test_a_round_has_to_begin_and_end_after_all_were_idle(reports: tuple[Any, ...]) -> None:
    one = Driven()

    assert (
        one.hear(*HELD, *(moving(idle(), following=report) for report in reports))
        == ReadStatus()
    )


DIFFERS = (Compared(("orders-0",)),)


def gone_round(at: int) -> list[Looked]:
    """Three looks: the follower begins and ends a round after its first report here."""
    reports = follower(at, at), follower(at + 2, at + 1), follower(at + 4, at + 3)
    return [looked(plugin(), following=one) for one in reports]


def compared_again(*found: Compared) -> list[Stimulus]:
    """The results of comparisons, with a round of the follower between each two."""
    heard: list[Stimulus] = [found[0]]
    for at, one in enumerate(found[1:]):
        heard += [*gone_round(10 * at), one]
    return heard


ACCEPTS = (
    "with --accept-losses what tierledger says counts from then on; the owner is as before"
)
WHY = f"1 differences, the first is orders-0; {ACCEPTS}"


def test_a_rehearsal_ends_where_a_move_would_begin() -> None:
    one = Driven(is_rehearsal=True)
    assert one.hear(Begun(), looked(plugin()), Compared(())) == EndMove(None)

    differs = [Compared(("orders-0",))] * COMPARISONS
    one = Driven(is_rehearsal=True)
    assert one.hear(Begun(), looked(plugin()), *compared_again(*differs)) == EndMove(WHY)


def test_a_difference_ends_it_before_it_begins_or_gives_it_back() -> None:
    one = Driven()
    assert one.hear(*HELD[:2], *compared_again(*DIFFERS * (COMPARISONS - 1))) == ReadStatus()
    assert one.hear(*gone_round(0)) == Compare(is_all=False)
    assert one.hear(*DIFFERS) == EndMove(WHY)
    one = Driven()
    assert one.hear(*TAKEN, *DIFFERS * (SETTLED_COMPARISONS - 1)) == AGAIN_COMPARED
    assert one.hear(*DIFFERS) == GIVEN_BACK
    assert one.hear(HandedOver(Owned("kafka", 3))) == EndMove(WHY)
    one = Driven(accepts_losses=True)
    assert isinstance(one.hear(*HELD[:2], *compared_again(*DIFFERS * COMPARISONS)), ChangeOwner)
    begun = (MOVING, *TAKEN[4:])
    assert one.hear(*begun, *DIFFERS * SETTLED_COMPARISONS) == ASKS_AGAIN


def test_what_is_accepted_is_named_in_both_owner_epochs_of_the_move() -> None:
    lost = {"orders-0, segment A": b"A" * 16, "orders-0, segment B": b"B" * 16}
    first = Compared((*lost, "orders-0, highest offset"), lost)
    later = Compared(tuple(lost)[:1], lost)
    one = Driven(accepts_losses=True)

    begins = one.hear(*HELD[:2], *compared_again(first, *[later] * (COMPARISONS - 1)))

    both = Handover(Owner.MOVING, Owner.KAFKA, Owner.TIERLEDGER)
    assert begins == ChangeOwner(both._replace(accepted=(b"A" * 16,))), "B did not stay"
    assert one.effects[:2] == [
        PrintLine("orders-0, segment A"),
        PrintLine("these differences are accepted: what tierledger says counts from now on"),
    ]
    asks_again = one.hear(MOVING, *TAKEN[4:], *[first] * SETTLED_COMPARISONS)
    assert isinstance(ASKS_AGAIN.wish, Handover)
    accepted = (b"A" * 16, b"B" * 16)
    assert asks_again == ChangeOwner(ASKS_AGAIN.wish._replace(accepted=accepted))


def test_more_than_a_move_can_name_is_not_accepted() -> None:
    many = {str(number): number.to_bytes(16, "big") for number in range(ACCEPTED_MAX + 1)}
    one = Driven(accepts_losses=True)

    ended = one.hear(*HELD[:2], *compared_again(*[Compared(tuple(many), many)] * COMPARISONS))

    assert ended == EndMove(
        "10001 segments differ; at most 10000 can be accepted; the owner is as before"
    )


def test_while_brokers_write_only_what_stays_as_it_is_differs() -> None:
    written = Compared(("orders-0: 7 segments, 6 segments",)), Compared(("orders-0: 8, 7",))
    one = Driven()
    assert isinstance(one.hear(*HELD[:2], *compared_again(*written)), ChangeOwner)
    one = Driven()
    lost = Compared(("orders-0, segment 5: none", "orders-0: 9, 8"))
    stays = [Compared((lost.differences[0],))] * (COMPARISONS - 1)
    assert one.hear(*HELD[:2], *compared_again(lost, *stays)) == EndMove(
        f"1 differences, the first is orders-0, segment 5: none; {ACCEPTS}"
    )


@pytest.mark.parametrize("begun", [0, 1, 2])
def test_while_the_follower_has_not_gone_round_nothing_is_compared_again(begun: int) -> None:
    """Kafka's manager may have been restarted, and lack old records."""
    one = Driven()
    assert one.hear(*HELD[:2], *DIFFERS, *gone_round(0)[:begun]) == ReadStatus()
    another = looked(plugin(), following=follower(9, 9, follower="another"))
    assert one.hear(another, another) == ReadStatus()
    stuck = [another] * (LOOKS - begun - 2)
    assert one.hear(*stuck) == ReadStatus()
    assert one.hear(another) == EndMove(
        "serve --kafka, import: no round has ended, see `status`; the owner is as before"
    )


TROUBLED = looked(plugin(), following=follower(trouble="a log"))


@pytest.mark.parametrize(
    ("before", "goes_on"),
    [
        ([Begun()], Compare(is_all=True)),
        ([Begun(), looked(plugin()), *DIFFERS], ReadStatus()),
    ],
)
def test_trouble_of_the_follower_is_waited_for_before_it_begins(
    before: list[Stimulus], goes_on: Effect
) -> None:
    """Kafka's brokers may just have been restarted."""
    one = Driven()
    assert one.hear(*before, TROUBLED) == ReadStatus()
    assert one.effects == [PrintLine("waiting: serve --kafka, import: a log"), ReadStatus()]
    assert one.hear(TROUBLED) == ReadStatus()
    assert one.effects == [ReadStatus()]
    assert one.hear(looked(plugin())) == goes_on

    stays = Driven().hear(*before, *[TROUBLED] * (LOOKS + 1))
    assert stays == EndMove("serve --kafka, import: a log; the owner is as before")


def test_once_they_hold_their_writes_all_that_differs_counts() -> None:
    changing = [Compared((f"orders-0: {count}",)) for count in range(SETTLED_COMPARISONS)]
    assert Driven().hear(*TAKEN, *changing) == GIVEN_BACK
    assert Driven().hear(*TAKEN, *changing[:-1], Compared(())) == ASKS_AGAIN


LATE = [
    (witnessed(idle(1, AGAIN), brokers=frozenset({1, 2})), "brokers 2 have joined meanwhile"),
    (witnessed(idle(1, AGAIN), idle(2, AGAIN)), "brokers 2 have joined meanwhile"),
    (
        witnessed(idle(1, AGAIN), following=follower(12, 9, records=41)),
        "the manager of kafka was written to meanwhile",
    ),
    (
        witnessed(idle(1, AGAIN), following=follower(12, 9, foreign=1)),
        "the manager of kafka was written to meanwhile",
    ),
    (witnessed(idle(1, AGAIN), following=follower(12, 9, trouble="a log")), "a log"),
    (witnessed(idle(1, AGAIN), following=follower(12, 9, follower="another")), "another serve"),
]


@pytest.mark.parametrize(("late", "why"), LATE)
def test_who_comes_or_writes_after_all_were_idle_has_it_given_back(
    late: Looked, why: str
) -> None:
    one = Driven()

    assert one.hear(*REPEATED, late) == GIVEN_BACK_LATE
    ended = one.hear(HandedOver(Owned("kafka", 4)))
    assert isinstance(ended, EndMove)
    assert why in str(ended.trouble)


def test_who_comes_while_records_are_taken_over_has_it_given_back() -> None:
    late = moving(idle(), idle(2), following=follower(7, 5))
    replaced = moving(idle(), following=follower(7, 5, follower="another"))

    assert Driven().hear(*HELD, late) == GIVEN_BACK
    assert Driven().hear(*HELD, replaced) == GIVEN_BACK


@pytest.mark.parametrize(
    "busy",
    [
        witnessed(idle()),
        witnessed(plugin(owner_epoch=AGAIN)),
        witnessed(plugin(owner_epoch=AGAIN, is_idle=True, mode="shadow")),
        witnessed(brokers=frozenset()),
    ],
)
def test_all_have_to_be_idle_in_the_second_owner_epoch_too(busy: Looked) -> None:
    one = Driven()

    assert one.hear(*REPEATED, busy) == ReadStatus()
    assert one.hear(TimeIsUp()) == GIVEN_BACK_LATE


@pytest.mark.parametrize("heard", range(4, len(TAKEN) + 1))
@pytest.mark.parametrize("what", [Failed("away"), TimeIsUp()])
def test_whatever_fails_after_it_began_gives_it_back(heard: int, what: Stimulus) -> None:
    one = Driven()

    assert one.hear(*TAKEN[:heard], what) == GIVEN_BACK
    ended = one.hear(Failed("away as well"))

    assert isinstance(ended, EndMove)
    assert ended.trouble is not None
    assert "not given back" in ended.trouble


def test_a_follower_that_is_not_well_meanwhile_gives_it_back() -> None:
    assert Driven().hear(*HELD, moving(idle(), following=None)) == GIVEN_BACK


def test_a_move_that_a_later_owner_epoch_has_ended_is_over() -> None:
    ended = Driven().hear(*HELD, looked(idle(), owner_epoch=AGAIN))

    assert ended == EndMove("the move was ended: kafka owns the metadata, owner epoch 3")


def test_whether_the_last_request_was_carried_out_is_settled_by_giving_back() -> None:
    one = Driven()
    one.hear(*REPEATED, witnessed(idle(1, AGAIN)))

    assert one.hear(Failed("no answer")) == GIVEN_BACK_LATE


def test_what_was_not_called_for_is_a_mistake_of_the_shell() -> None:
    for phase, heard in HEARS.items():
        one = Procedure(Owner.TIERLEDGER)
        one.phase = phase
        if TimeIsUp not in heard:
            with pytest.raises(AssertionError, match=phase.value):
                one.handle(TimeIsUp())


def test_it_tells_what_its_last_comparison_found_and_who_is_waited_for() -> None:
    one = Driven()
    new = one.procedure.report
    many = tuple(f"difference {number}" + "x" * 600 for number in range(30))
    one.hear(Begun(), looked(plugin()), Compared(many))
    compared = one.procedure.report
    two = Driven()
    two.hear(*HELD[:-1], moving(idle(), plugin(2), plugin(3)))
    held = two.procedure.report

    assert new == MoveReport("tierledger", "new")
    assert (compared.phase, compared.owner_epoch, compared.comparisons) == ("comparing", 0, 1)
    assert compared.differing == 30
    assert len(compared.differences) == MOVE_DIFFERENCES_MAX
    assert {len(text) for text in compared.differences} == {500}
    assert (held.phase, held.owner_epoch, held.differing) == ("holding", FIRST, 0)
    assert held.waits == "brokers 2, 3 are not idle"
