"""One wrong clock carries no time away, whichever process has it."""

from hypothesis import given
from hypothesis import strategies as st

from tests.models.actors.deaf_host import DeafHost, started
from tierledger.actors.conditions import CLOCK_OFF, Conditions
from tierledger.actors.coordinator import messages as msg
from tierledger.actors.coordinator.clocks import OWN, Clocks
from tierledger.actors.process_clock import OFF_MS, ProcessClock

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000


class Wall:
    """The clock of a machine, off by `off_ms`."""

    def __init__(self, service: "Service", off_ms: int) -> None:
        self.service = service
        self.off_ms = off_ms

    def now_ms(self) -> int:
        return self.service.true_ms + self.off_ms


class Service:
    """A coordinator, the first process, and hosts.

    Each has a name of its own; before a slash it is that of its machine.
    """

    def __init__(self, names: list[str], off_ms: dict[str, int]) -> None:
        self.passed_s = 5000.0
        self.clocks = Clocks()
        self.walls = {name: Wall(self, off_ms.get(name, 0)) for name in names}
        self.names = names
        self.processes: list[ProcessClock] = []
        for name in names:
            self.start(name)

    @property
    def true_ms(self) -> int:
        return NOW_MS + int((self.passed_s - 5000) * 1000)

    def start(self, name: str) -> None:
        """Start a process, and ping it twice, as the coordinator does."""
        conditions = Conditions(lambda: NOW_MS)
        clock = ProcessClock(self.walls[name], lambda: self.passed_s, lambda: conditions)
        self.processes.append(clock)
        for _ in range(2 if len(self.processes) > 1 else 0):
            self.ping(len(self.processes) - 1)

    def ping(self, number: int) -> None:
        address = f"host-{number}"
        time = self.clocks.common(self.passed_s, address)
        if time is not None:
            self.processes[number].told(time)
        now = msg.Moment(self.passed_s, self.true_ms)
        for at, clock in ((OWN, self.processes[0]), (address, self.processes[number])):
            name = self.names[0 if at is OWN else number]
            machine = name.partition("/")[0]
            self.clocks.tell(at, at or "the coordinator", machine, clock.own_ms(), now)
        common = self.clocks.common(self.passed_s)
        assert common is not None
        self.processes[0].told(common)

    def passes(self, seconds: float) -> None:
        """Time passes, and all hosts are pinged."""
        self.passed_s += seconds
        for number in range(1, len(self.processes)):
            self.ping(number)

    def ahead_s(self) -> list[float]:
        """By how much each process's time is ahead of the true one."""
        return [round((one.now_ms() - self.true_ms) / 1000) for one in self.processes]

    def off(self) -> dict[str, str]:
        return {one.subject: one.text for one in self.clocks.conditions()}


def test_a_host_that_starts_400_days_ahead_or_behind_has_the_others_time_from_the_start() -> (
    None
):
    for days in (400, -400):
        service = Service(["a", "b", "c", "d"], {"d": days * DAY_MS})

        assert service.ahead_s() == [0, 0, 0, 0]
        way = "ahead of" if days > 0 else "behind"
        assert service.off() == {
            "host-3": f"the clock of host-3 is 400 days {way} the time that 3 of 4 clocks have"
        }


def test_a_clock_that_was_ahead_and_is_set_right_is_believed_again() -> None:
    service = Service(["a", "b", "c"], {"c": 400 * DAY_MS})

    service.walls["c"].off_ms = 5000
    service.passes(1)

    assert service.ahead_s() == [0, 0, 5]
    assert service.off() == {}


def test_a_clock_that_drifts_slowly_is_noticed() -> None:
    service = Service(["a", "b", "c"], {})

    for _ in range(100):
        service.walls["c"].off_ms += 900
        service.passes(60)

    assert list(service.off()) == ["host-2"]
    assert service.ahead_s() == [0, 0, 0]


def test_who_has_gone_has_no_vote() -> None:
    service = Service(["a", "b", "c"], {"b": 400 * DAY_MS})
    assert list(service.off()) == ["host-1"]

    service.clocks.keep(["host-2"])
    service.ping(2)

    assert service.off() == {}


def test_a_coordinator_that_starts_ahead_leaves_log_time_alone() -> None:
    service = Service(["a", "b", "c"], {"a": 400 * DAY_MS})

    assert service.ahead_s() == [0, 0, 0]
    assert list(service.off()) == ["the coordinator"]


def test_of_two_clocks_the_earlier_holds() -> None:
    assert Service(["a", "b"], {"a": 400 * DAY_MS}).ahead_s() == [0, 0]
    assert Service(["a", "b"], {"b": 400 * DAY_MS}).ahead_s() == [0, 0]


def test_the_machine_with_most_processes_does_not_outvote_the_others() -> None:
    off = dict.fromkeys(["a/0", "a/1", "a/2", "a/3"], 400 * DAY_MS)
    service = Service([*off, "b", "c"], off)
    service.passes(1)

    assert service.ahead_s() == [0] * 6


def test_the_processes_of_the_only_machine_decide_about_each_other() -> None:
    service = Service(["a/0", "a/1", "a/2", "a/3"], {"a/2": -400 * DAY_MS})
    service.passes(1)

    assert service.ahead_s() == [0, 0, 0, 0]


def test_a_new_coordinator_that_is_ahead_does_not_take_hosts_along() -> None:
    service = Service(["a", "b", "c", "d"], {"a": 400 * DAY_MS})
    hosts = service.processes[1:]
    assert [one.now_ms() - NOW_MS for one in hosts] == [0, 0, 0]

    successor = Clocks()
    service.clocks = successor
    for number in (1, 2, 3):
        service.passed_s += 1
        service.ping(number)
        service.ping(number)
        assert [one.now_ms() - service.true_ms for one in hosts] == [0, 0, 0]


def test_what_most_clocks_jump_to_is_followed_at_twice_the_speed_of_time() -> None:
    service = Service(["a", "b", "c"], {"c": -DAY_MS})
    assert service.ahead_s() == [0, 0, 0]
    del service.processes[1:]
    service.clocks = Clocks()
    service.names = ["c", "x", "y"]
    for name in ("x", "y"):
        service.walls[name] = Wall(service, 400 * DAY_MS)
        service.start(name)

    service.passes(30)

    assert service.ahead_s()[0] <= 60


@given(
    st.lists(st.integers(-OFF_MS // 2, OFF_MS // 2), min_size=2, max_size=6),
    st.integers(-400 * DAY_MS, 400 * DAY_MS),
    st.data(),
)
def test_with_one_wrong_clock_no_process_is_off_by_more_than_the_bound(
    right: list[int], wrong: int, data: st.DataObject
) -> None:
    offsets = [*right]
    place = data.draw(st.integers(0, len(right)))
    offsets.insert(place, wrong)
    names = [str(number) for number in range(len(offsets))]
    service = Service(names, dict(zip(names, offsets, strict=True)))
    for _ in range(3):
        service.passes(1)

    assert all(abs(one) <= 1.5 * OFF_MS / 1000 + 1 for one in service.ahead_s())


async def test_the_coordinator_tells_of_a_clock_that_is_off(host: DeafHost) -> None:
    host.clock_ms = NOW_MS + 400 * DAY_MS
    service = await started(host, Service(["a"], {}).processes[0])

    found = (await service.status())["conditions"]

    assert [(one["code"], one["subject"]) for one in found] == [(CLOCK_OFF, "host-0")]
    assert host.told is not None
    assert abs(host.told.ms - NOW_MS) < OFF_MS  # The loop may be busy meanwhile.
