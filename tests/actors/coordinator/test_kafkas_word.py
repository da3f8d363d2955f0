"""What Kafka knows of leaders is added to an announcement, or counts against it."""

from tests.models.coordinated import Coordinated, announcement, key
from tierledger.actors.coordinator import messages as msg
from tierledger.events.commands import NO_CLAIM, NOBODY_KNOWS, Claim, LeaderVerdict


def announced(
    one: Coordinated, broker: int, number: int, verdict: LeaderVerdict, epoch: int | None = None
) -> list[Claim]:
    """What `broker` hears of its claim to lead partition 0."""
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


def test_whom_kafka_names_leads_in_the_epoch_that_kafka_knows() -> None:
    one = Coordinated()

    assert announced(one, 1, 1, LeaderVerdict(1, 7)) == [Claim(1, 1, 1)]

    assert epoch_of(one) == 7


def test_a_claim_of_a_broker_that_kafka_does_not_name_changes_nothing() -> None:
    one = Coordinated()
    announced(one, 1, 1, LeaderVerdict(1, 7))

    assert announced(one, 2, 1, LeaderVerdict(1, 7)) == [NO_CLAIM]

    assert one.leader_of() == Claim(1, 1, 1)
    assert announced(one, 2, 2, LeaderVerdict(2, 8)) == [Claim(2, 1, 2)]
    assert epoch_of(one) == 8


def test_nor_where_nobody_leads() -> None:
    one = Coordinated()

    assert announced(one, 2, 1, LeaderVerdict(1, 7)) == [NO_CLAIM]

    assert key(0) not in one.state.partitions


def test_a_word_from_before_the_election_does_not_bring_the_former_leader_back() -> None:
    one = Coordinated()
    announced(one, 1, 1, LeaderVerdict(1, 7))
    announced(one, 2, 1, LeaderVerdict(2, 8))

    assert announced(one, 1, 2, LeaderVerdict(1, 7)) == [NO_CLAIM]

    assert one.leader_of() == Claim(2, 1, 1)
    assert announced(one, 1, 3, LeaderVerdict(1, 9)) == [Claim(1, 1, 3)]


def test_a_repeat_of_a_claim_that_was_not_taken_is_not_taken_either() -> None:
    """The first answer was lost, and Kafka knows of the election by now."""
    one = Coordinated()
    announced(one, 2, 1, LeaderVerdict(1, 7))

    assert announced(one, 2, 1, LeaderVerdict(2, 8)) == [NO_CLAIM]


def test_without_kafkas_word_the_later_claim_leads() -> None:
    one = Coordinated()
    announced(one, 1, 1, NOBODY_KNOWS)

    assert announced(one, 2, 1, NOBODY_KNOWS) == [Claim(2, 1, 1)]

    assert epoch_of(one) is None


def test_where_kafka_has_no_leader_the_epoch_that_was_given_stays() -> None:
    one = Coordinated()

    announced(one, 1, 1, LeaderVerdict(-1, 9), epoch=4)

    assert epoch_of(one) == 4
