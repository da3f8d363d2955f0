"""The garbage collector in a process that holds much and serves until it ends."""

import gc
from collections.abc import Iterator

import pytest

from tierledger.actors.ray.collector import keep_pauses_short, look_through_all_again


@pytest.fixture
def held() -> Iterator[None]:
    keep_pauses_short()
    yield
    look_through_all_again()


@pytest.mark.parametrize("generations", [(2,), (0, 1)], ids=["all", "the young ones, twice"])
@pytest.mark.usefixtures("held")
def test_what_was_found_alive_is_not_looked_through_again(generations: tuple[int, ...]) -> None:
    pages = [[number] for number in range(1000)]
    for generation in generations:
        gc.collect(generation)

    looked_through = {id(one) for one in gc.get_objects()}
    assert not looked_through & {id(page) for page in pages}


@pytest.mark.usefixtures("held")
def test_garbage_is_still_found() -> None:
    gc.collect()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle

    assert gc.collect() >= 1


def test_python_is_left_as_it_was() -> None:
    before = gc.get_threshold()
    keep_pauses_short()
    looks = gc.get_threshold()
    look_through_all_again()

    assert looks < before == gc.get_threshold()
