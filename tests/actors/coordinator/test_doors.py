"""Which hosts count as reached, by who reaches their doors."""

from collections.abc import Collection, Iterable

import pytest

from tierledger.actors.calls import HostPing
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.coordinator.doors import (
    DOORS_UNREACHABLE,
    HOST_UNREACHABLE,
    KNOCKS_MISSED,
    REOPEN_S,
    Doors,
)


class Looked:
    """The doors of some hosts, all of which were reached once."""

    def __init__(self, hosts: int) -> None:
        self.names = [f"host-{number}" for number in range(hosts)]
        self.doors = Doors()
        self.now_s = 0.0
        for name in self.names:
            self.doors.add(name, f"{name}/1", f"{name}:4711")
        self.knock()

    def knock(self, *missed: str, count: int = 1, pause_s: float = 1.0) -> list[msg.Effect]:
        """Let the coordinator knock at all doors; those of `missed` stay shut."""
        notes: list[msg.Effect] = []
        for _ in range(count):
            self.now_s += pause_s
            now = msg.Moment(self.now_s, int(self.now_s * 1000))
            for name in self.names:
                notes += self.doors.knocked(name, now, opens=name not in missed)
        return notes

    def report(
        self,
        name: str,
        missed: Iterable[str] = (),
        *,
        of: Collection[str] = (),
        heard: bool = False,
    ) -> None:
        """Let a host report which of the doors `of` (all others') do not open to it."""
        others = [one for one in of or self.names if one != name]
        seen = tuple((f"{one}/1", one not in missed) for one in others)
        self.doors.reported(name, HostPing(f"{name}/1/p", is_heard=heard, doors=seen))

    def reports(self, *missed: str) -> None:
        """Let all hosts but the `missed` ones report that they do not reach these."""
        for name in self.names:
            self.report(name, () if name in missed else missed)

    @property
    def shut(self) -> set[str]:
        return set(self.doors.closed.emptied)

    def codes(self) -> dict[str, str]:
        return {one.subject: one.code for one in self.doors.conditions()}


def test_a_host_that_neither_the_coordinator_nor_others_reach_is_shut_with_an_alarm() -> None:
    one = Looked(3)
    one.report("host-0", ["host-1"])
    assert one.knock("host-1", count=KNOCKS_MISSED - 1) == []
    assert one.shut == set()

    (note,) = one.knock("host-1")

    assert one.shut == {"host-1"}
    assert isinstance(note, msg.Note)
    assert (note.event, note.details["kind"]) == ("alarm", "HostUnreachable")
    assert one.codes() == {"host-1": HOST_UNREACHABLE}
    assert one.knock("host-1", count=9) == []


@pytest.mark.parametrize("hosts", [1, 2, 5])
def test_the_coordinator_alone_shuts_nobody(hosts: int) -> None:
    one = Looked(hosts)
    one.reports()

    one.knock("host-0", count=9)

    assert one.shut == set()
    assert one.codes() == {"host-0": HOST_UNREACHABLE}


def test_a_coordinator_that_reaches_few_doors_is_cut_off_itself_and_says_so() -> None:
    one = Looked(4)
    one.report("host-3", ["host-0"], of=["host-0"])  # Alone it is no majority.

    one.knock("host-0", "host-1", "host-2", count=9)

    assert one.shut == set()
    assert one.codes() == {"": DOORS_UNREACHABLE}
    one.knock("host-1", "host-2")
    assert one.codes() == {"host-1": HOST_UNREACHABLE, "host-2": HOST_UNREACHABLE}


def test_what_a_cut_off_host_sees_does_not_count() -> None:
    one = Looked(3)
    one.report("host-0", ["host-1", "host-2"])
    one.report("host-2", ["host-0"])

    one.knock("host-0", count=9)

    assert one.shut == {"host-0"}


def test_a_host_beside_a_cut_off_coordinator_is_shut_by_the_others() -> None:
    one = Looked(4)
    one.reports("host-0")

    one.knock("host-1", "host-2", "host-3", count=9)

    assert one.shut == {"host-0"}


def test_nobody_is_shut_where_most_would_be() -> None:
    one = Looked(5)
    one.reports("host-0", "host-1")
    one.knock("host-0", "host-1", count=9)
    assert one.shut == {"host-0", "host-1"}

    three = {"host-0", "host-1", "host-2"}
    for observer in three:
        one.report(observer, three - {observer})
    for observer in ("host-3", "host-4"):
        one.report(observer, of=["host-3", "host-4"])
    one.knock(*three, count=9)

    assert one.shut == set()


def test_a_host_that_brokers_use_is_not_shut_whoever_else_does_not_reach_it() -> None:
    one = Looked(3)
    one.reports("host-1")
    one.report("host-1", heard=True)

    one.knock("host-1", count=9)
    assert one.shut == set()
    assert one.codes() == {"host-1": HOST_UNREACHABLE}

    one.report("host-1")
    one.knock("host-1")
    assert one.shut == {"host-1"}


def test_a_host_that_was_shut_opens_again_once_it_was_reached_for_a_while() -> None:
    one = Looked(3)
    one.reports("host-1")
    one.knock("host-1", count=KNOCKS_MISSED)
    one.reports()

    one.knock(count=int(REOPEN_S) - 1)
    assert one.shut == {"host-1"}
    (note,) = one.knock(count=2)

    assert one.shut == set()
    assert isinstance(note, msg.Note)
    assert note.event == "a host is reached again"
    assert one.codes() == {}


def test_a_door_that_opens_and_closes_stays_shut() -> None:
    one = Looked(3)
    one.reports("host-1")
    one.knock("host-1", count=KNOCKS_MISSED)

    for _ in range(9):
        one.reports()
        assert one.knock(count=3) == []
        one.reports("host-1")
        assert one.knock("host-1", count=KNOCKS_MISSED) == []
        assert one.shut == {"host-1"}


def test_a_new_process_gets_nothing_before_somebody_has_reached_it() -> None:
    one = Looked(3)
    one.doors.drop("host-1")
    one.doors.add("host-1", "host-1/2", "host-1:4711")
    assert one.doors.closed == (frozenset({"host-1"}), frozenset())
    one.knock("host-1")
    assert one.doors.unproven == {"host-1"}

    one.knock()
    assert one.doors.closed == (frozenset(), frozenset())


def test_processes_count_before_they_are_reached_if_they_are_most() -> None:
    doors = Doors()
    for name in ("a", "b"):
        doors.add(name, f"{name}/1", f"{name}:1")
    assert not doors.closed.hosts
    assert doors.waits_for("a")

    doors.knocked("a", msg.Moment(1.0, 1000), opens=True)

    assert not doors.waits_for("a")
    assert doors.closed.hosts == {"b"}
