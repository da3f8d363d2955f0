"""Made-up runs for pictures: a short one that tells a story, a long one with many messages."""

from random import Random

from tierledger.simulation.timeline import Arrow, RunLane, RunMoment, RunTimeline, Span

LANES = [
    *(RunLane(f"broker-{number}", "broker") for number in (1, 2, 3)),
    RunLane("coordinator", "coordinator"),
    *(RunLane(f"host-{number}", "host") for number in (1, 2, 3)),
    RunLane("store", "store"),
]


class Pen:
    """Builds the timeline of a run."""

    def __init__(self, seed: int = 1) -> None:
        self.random = Random(seed)
        self.moments: list[RunMoment] = []
        self.arrows: list[Arrow] = []
        self.spans: list[Span] = []
        self.decisions: list[str] = []

    def decide(self, time: int, text: str) -> None:
        self.decisions.append(text)
        self.moments.append(RunMoment(time, "", "decision", text))

    def mark(
        self,
        time: int,
        lane: str,
        what: str,
        detail: str = "",
        epoch: int | None = None,
        key: str = "",
    ) -> None:
        self.moments.append(RunMoment(time, lane, what, detail, epoch, key))

    def send(
        self,
        time: int,
        source: str,
        target: str,
        what: str,
        detail: str = "",
        epoch: int | None = None,
        key: str = "",
        fate: str = "",
    ) -> int:
        """Send a message; returns its arrival. `fate`: "lost" or "open" if it never arrives."""
        there = time + self.random.randint(300, 900)
        received = None if fate else there
        self.arrows.append(
            Arrow(time, source, target, received, what, detail, fate == "lost", epoch, key)
        )
        return there

    def write(
        self,
        time: int,
        broker: int,
        host: int,
        epoch: int,
        key: str,
        position: int,
        fate: str = "ok",
    ) -> int:
        """Draw a call from a broker through a host to the store and back; returns its end."""
        client, server = f"broker-{broker}", f"host-{host}"
        at = self.send(time, client, server, "call", f"add segment {position}", epoch, key)
        if fate == "lost call":
            self.arrows[-1] = self.arrows[-1]._replace(received_us=None, is_lost=True)
            self.mark(time + 8000, client, "op info", "OutcomeUnknown", epoch, key)
            self.spans.append(Span(client, time, time + 8000, "call", None, key))
            return time + 8000
        at = self.send(at + 20, server, "store", "create", f"batch {position}", epoch, key)
        if fate == "fenced":
            at = self.send(at + 50, "store", server, "exists", f"batch {position}", epoch, key)
            self.mark(at, server, "fenced", f"slot {position} is taken", epoch, key)
            end = self.send(at + 30, server, client, "NotLeader", "", epoch, key)
            self.mark(end, client, "op fail", "NotLeader", epoch, key)
        else:
            self.mark(at, "store", "append", f"{position}", epoch, key)
            at = self.send(at + 50, "store", server, "created", "", epoch, key)
            end = self.send(
                at + 30, server, client, "reply", f"position {position}", epoch, key
            )
            if fate == "lost reply":
                self.arrows[-1] = self.arrows[-1]._replace(received_us=None, is_lost=True)
            self.mark(
                end,
                client,
                "op info" if fate == "lost reply" else "op ok",
                f"position {position}",
                epoch,
                key,
            )
        self.spans.append(Span(client, time, end, "call", None, key))
        return end

    def lead(self, time: int, broker: int, host: int, epoch: int, key: str, until: int) -> int:
        """Draw election, announcement, placement and claim; returns when the broker leads."""
        self.decide(time, f"elect broker-{broker} for {key}, epoch {epoch}")
        self.mark(time, f"broker-{broker}", "elect", f"leads {key}", epoch, key)
        at = self.send(
            time + 40, f"broker-{broker}", "coordinator", "announce", key, epoch, key
        )
        at = self.send(at + 60, "coordinator", "store", "append", "announcement", epoch, key)
        at = self.send(at + 10, "store", "coordinator", "created", "", epoch, key)
        at = self.send(at + 10, "coordinator", f"host-{host}", "place", key, epoch, key)
        at = self.send(at + 20, f"host-{host}", "store", "create", "SessionOpened", epoch, key)
        self.mark(at, "store", "append", "claim", epoch, key)
        at = self.send(at + 20, "store", f"host-{host}", "created", "", epoch, key)
        self.mark(at, f"host-{host}", "claim", f"session {epoch} of {key}", epoch, key)
        self.spans.append(Span(f"host-{host}", at, until, "leads", epoch, key))
        return at

    def timeline(self, title: str, command: str, violations: list[str]) -> RunTimeline:
        return RunTimeline(
            title, command, LANES, self.moments, self.arrows, self.spans, self.decisions,
            violations,
        )  # fmt: skip


