"""The summary of many outcomes, and when a clean one would mean nothing."""

from tierledger.simulation.campaign.summary import MEANS_SEEDS, CampaignSummary
from tierledger.simulation.checkers.verdict import SeedVerdict
from tierledger.simulation.checkers.violation import Violation
from tierledger.simulation.machines.laws.counts import GREATEST, SUMMED

BUSY = SeedVerdict(
    seed=1, is_small=True, violations=[], trace_hash="", calls=50, ok_calls=40, changes=4,
    steps=1000, virtual_s=9.0, marks={"kill host": 2},
    counts={"segments deleted": 3, "most rows in a partition": 7}, cpu_s=0.01,
)  # fmt: skip

KNOWN = CampaignSummary().known_marks


def summary_of(*outcomes: SeedVerdict) -> CampaignSummary:
    summary = CampaignSummary()
    for one in outcomes:
        summary.add(one)
    return summary


def test_worlds_are_measured_by_their_size() -> None:
    big = BUSY._replace(is_small=False, cpu_s=0.05, calls=300, changes=9)

    summary = summary_of(BUSY, BUSY._replace(calls=60), BUSY._replace(calls=90), big)

    assert (summary.small.seeds, summary.small.median_calls) == (3, 60)
    assert round(summary.small.seeds_per_s) == 100
    assert (summary.big.seeds, summary.big.median_calls, summary.big.median_changes) == (
        1, 300, 9,
    )  # fmt: skip
    assert round(summary.big.seeds_per_s) == 20
    assert (summary.seeds, summary.calls, summary.virtual_s) == (4, 500, 36.0)


def test_a_mark_counts_once_per_seed() -> None:
    two = BUSY._replace(marks={"two believed they lead": 7})

    summary = summary_of(BUSY, two, two, two)

    assert summary.marks["two believed they lead"] == 3
    assert summary.two_believers_share == 0.75


def test_busy_seeds_are_no_vacuous_campaign() -> None:
    assert summary_of(*[BUSY] * MEANS_SEEDS).shortfalls(requires_marks=False) == []


def test_a_campaign_in_which_nothing_happens_says_so() -> None:
    def shortfalls(idle: SeedVerdict) -> list[str]:
        return summary_of(*[idle] * MEANS_SEEDS).shortfalls(requires_marks=False)

    assert shortfalls(BUSY._replace(changes=0)) == [
        "0.0 leadership changes per seed, expected 1 at least"
    ]
    assert shortfalls(BUSY._replace(ok_calls=3)) == [
        "3.0 calls per seed succeeded, expected 10 at least"
    ]
    assert shortfalls(BUSY._replace(marks={"read expired": 1})) == [
        "faults came about in 0% of the seeds, expected 50% at least"
    ]
    assert summary_of(BUSY._replace(ok_calls=0)).shortfalls(requires_marks=False) == [
        "no call succeeded"
    ]


def test_situations_that_never_came_about_are_named() -> None:
    counts = dict.fromkeys((*SUMMED, *GREATEST), 1)
    everything = BUSY._replace(marks=dict.fromkeys(KNOWN, 1), counts=counts)
    missing = {mark: 1 for mark in KNOWN if mark != "torn batch"}

    assert summary_of(everything).shortfalls(requires_marks=True) == []
    less = everything._replace(marks=missing, counts={**counts, "page splits": 0})
    found = summary_of(less).shortfalls(requires_marks=True)
    assert found == ["never seen: torn batch", "no page splits"]


def test_segments_have_to_be_deleted_in_nearly_half_of_the_seeds() -> None:
    counts = dict.fromkeys((*SUMMED, *GREATEST), 1)
    deleting = BUSY._replace(marks=dict.fromkeys(KNOWN, 1), counts=counts)
    idle = deleting._replace(counts={**counts, "segments deleted": 0})

    assert summary_of(deleting, idle).shortfalls(requires_marks=True) == []
    (told,) = summary_of(deleting, idle, idle).shortfalls(requires_marks=True)
    assert told == "segments were deleted in 33% of the seeds, expected 45%"


def test_counts_are_added_up_or_the_greatest_is_kept() -> None:
    summary = summary_of(BUSY, BUSY._replace(counts={"segments deleted": 2}))

    assert summary.counts == {"segments deleted": 5, "most rows in a partition": 7}
    assert summary.counted == {"segments deleted": 2, "most rows in a partition": 1}


def test_failed_seeds_are_kept() -> None:
    failed = BUSY._replace(seed=9, violations=[Violation("lost_write", None, "gone")])

    assert [one.seed for one in summary_of(BUSY, failed).failed] == [9]
