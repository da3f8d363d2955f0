"""The owner of an object by its name, and verdicts on segments: without Spark and stores."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.models.tiering import tier_trace
from tierledger.pipeline.jobs.audit.kinds import (
    DELETED,
    FINISHED,
    AuditKind,
    FoundObjects,
    KnownSegment,
    LogStanding,
    verdicts,
)
from tierledger.tiering.layouts.ledger.format import LedgerCustomMetadata
from tierledger.tiering.layouts.listed_objects import ExpectedObject, ListedObject, names_of
from tierledger.tiering.layouts.tier_url import Layout
from tierledger.tiering.objects.directory import Unseen

SEGMENT = tier_trace.segments_of("codec-none", 0)[0].metadata
TIP = SEGMENT.topic_id_partition
ID = SEGMENT.remote_log_segment_id.id
NAME = f"{SEGMENT.start_offset:020}-{ID}"

LEDGER = f"codec-none/{TIP.topic_id}/0/{NAME}"
KAFKA = f"codec-none-0-{TIP.topic_id}/{NAME}"
MANIFEST = f"codec-none-{TIP.topic_id}/0/{NAME}"


@pytest.mark.parametrize(
    ("layout", "prefix", "path", "role", "is_below"),
    [
        (Layout.LEDGER, "", f"{LEDGER}/log.00000", "log.00000", True),
        (Layout.LEDGER, "", f"{LEDGER}/indexes", "indexes", True),
        (Layout.LEDGER, "a/b", f"a/b/{LEDGER}/log.00012", "log.00012", True),
        (Layout.LEDGER, "a/b", f"{LEDGER}/indexes", "indexes", False),
        (Layout.LEDGER, "a/b", f"xa/b/{LEDGER}/indexes", "indexes", False),
        (Layout.LEDGER, "a", f"a/a/{LEDGER}/indexes", "indexes", False),
        (Layout.LOCAL_TIERED, "", f"{KAFKA}.log", "log", True),
        (Layout.LOCAL_TIERED, "", f"{KAFKA}.txnindex", "txnindex", True),
        (Layout.MANIFEST, "", f"{MANIFEST}.rsm-manifest", "rsm-manifest", True),
        (Layout.MANIFEST, "tier-", f"tier-{MANIFEST}.log", "log", True),
        (Layout.MANIFEST, "tier/", f"tier/{MANIFEST}.log", "log", True),
        (Layout.MANIFEST, "tier/", f"other/{MANIFEST}.log", "log", False),
        (Layout.MANIFEST, "", f"not/a-topic/{MANIFEST}.log", "log", False),
    ],
)
def test_a_segments_object_is_known_by_its_name(
    layout: Layout, prefix: str, path: str, role: str, is_below: bool
) -> None:
    found = names_of(layout, prefix).parse(path)

    assert found is not None
    place = path.rpartition("/")[0] if layout == Layout.LEDGER else path.rpartition(".")[0]
    assert found == ListedObject(TIP.topic_id, 0, ID, role, place, is_below)


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        (Layout.LEDGER, f"{LEDGER}/log.0000"),
        (Layout.LEDGER, f"{LEDGER}/log.00000\n"),
        (Layout.LEDGER, f"{LEDGER}/log.00000 "),
        (Layout.LEDGER, f"{LEDGER}/index"),
        (Layout.LEDGER, f"{LEDGER}/x/indexes"),
        (Layout.LEDGER, f"{LEDGER.replace('/', '%2F')}/indexes"),
        (Layout.LEDGER, f"../{TIP.topic_id}/0/{NAME}/indexes"),
        (Layout.LEDGER, f"x{LEDGER.replace('/0/', '/00/')}/indexes"),
        (Layout.LEDGER, f"{LEDGER.replace('/0/', '/2147483648/')}/indexes"),
        (Layout.LEDGER, f"{LEDGER.replace('/0/', '/٣/')}/indexes"),
        (Layout.LEDGER, f"ünï{LEDGER}/indexes".replace("codec", "cödec")),
        (Layout.LEDGER, LEDGER.replace(str(ID), str(ID)[:-1] + "B") + "/indexes"),
        (Layout.LOCAL_TIERED, f"{KAFKA}.log.bak"),
        (Layout.LOCAL_TIERED, f"./{KAFKA}.log"),
        (Layout.LOCAL_TIERED, f"deeper/{KAFKA}.log"),
        (Layout.MANIFEST, f"{MANIFEST}.manifest"),
        (Layout.MANIFEST, f"{TIP.topic_id}/0/{NAME}.log"),
    ],
)
def test_what_only_looks_like_one_is_not_ours(layout: Layout, path: str) -> None:
    assert names_of(layout, "").parse(path) is None


@given(st.sampled_from(list(Layout)), st.text(max_size=30), st.text(max_size=60))
def test_no_name_and_no_prefix_is_more_than_not_ours(
    layout: Layout, prefix: str, path: str
) -> None:
    assert names_of(layout, prefix).parse(path) is None


@pytest.mark.parametrize("layout", list(Layout))
def test_what_a_segment_must_have_is_called_as_its_own(layout: Layout) -> None:
    names = names_of(layout, "")

    must = names.expected(SEGMENT)

    join = "/" if layout == Layout.LEDGER else "."
    for one in must.others:
        found = names.parse(f"{must.place}{join}{one.role}")
        assert found == ListedObject(TIP.topic_id, 0, ID, one.role, must.place, True)
    assert must.is_below_prefix


def test_custom_metadata_says_below_which_prefix_and_in_how_many_parts() -> None:
    custom = LedgerCustomMetadata(4096, 20_000, "old").to_custom_metadata()

    must = names_of(Layout.LEDGER, "new").expected(replace(SEGMENT, custom_metadata=custom))

    assert (must.place, must.part_bytes, must.weight) == (f"old/{LEDGER}", 4096, 20_000)
    assert not must.is_below_prefix


KNOWN = KnownSegment(
    state=FINISHED,
    is_settled=True,
    place="here",
    part_bytes=60,
    log_bytes=100,
    others=[ExpectedObject("a", 0, 8, 16), ExpectedObject("indexes", 1, 1, None)],
    indexes="indexes",
    weight=130,
    is_below_prefix=True,
    is_log_as_it_is=True,
    trouble=None,
)
SIZES = [("a", 8), ("indexes", 22), ("log.00000", 60), ("log.00001", 40)]
WHOLE = FoundObjects("here", True, 4, 130, SIZES, 10)


def without(*roles: str) -> FoundObjects:
    return WHOLE._replace(sizes=[one for one in SIZES if one[0] not in roles])


def resized(sizes: dict[str, int]) -> FoundObjects:
    return WHOLE._replace(sizes=sorted((dict(SIZES) | sizes).items()))


EMPTY = KNOWN._replace(log_bytes=0, weight=None)
ANY_LOG = KNOWN._replace(is_log_as_it_is=False, weight=None)
NO_LOG = without("log.00000", "log.00001")
GONE = KnownSegment(DELETED, True, *(None,) * 9)
OTHER_PLACE = WHOLE._replace(place="there")
NEVER = WHOLE._replace(newest_ms=5)


@pytest.mark.parametrize(
    ("known", "found", "standing", "expected"),
    [
        (KNOWN, [WHOLE], "known", ["whole"]),
        (KNOWN, [], "known", ["missing_object"]),
        (KNOWN, [without("indexes")], "known", ["missing_object"]),
        (KNOWN, [without("log.00000", "log.00001")], "known", ["missing_object"]),
        (KNOWN, [without("a")], "known", ["incomplete_set"]),
        (KNOWN, [without("log.00001")], "known", ["incomplete_set"]),
        (KNOWN, [resized({"log.00001": 41})], "known", ["size_mismatch"]),
        (KNOWN, [resized({"log.00000": 59, "log.00001": 41})], "known", ["size_mismatch"]),
        (ANY_LOG, [resized({"log.00000": 7, "log.00001": 1})], "known", ["whole"]),
        (ANY_LOG, [resized({"log.00000": 0, "log.00001": 0})], "known", ["size_mismatch"]),
        (ANY_LOG, [NO_LOG], "known", ["missing_object"]),
        (
            ANY_LOG._replace(weight=7),
            [resized({"log.00000": 7, "log.00001": 1})],
            "known",
            ["size_mismatch"],
        ),
        (KNOWN, [resized({"log.00002": 0})], "known", ["size_mismatch"]),
        (KNOWN, [resized({"a": 24})], "known", ["size_mismatch"]),
        (KNOWN, [resized({"a": 12})], "known", ["size_mismatch"]),
        (KNOWN, [resized({"indexes": 0})], "known", ["size_mismatch"]),
        (KNOWN, [WHOLE._replace(size_in_bytes=131)], "known", ["size_mismatch"]),
        (EMPTY, [without("log.00000", "log.00001")], "known", ["whole"]),
        (EMPTY, [NO_LOG._replace(sizes=[*NO_LOG.sizes, ("log", 0)])], "known", ["whole"]),
        (EMPTY, [resized({"log.00000": 1, "log.00001": 0})], "known", ["size_mismatch"]),
        (EMPTY, [without("indexes")], "known", ["missing_object"]),
        (KNOWN, [OTHER_PLACE], "known", ["missing_object", "foreign"]),
        (KNOWN, [OTHER_PLACE, WHOLE], "known", ["whole", "foreign"]),
        (KNOWN._replace(is_settled=False), [], "known", ["changing"]),
        (KNOWN._replace(is_below_prefix=False), [], "known", ["elsewhere"]),
        (KNOWN._replace(place=None, trouble="?"), [], "known", ["unreadable_metadata"]),
        (KNOWN._replace(state="COPY_SEGMENT_STARTED"), [WHOLE], "known", ["unfinished"]),
        (KNOWN._replace(state="DELETE_SEGMENT_STARTED"), [], "known", ["unfinished"]),
        (GONE, [WHOLE], "known", ["deleted_but_there"]),
        (GONE._replace(is_settled=False), [WHOLE], "known", ["changing"]),
        (GONE, [], "known", []),
        (None, [NEVER], "known", ["orphan"]),
        (None, [NEVER._replace(newest_ms=6)], "known", ["too_young"]),
        (None, [NEVER._replace(newest_ms=None)], "known", ["too_young"]),
        (None, [NEVER], "unknown", ["unknown_partition"]),
        (None, [NEVER], "damaged", ["damaged_log"]),
        (None, [NEVER._replace(is_below_prefix=False)], "known", ["foreign"]),
        (KNOWN, [WHOLE], "damaged", ["damaged_log"]),
        (GONE, [WHOLE], "damaged", ["damaged_log"]),
        (KNOWN, [], "damaged", []),
    ],
)
def test_each_kind_alone(
    known: KnownSegment | None, found: list[FoundObjects], standing: str, expected: list[str]
) -> None:
    found_verdicts = list(verdicts(known, found, LogStanding(standing), orphans_before_ms=6))

    assert [one.kind for one in found_verdicts] == [AuditKind(kind) for kind in expected]


@pytest.mark.parametrize(
    ("known", "found", "place", "expected"),
    [
        (KNOWN, [], "here", ["unseen"]),
        (KNOWN, [], "he", ["missing_object"]),
        (KNOWN, [without("a")], "here/a", ["unseen"]),
        (KNOWN, [WHOLE], "here", ["whole"]),
        (KNOWN, [OTHER_PLACE], "elsewhere", ["missing_object", "foreign"]),
        (GONE, [WHOLE], "elsewhere", ["deleted_but_there"]),
        (None, [NEVER], "elsewhere", ["unseen"]),
    ],
)
def test_what_was_not_seen_is_not_missing_and_nothing_is_an_orphan(
    known: KnownSegment | None, found: list[FoundObjects], place: str, expected: list[str]
) -> None:
    unseen = [Unseen.below(place, "may not be listed")]
    told = verdicts(known, found, LogStanding.KNOWN, 6, unseen)

    assert [one.kind.value for one in told] == expected