def zombie() -> RunTimeline:
    """A host pauses, its successor leads, the host resumes and writes; another host crashes."""
    pen = Pen()
    at = pen.lead(500, 1, 1, 1, "orders-0", 61_000)
    pen.lead(2_000, 3, 3, 1, "orders-1", 30_000)
    for position in range(1, 4):
        at = pen.write(at + 800, 1, 1, 1, "orders-0", position)
    at = pen.write(at + 500, 3, 3, 1, "orders-1", 2, "lost reply")
    pen.decide(at + 300, "pause host-1 for 30 ms")
    paused = at + 300
    pen.mark(paused, "host-1", "pause")
    pen.spans.append(Span("host-1", paused, paused + 30_000, "paused"))
    pen.send(paused + 500, "coordinator", "host-1", "ping", fate="open")
    pen.send(paused + 3_500, "coordinator", "host-1", "ping", fate="open")
    pen.decide(paused + 4_000, "lose the next call of broker-1")
    pen.write(paused + 4_200, 1, 1, 1, "orders-0", 4, "lost call")
    at = pen.lead(paused + 6_000, 2, 2, 2, "orders-0", 90_000)
    for position in range(5, 9):
        at = pen.write(at + 600, 2, 2, 2, "orders-0", position)
    pen.decide(30_000, "crash host-3 after durable, before reply")
    pen.mark(30_000, "host-3", "crash", "after durable, before reply")
    pen.spans.append(Span("host-3", 30_000, 44_000, "dead"))
    pen.mark(44_000, "host-3", "restart")
    pen.decide(38_000, "cut host-2 off from the coordinator")
    pen.mark(38_000, "host-2", "cut", "from the coordinator, one way")
    pen.spans.append(Span("host-2", 38_000, 47_000, "cut off"))
    pen.send(39_000, "host-2", "coordinator", "pong", fate="lost")
    pen.mark(47_000, "host-2", "heal")
    pen.mark(paused + 30_000, "host-1", "resume", "", None)
    pen.write(paused + 30_400, 1, 1, 1, "orders-0", 5, "fenced")
    at = pen.lead(52_000, 3, 3, 2, "orders-1", 90_000)
    pen.write(at + 900, 3, 3, 2, "orders-1", 3)
    pen.mark(70_000, "host-2", "checkpoint", "up to position 8", 2, "orders-0")
    pen.mark(80_000, "broker-1", "violation", "lost write: position 4", None, "orders-0")
    pen.mark(82_000, "host-3", "something new", "that no table knows")
    return pen.timeline(
        "seed 4711: lost-write (shrunk from 812 decisions)",
        "tierledger simulate replay --seed 4711 --mutant M05 --keep 1,4,7,12,13,19",
        ["lost-write: orders-0: operation 3 was acknowledged at position 4, another is there"],
    )  # fmt: skip


def long_run(messages: int = 10_000) -> RunTimeline:
    """A run like a large seed: two partitions, many sessions, and every fault."""
    pen = Pen(7)
    at, epoch = 1_000, 0
    while len(pen.arrows) < messages:
        epoch += 1
        broker, host = pen.random.randint(1, 3), pen.random.randint(1, 3)
        for key in ("orders-0", "orders-1"):
            at = pen.lead(at + 500, broker, host, epoch, key, at + 200_000)
            for position in range(pen.random.randint(5, 60)):
                fate = pen.random.choice(("ok",) * 12 + ("lost reply", "lost call", "fenced"))
                end = pen.write(at, broker, host, epoch, key, position, fate)
                at += pen.random.randint(200, end - at)
        what = pen.random.choice(("dead", "paused", "cut off"))
        pen.mark(at, f"host-{host}", {"dead": "crash", "paused": "pause"}.get(what, "cut"))
        pen.spans.append(Span(f"host-{host}", at, at + 90_000, what))
    return pen.timeline("seed 7", "tierledger simulate replay --seed 7", [])
