"""What a host reports of itself."""

from types import SimpleNamespace
from typing import Any

from tierledger.actors.calls import LEADER
from tierledger.actors.conditions import NO_STEPS, Conditions
from tierledger.actors.host.report import STEP_S, HostReport


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
