"""Keys keep clusters, partitions and kinds apart, and sort as what they name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.storage.backend import KEY_BYTES_MAX, check_key
from tierledger.storage.keys import CLUSTER_BYTES_MAX, DefaultMetadataKeyFactory, behind

TOPIC_ID = Uuid(bytes(range(16)))
TIP = TopicIdPartition(TOPIC_ID, 7, "orders")
SEGMENT = bytes(range(240, 256))
KEYS = DefaultMetadataKeyFactory("cluster")

CLUSTERS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
NATURAL32 = st.integers(0, 2**31 - 1)
NATURAL64 = st.integers(0, 2**63 - 1)
UUIDS = st.binary(min_size=16, max_size=16).map(Uuid)
TIPS = st.builds(TopicIdPartition, UUIDS, NATURAL32, st.just("t"))


TOPIC = "AAECAwQFBgcICQoLDA0ODw"
STATE = f"cluster/state/{TOPIC}/0000000007"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (KEYS.log_batch(TIP, 12), f"cluster/log/{TOPIC}/0000000007/00000000000000000012"),
        (KEYS.log(TIP), f"cluster/log/{TOPIC}/0000000007/"),
        (KEYS.logs(), "cluster/log/"),
        (KEYS.partition(TIP), f"{STATE}/partition"),
        (KEYS.leader_epoch(TIP, 3), f"{STATE}/epoch/0000000003"),
        (KEYS.leader_epoch_page(TIP, 3, "ids", 4), f"{STATE}/epoch/0000000003/ids/0000000004"),
        (KEYS.leader_epochs(TIP), f"{STATE}/epoch/"),
        (KEYS.segment(TIP, SEGMENT), f"{STATE}/segment/f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"),
        (KEYS.segments(TIP), f"{STATE}/segment/"),
        (KEYS.state(TIP), f"{STATE}/"),
        (KEYS.coordinator_batch(5), "cluster/coordinator/log/00000000000000000005"),
        (KEYS.coordinator_log(), "cluster/coordinator/log/"),
        (KEYS.service(), "cluster/service"),
    ],
)
def test_every_key_has_the_documented_layout(key: str, expected: str) -> None:
    assert key == expected


@given(CLUSTERS, CLUSTERS)
def test_a_cluster_is_read_back_and_holds_no_key_of_another(one: str, other: str) -> None:
    ours, theirs = DefaultMetadataKeyFactory(one), DefaultMetadataKeyFactory(other)

    assert ours.cluster_of(ours.service()) == one
    assert ours.cluster_of(ours.log_batch(TIP, 0)) == one
    assert ours.service().count("/") == 1
    assert theirs.log(TIP).startswith(ours.logs()) == (one == other)


@pytest.mark.parametrize("cluster", ["", "\ud800", "x" * (CLUSTER_BYTES_MAX + 1), "/" * 200])
def test_what_no_cluster_can_be_called_is_refused(cluster: str) -> None:
    with pytest.raises(InvalidArgument):
        DefaultMetadataKeyFactory(cluster)


def test_the_longest_cluster_leaves_room_for_every_key() -> None:
    keys = DefaultMetadataKeyFactory("x" * CLUSTER_BYTES_MAX)

    longest = keys.leader_epoch_page(TIP, -1, "a" * 200, 2**31 - 1)

    check_key(longest)
    assert len(longest) <= KEY_BYTES_MAX


@given(TIPS, NATURAL64, NATURAL64)
def test_batches_sort_as_their_numbers_and_are_read_back(
    tip: TopicIdPartition, one: int, other: int
) -> None:
    first, second = KEYS.log_batch(tip, one), KEYS.log_batch(tip, other)

    assert (first < second) == (one < other)
    assert KEYS.parse_log_batch(first) == (tip.topic_id, tip.partition, one)
    assert (KEYS.coordinator_batch(one) < KEYS.coordinator_batch(other)) == (one < other)


@given(INT32, INT32)
def test_leader_epochs_sort_as_numbers_even_negative_ones(one: int, other: int) -> None:
    first, second = KEYS.leader_epoch(TIP, one), KEYS.leader_epoch(TIP, other)

    assert (first < second) == (one < other)
    assert (first == second) == (one == other)
    assert KEYS.leader_epoch_page(TIP, one, "a", 0).startswith(f"{first}/")


@given(TIPS, TIPS, UUIDS, UUIDS)
def test_segments_sort_as_their_ids_and_stay_with_their_partition(
    tip: TopicIdPartition, other: TopicIdPartition, one: Uuid, two: Uuid
) -> None:
    key = KEYS.segment(tip, one)

    assert KEYS.segment_id_of(key) == one
    assert (key < KEYS.segment(tip, two)) == (one < two)
    assert key.startswith(KEYS.segments(other)) == (tip == other)
    assert key.startswith(KEYS.state(tip))


@given(TIPS, NATURAL64)
def test_behind_a_prefix_none_of_its_keys_follows(tip: TopicIdPartition, batch: int) -> None:
    assert KEYS.log_batch(tip, batch) < behind(KEYS.log(tip))
    assert KEYS.partition(tip) < behind(KEYS.state(tip))
    assert behind(KEYS.log(tip)) < KEYS.state(tip)


def test_a_number_out_of_range_is_refused() -> None:
    for batch in (-1, 2**63):
        with pytest.raises(InvalidArgument):
            KEYS.log_batch(TIP, batch)
        with pytest.raises(InvalidArgument):
            KEYS.coordinator_batch(batch)
    for epoch in (-(2**31) - 1, 2**31):
        with pytest.raises(InvalidArgument):
            KEYS.leader_epoch(TIP, epoch)
    with pytest.raises(InvalidArgument):
        KEYS.leader_epoch_page(TIP, 0, "offsets", -1)


@pytest.mark.parametrize("table", ["", "a/b", "é", "a%"])
def test_a_table_is_called_by_letters_and_digits(table: str) -> None:
    with pytest.raises(InvalidArgument):
        KEYS.leader_epoch_page(TIP, 0, table, 0)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "cluster/log/",
        "cluster/service",
        "other/log/AAECAwQFBgcICQoLDA0ODw/0000000007/00000000000000000012",
        "cluster/log/AAECAwQFBgcICQoLDA0ODw/0000000007",
        "cluster/log/short/0000000007/00000000000000000012",
        "cluster/log/AAECAwQFBgcICQoLDA0ODw/seven/00000000000000000012",
    ],
)
def test_a_key_that_is_no_batch_of_a_log_is_not_read_as_one(key: str) -> None:
    with pytest.raises(InvalidArgument):
        KEYS.parse_log_batch(key)
