"""What a host reports of itself."""

from types import SimpleNamespace
from typing import Any

from tierledger.actors.calls import FOLLOWER, LEADER, HostLoad
from tierledger.actors.conditions import NO_STEPS, Conditions
from tierledger.actors.host.report import LOAD_S_MIN, STEP_S, HostReport


def test_a_host_says_that_a_leader_stands_still_while_callers_wait() -> None:
    machine = SimpleNamespace(waiting=0)
    shell: Any = SimpleNamespace(
        machine=machine, held=0, stepped_s=100.0, topic_id_partition="orders-0"
    )
    unused: Any = None
    report = HostReport(
        "host-0", "p", 1, unused, {(unused, LEADER): shell}, Conditions(lambda: 5), unused
    )

    def said(now_s: float) -> list[str]:
        report.look_for_standstill(now_s)
        return [f"{one['code']}: {one['text']}" for one in report.conditions.plain()]

    assert said(100 + 2 * STEP_S) == []  # Nobody waits.
    machine.waiting = 1
    assert said(100 + STEP_S) == []
    (text,) = said(100 + 2 * STEP_S)
    assert text.startswith(f"{NO_STEPS}: 1 leaders have made no step for 30 s")
    assert "orders-0" in text
    shell.stepped_s = 100 + 2 * STEP_S
    assert said(100 + 2 * STEP_S) == []


async def test_a_host_says_what_its_leaders_were_asked_since_it_said_so_last() -> None:
    unused: Any = None
    shells: Any = {
        (key, role): SimpleNamespace(calls=calls)
        for key, role, calls in (("a", LEADER, 900), ("b", LEADER, 0), ("c", FOLLOWER, 900))
    }
    report = HostReport("host-0", "p", 1, unused, shells, Conditions(lambda: 5), unused)
    took_s = LOAD_S_MIN  # Less than that passes between two looks here.

    assert report.load() is None
    assert report.load() == HostLoad(0.0)
    shells["a", LEADER].calls += 5
    shells["b", LEADER].calls += 10
    shells["c", FOLLOWER].calls += 10
    asked: Any = (("b", 10 / took_s), ("a", 5 / took_s))
    assert report.load() == HostLoad(15 / took_s, asked)
    shells["a", LEADER] = SimpleNamespace(calls=3)  # It was away, and is placed here anew.
    asked = (("a", 3 / took_s),)
    assert report.load() == HostLoad(3 / took_s, asked)
