"""Histories of one partition for hypothesis: of brokers with faults, and impossible ones.

Ids, epochs and offsets are few, so that segments collide often. A history is a list of the
slow model's records. Tests ask about all of `EPOCHS_PROBED` and `OFFSETS_PROBED` afterwards.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tierledger.simulation.checkers.slow.model import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
    Add,
    PartitionDelete,
    Record,
    Update,
)

IDS = tuple(bytes([251 - 37 * one % 256 for _ in range(16)]) for one in range(10))
UNKNOWN_ID = b"\x00" * 15 + b"\x01"
"""An id of a segment that no history adds."""

EPOCHS = range(5)
START_OFFSET_MAX = 30
LENGTH_MAX = 12

EPOCHS_PROBED = range(-1, 6)
OFFSETS_PROBED = range(-1, START_OFFSET_MAX + LENGTH_MAX + 12)
"""Offsets before and after all segments, and after the start of any odd epoch."""

Step = Sequence[Record]


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int, dict[int, int]]:
    """Start, end (inclusive) and leader epochs of a segment that a broker could write."""
    start = draw(st.integers(0, START_OFFSET_MAX))
    end = start + draw(st.integers(0, LENGTH_MAX))
    epochs = sorted(draw(st.sets(st.sampled_from(EPOCHS), min_size=1, max_size=3)))
    # Equal offsets are allowed: an epoch in which nothing was written.
    later = sorted(draw(st.integers(start, end)) for _ in epochs[1:])
    return start, end, dict(zip(epochs, [start, *later], strict=True))


@st.composite
def odd_spans(draw: st.DrawFn) -> tuple[int, int, dict[int, int]]:
    """A span whose epochs may begin anywhere, as Kafka does not check their offsets."""
    start, end, epochs = draw(spans())
    return start, end, {one: draw(st.integers(0, end + 8)) for one in epochs}


def adds(
    spans_drawn: SearchStrategy[tuple[int, int, dict[int, int]]],
    ids: SearchStrategy[bytes] | None = None,
) -> SearchStrategy[Add]:
    """The start of a copy; one in sixteen has a state that no start may have."""
    return st.builds(
        lambda one, span, rest: Add(one, *span, *rest),
        st.sampled_from(IDS) if ids is None else ids,
        spans_drawn,
        st.tuples(
            st.integers(0, 100),
            st.integers(-1, 50),
            st.integers(0, 3),
            st.integers(0, 50),
            st.sampled_from([None, b"", b"bucket"]),
            st.booleans(),
            st.sampled_from([COPY_STARTED] * 15 + [COPY_FINISHED]),
        ),
    )


def updates(
    ids: SearchStrategy[bytes] | None = None, states: SearchStrategy[int] | None = None
) -> SearchStrategy[Update]:
    """Any update of any id: legal, late, illegal, or of an unknown segment."""
    return st.builds(
        Update,
        st.sampled_from((*IDS, UNKNOWN_ID)) if ids is None else ids,
        st.sampled_from(range(4)) if states is None else states,
        st.integers(0, 3),
        st.integers(0, 50),
        st.sampled_from([None, b"", b"other"]),
    )


@st.composite
def lives(draw: st.DrawFn, *, odd: bool) -> Step:
    """One segment's records up to some state, possibly with a second start of its copy."""
    only = st.just(draw(st.sampled_from(IDS)))
    some_spans = odd_spans() if odd else spans()
    life: list[Record] = [draw(adds(some_spans, only)) for _ in range(draw(st.integers(1, 2)))]
    path = draw(st.sampled_from(PATHS))
    life += [draw(updates(only, st.just(state))) for state in path]
    # Kafka keeps no tombstones, so an id that is added after its deletion is a new segment.
    if path[-1:] == (DELETE_FINISHED,) and draw(st.booleans()):
        life += [draw(adds(some_spans, only)), draw(updates(only, st.just(COPY_FINISHED)))]
    return life


PATHS: tuple[tuple[int, ...], ...] = (
    (),
    (COPY_FINISHED,),
    (COPY_FINISHED, COPY_FINISHED),
    (COPY_FINISHED, DELETE_STARTED),
    (COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED),
    (DELETE_STARTED, DELETE_FINISHED),
)
"""The sequences of states that a broker writes after the start of a copy."""


