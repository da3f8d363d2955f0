from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from tierledger.tiering.index_cache.eviction import EvictionQueue

_KEYS = st.sampled_from([bytes([number]) for number in range(12)])
_CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), _KEYS, st.integers(1, 60)),
        st.tuples(st.just("add_known"), _KEYS, st.integers(1, 60)),
        st.tuples(st.just("asked"), _KEYS, st.just(0)),
        st.tuples(st.just("remove"), _KEYS, st.just(0)),
        st.tuples(st.just("resize"), _KEYS, st.integers(0, 200)),
    ),
    max_size=60,
)


@given(_CALLS)
def test_the_weight_held_stays_within_the_limit(calls: list[tuple[str, bytes, int]]) -> None:
    limit = 100
    queue = EvictionQueue(limit)
    held: dict[bytes, int] = {}

    def gone(keys: Iterable[bytes]) -> None:
        for key in keys:
            del held[key]

    for call, key, number in calls:
        match call:
            case "add":
                held.pop(key, None)
                victims = queue.add(key, number)
                assert (victims is None) == (number > limit)
                if victims is not None:
                    gone(victims)
                    held[key] = number
            case "add_known":
                queue.add_known(key, number)
                held[key] = number
                gone(queue.shrink())
            case "asked":
                queue.asked(key)
            case "remove":
                assert queue.remove(key) == (held.pop(key, None) is not None)
            case _:
                limit = number
                gone(queue.resize(limit))
        assert queue.weight == sum(held.values()) <= limit
        assert len(queue) == len(held)


def keys(first: int, last: int) -> list[bytes]:
    return [number.to_bytes(4, "big") for number in range(first, last)]


def used(queue: EvictionQueue, held: set[bytes], key: bytes) -> bool:
    """Whether `key` was a hit; it is there afterwards."""
    if key in held:
        queue.asked(key)
        return True
    held.difference_update(queue.add(key, 1) or ())
    held.add(key)
    return False


def test_one_pass_over_everything_does_not_push_out_what_others_keep_using() -> None:
    queue, held = EvictionQueue(100), set[bytes]()
    popular = keys(0, 50)
    for _ in range(3):
        for key in popular:
            used(queue, held, key)

    misses = 0
    for number, key in enumerate(keys(1000, 6000)):
        used(queue, held, key)
        used(queue, held, key)  # A reader asks twice for each segment: position, transactions.
        misses += not used(queue, held, popular[number % 50])

    assert misses == 0


def test_what_was_popular_once_makes_room_in_the_end() -> None:
    queue, held = EvictionQueue(100), set[bytes]()
    for _ in range(5):
        for key in keys(0, 100):
            used(queue, held, key)

    for _ in range(20):
        for key in keys(200, 290):
            used(queue, held, key)

    assert all(used(queue, held, key) for key in keys(200, 290))


def test_one_that_comes_back_soon_after_it_was_given_up_stays_longer() -> None:
    queue = EvictionQueue(3)
    first, second, third, fourth = keys(0, 4)
    for key in (first, second, third):
        queue.add(key, 1)
    assert queue.add(fourth, 1) == [first]
    assert queue.add(first, 1) == [second]

    # The newcomers go, in their order; the one that came back does not.
    assert queue.add(b"5", 1) == [third]
    assert queue.add(b"6", 1) == [fourth]


def test_a_thousand_hits_long_ago_count_no_more_than_three() -> None:
    queue = EvictionQueue(10)
    for key in keys(0, 10):
        queue.add_known(key, 1)
    for _ in range(1000):
        queue.asked(keys(0, 1)[0])

    gone = []
    for key in keys(100, 140):
        queue.add_known(key, 1)
        gone += queue.shrink()

    assert keys(0, 1)[0] in gone


def test_of_two_that_stayed_the_one_in_use_stays_longer() -> None:
    queue = EvictionQueue(3)
    first, second, third, fourth = keys(0, 4)
    for key in (first, second, third):
        queue.add_known(key, 1)
    queue.asked(first)

    queue.add_known(fourth, 1)

    assert queue.shrink() == [second]


def test_one_that_comes_back_after_long_is_a_newcomer_again() -> None:
    queue = EvictionQueue(3)
    first, *others = keys(0, 20)
    for key in (first, *others):
        queue.add(key, 1)

    assert queue.add(first, 1) == [others[-3]]
    assert [queue.add(key, 1) for key in keys(30, 33)] == [[others[-2]], [others[-1]], [first]]


def test_a_newcomer_takes_the_place_of_an_old_one_while_newcomers_are_few() -> None:
    queue = EvictionQueue(20)
    for key in keys(0, 19):
        queue.add_known(key, 1)

    assert queue.add(b"newcomer", 1) == []
    assert queue.add(b"another", 1) == [keys(0, 1)[0]]
