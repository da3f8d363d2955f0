"""Kafka's leader is added to an announcement, or contradicts it."""

from collections import Counter

import pytest

from tests.models.actors.coordinated import Coordinated, announcement, key
from tierledger.actors.coordinator import messages as msg
from tierledger.events.commands import NO_CLAIM, NOBODY_KNOWS, Claim, LeaderVerdict


def announced(
    one: Coordinated, broker: int, number: int, verdict: LeaderVerdict, epoch: int | None = None
) -> list[Claim]:
    """The answer to `broker` about its claim to lead partition 0."""
    if broker not in one.state.incarnations:
        one.register(broker)
    given = announcement(broker, number, leads=[0], epoch=epoch)
    request = msg.informed(given, {key(0): verdict})
    one.apply(request.decide(one.state))
    return request.answer(one.state)


def epoch_of(one: Coordinated) -> int | None:
    led = one.entry().leadership
    assert led is not None
    return led.leader_epoch


FIRST, SECOND = LeaderVerdict(1, 7), LeaderVerdict(2, 8)


@pytest.mark.parametrize(
    ("verdicts", "epoch"),
    [
        ([(1, FIRST, True)], 7),
        ([(1, FIRST, True), (2, FIRST, False), (2, SECOND, True)], 8),
        ([(2, FIRST, False)], None),
        (
            [
                (1, FIRST, True),
                (2, SECOND, True),
                (1, FIRST, False),
                (1, LeaderVerdict(1, 9), True),
            ],
            9,
        ),
        ([(1, NOBODY_KNOWS, True), (2, NOBODY_KNOWS, True)], None),
    ],
    ids=[
        "whom Kafka names leads in the epoch that Kafka knows",
        "a claim of a broker that Kafka does not name changes nothing",
        "nor where nobody leads",
        "an answer from before the election does not bring the former leader back",
        "without Kafka's answer the later claim leads",
    ],
)
def test_kafkas_answer_decides_whose_claim_is_taken(
    verdicts: list[tuple[int, LeaderVerdict, bool]], epoch: int | None
) -> None:
    one = Coordinated()
    numbers: Counter[int] = Counter()
    leader: Claim | None = None
    for broker, verdict, is_taken in verdicts:
        numbers[broker] += 1
        claim = Claim(broker, 1, numbers[broker])

        assert announced(one, broker, claim.announcement, verdict) == [
            claim if is_taken else NO_CLAIM
        ]

        leader = claim if is_taken else leader
        assert (key(0) in one.state.partitions) == (leader is not None)
        assert leader is None or one.leader_of() == leader
    assert leader is None or epoch_of(one) == epoch


def test_a_repeat_of_a_claim_that_was_not_taken_is_not_taken_either() -> None:
    """The first answer was lost, and Kafka knows of the election by now."""
    one = Coordinated()
    announced(one, 2, 1, LeaderVerdict(1, 7))

    assert announced(one, 2, 1, LeaderVerdict(2, 8)) == [NO_CLAIM]


def test_where_kafka_has_no_leader_the_epoch_that_was_given_stays() -> None:
    one = Coordinated()

    announced(one, 1, 1, LeaderVerdict(-1, 9), epoch=4)

    assert epoch_of(one) == 4