@st.composite
def abandoned_epochs(draw: st.DrawFn) -> Step:
    """A copy that starts twice, with different epochs, and is then deleted.

    Kafka leaves the segment's id in the epochs of the first start.
    """
    only = st.just(draw(st.sampled_from(IDS)))
    begun = [draw(adds(spans(), only)), draw(adds(spans(), only))]
    states = (DELETE_STARTED, DELETE_FINISHED)
    return [*begun, *(draw(updates(only, st.just(state))) for state in states)]


@st.composite
def uploads(draw: st.DrawFn) -> Step:
    """A leader's adjacent finished segments; two such runs overlap as after failovers."""
    start = draw(st.integers(0, START_OFFSET_MAX // 2))
    lengths = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    ids = draw(st.permutations(IDS))
    epoch = draw(st.sampled_from(EPOCHS))
    run: list[Record] = []
    for one, (first, behind) in zip(
        ids, pairwise(accumulate(lengths, initial=start)), strict=False
    ):
        span = st.just((first, behind - 1, {epoch: first}))
        run.append(draw(adds(span, st.just(one))))
        run.append(draw(updates(st.just(one), st.just(COPY_FINISHED))))
    return run


@st.composite
def unclean_elections(draw: st.DrawFn) -> Step:
    """A replica that is behind becomes leader: its epoch begins below tiered offsets."""
    start, length = draw(st.integers(0, 10)), draw(st.integers(2, LENGTH_MAX))
    epoch = draw(st.sampled_from(EPOCHS[:-1]))
    cut = draw(st.integers(start, start + length))
    old, new = draw(st.permutations(IDS))[:2]
    before = (start, start + length, {epoch: start})
    after = (start, cut + draw(st.integers(0, 5)), {epoch: start, epoch + 1: cut})
    return [
        draw(adds(st.just(before), st.just(old))),
        draw(updates(st.just(old), st.just(COPY_FINISHED))),
        draw(adds(st.just(after), st.just(new))),
        draw(updates(st.just(new), st.just(COPY_FINISHED))),
    ]


@st.composite
def shorter_at_the_same_key(draw: st.DrawFn) -> Step:
    """Two copies with the same start; Kafka loses the longer one, which finishes first."""
    start, length = draw(st.integers(0, START_OFFSET_MAX)), draw(st.integers(1, LENGTH_MAX))
    epoch = draw(st.sampled_from(EPOCHS))
    long, short = draw(st.permutations(IDS))[:2]
    ends = {long: start + length, short: draw(st.integers(start, start + length - 1))}
    records: list[Record] = []
    for one, end in ends.items():
        records.append(draw(adds(st.just((start, end, {epoch: start})), st.just(one))))
        records.append(draw(updates(st.just(one), st.just(COPY_FINISHED))))
    return records


def partition_deletes() -> SearchStrategy[Step]:
    """Steps of the whole partition's deletion, in any order; rarely the last one."""
    return st.builds(
        lambda state, at: [PartitionDelete(state, 0, at)],
        st.sampled_from([0] * 4 + [1] * 4 + [2]),
        st.integers(0, 50),
    )


@st.composite
def histories(draw: st.DrawFn, *, odd_epochs: bool = True, records_max: int = 60) -> Step:
    """The records of one partition in the metadata topic, at most `records_max`.

    With `odd_epochs`, epochs may begin outside of their segment, as Kafka does not check them.
    """
    steps = st.one_of(
        lives(odd=False),
        uploads(),
        updates().map(lambda one: [one]),
        shorter_at_the_same_key(),
        unclean_elections(),
        st.integers(1, 20),
        adds(spans()).map(lambda one: [one]),
        lives(odd=odd_epochs),
        abandoned_epochs(),
        partition_deletes(),
    )
    history: list[Record] = []
    for step in draw(st.lists(steps, min_size=1, max_size=15)):
        if isinstance(step, int):
            # A retry, or a stale broker: it repeats the record of `step` places ago.
            history += history[-step:][:1]
        else:
            history += step
    return history[:records_max]
