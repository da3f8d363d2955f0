"""A clock that asks what happens next: a message may be late, and a process may crash.

Messages take no time. They are delivered in the order of their receivers (`RANKS`), and each
receiver's in the order they were sent; time passes when none is under way. Two moments count
as one if every process has taken the same steps to get there. A step is named after all that
led to it, so the state of processes need not be compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from typing_extensions import override

from tierledger.events.errors import InvalidArgument, OutcomeUnknown
from tierledger.simulation.checkers.content import content
from tierledger.simulation.machines.environment.clockwork import Clockwork, Life
from tierledger.simulation.machines.environment.medium import Medium

if TYPE_CHECKING:
    from tierledger.simulation.exhaust.script import Bounds
    from tierledger.simulation.machines.world import World

STORE, WORLD = "store", "world"
"""Actors beside the processes."""

RANKS = {WORLD: 0, STORE: 1, "host": 2, "broker": 3, "coordinator": 4}
"""Receivers, in the order in which their messages are delivered."""

MORTAL = frozenset({"host", "coordinator"})
"""Kinds of processes that may crash."""

WRITES = frozenset({"_create", "_write_state"})
"""Writes to the store; without a reply, their outcome is unknown to the sender."""

Choice: TypeAlias = "tuple[Any, ...]"
"""("hold",), ("release", which), ("give up",), or ("crash", site, whether it loses writes)."""


class Step(NamedTuple):
    """One thing that an actor is to do."""

    name: bytes
    actor: str
    """The name of a process's life, `STORE` or `WORLD`."""
    site: str
    life: Life | None
    call: Callable[..., None]
    args: tuple[Any, ...]
    is_message: bool
    is_answer: bool
    """Whether it is the store's reply to a write."""

    @property
    def is_write(self) -> bool:
        """Whether it is a write on its way to the store."""
        return self.actor == STORE and getattr(self.args[1], "__name__", "") in WRITES

    @property
    def is_awaited(self) -> bool:
        """Whether it is a write whose sender waits for its reply, or that reply."""
        return self.is_answer or (self.is_write and self.args[3] is not None)

    @property
    def is_nobodys(self) -> bool:
        return self.life is not None and self.life.is_dead

    def is_request_of(self, life: Life) -> bool:
        return self.actor == STORE and self.args[0] is life


class Orders(Clockwork):
    """The clock of one run; `decide` may choose another step than the one that comes first."""

    def __init__(
        self,
        begins: int,
        decide: Callable[[Orders], Choice | None],
        lines: list[str] | None = None,
    ) -> None:
        """`begins`: when (us) the first message may be late; `lines`: one for each step."""
        super().__init__()
        self.world: World
        self.held: list[Step] = []
        """Messages that are held back, and so are late."""
        self.late = self.crashes = self.asked = 0
        self.is_open = True
        """Whether anything may still be late or crash."""
        self._begins, self._decide, self._lines = begins, decide, lines
        self._queues: dict[str, deque[Step]] = {}
        self._timers: list[tuple[int, int, Step]] = []
        self._steps_of: dict[str, bytes] = {}
        """A digest of each process's steps so far."""
        self._actor, self._led, self._sent, self._is_write = WORLD, b"", 0, False
        """Actor of the present step, digest of what led to it, and how much it has sent."""
        self._touched = ""
        """The site of the last delivery, if no time has passed since; else empty."""
        self._is_fresh = False
        """Whether a message was delivered since time last passed."""
        self._history: tuple[bytes, int, tuple[bool, ...]] = (b"", 0, ())
        self._counts = (0, 0, 0)

    # Sending.

    @override
    def at(self, when: int, life: Life | None, call: Callable[..., None], *args: Any) -> None:
        actor, site, sender = WORLD, WORLD, self._actor
        if life is not None:
            actor, site = life.name, life.site
        elif isinstance(getattr(call, "__self__", None), Medium):
            actor, site, sender = STORE, STORE, args[0].name
        self._sent += 1
        is_message = when <= self.now and WORLD not in (actor, sender) and actor != sender
        is_answer = self._is_write and self._actor == STORE
        name = _digest(self._led, b"%d" % self._sent)
        step = Step(name, actor, site, life, call, args, is_message, is_answer)
        if when <= self.now:
            self._queue(step)
        else:
            self._count += 1
            heappush(self._timers, (when, self._count, step))

    @override
    def after(
        self, delay: int, life: Life | None, call: Callable[..., None], *args: Any
    ) -> None:
        self.at(self.now + delay, life, call, *args)

    @override
    def step(self, life: Life, call: Callable[..., None], *args: Any) -> None:
        if not life.is_dead:
            with self._stepping(life.name, self._led):
                call(*args)

    def _queue(self, step: Step) -> None:
        self._queues.setdefault(step.site, deque()).append(step)

    # Running.

    @override
    def run(self, until: int) -> None:
        self.is_stopped = False
        while not self.is_stopped:
            head, is_due = self.head, bool(self._timers) and self._timers[0][0] <= until
            if head is None and not is_due and not self.is_open:
                break
            self.asked += 1
            may_choose = self.is_open and self.now >= self._begins
            choice = self._decide(self) if may_choose else None
            if may_choose and self._lines is not None and (choice or head):
                self._lines.append(f"{self.asked:5d}  {self._text(choice)}")
            if choice is not None:
                self._apply(choice)
            elif head is not None:
                self._deliver(self._queues[head.site].popleft())
            elif is_due:
                self._pass_time()
            else:
                self._close()
        if not self.is_stopped:
            self.now = max(self.now, until)

    @property
    def head(self) -> Step | None:
        """The step that comes first; none if nothing is under way."""
        for site in sorted(self._queues, key=_rank):
            queue = self._queues[site]
            while queue and queue[0].is_nobodys:
                queue.popleft()
            if queue:
                return queue[0]
        return None

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way, but something was since time last passed."""
        return self._is_fresh and self.head is None

    def _close(self) -> None:
        """Deliver all late messages; from here on nothing is late."""
        self.is_open = False
        for step in self.held:
            self._queue(step)
        self.held.clear()

    def _pass_time(self) -> None:
        when, _, step = heappop(self._timers)
        self.now, self._touched, self._is_fresh = max(self.now, when), "", False
        if step.is_message:
            self._queue(step)
        else:
            self._make(step)

    def _deliver(self, step: Step) -> None:
        self._make(step)
        self._touched = step.site if step.is_message else ""
        self._is_fresh |= step.is_message

    def _make(self, step: Step) -> None:
        if step.is_nobodys:
            return
        self.now += 1
        self.steps += 1
        with self._stepping(step.actor, step.name, is_write=step.is_write):
            step.call(*step.args)
            self._note_history()

    @contextmanager
    def _stepping(self, actor: str, led: bytes, *, is_write: bool = False) -> Iterator[None]:
        """Within the block, `actor` takes a step that `led` has led to."""
        before = (self._actor, self._led, self._sent, self._is_write)
        steps = self._steps_of
        seen = [steps.get(actor, b""), led]
        if actor == WORLD:
            seen += (steps[one] for one in sorted(steps))
        elif actor.startswith("coordinator"):  # It looks at hosts in place of pings.
            seen += (steps[one] for one in sorted(steps) if one.startswith("host"))
        self._actor, self._led, self._sent = actor, _digest(*seen), 0
        self._is_write = is_write
        if actor != STORE or is_write:
            steps[actor] = self._led
        yield
        if actor == WORLD:  # It may have changed any process.
            for one, done in steps.items():
                steps[one] = _digest(done, self._led)
        self._actor, self._led, self._sent, self._is_write = before

    def _note_history(self) -> None:
        """Note the order of ends and beginnings; equal ones in a row have no order."""
        recorder = self.world.recorder
        counts = (recorder.count, recorder.ended, len(self.world.medium.durable_at))
        if counts != self._counts:
            kind = tuple(one != other for one, other in zip(counts, self._counts, strict=True))
            done, run, former = self._history
            number = int.from_bytes(self._led)
            is_same = kind == former and sum(kind) == 1
            self._history = (
                (done, run ^ number, kind)
                if is_same
                else (_digest(done, b"%d" % run), number, kind)
            )
            self._counts = counts

    # What may happen.

    def alternatives(self, bounds: Bounds) -> list[Choice]:
        """The choices that are possible now in place of the step that comes first."""
        head, choices = self.head, list[Choice]()
        if head is not None and head.is_message:
            if self.late < bounds.delays:
                choices.append(("hold",))
            if self.crashes < bounds.crashes:
                choices += self._crashes_at(head)
        for at, step in enumerate(self.held):
            if self.is_quiet or step.site == self._touched:
                choices.append(("release", at))
        if self.is_quiet and any(one.is_awaited for one in self.held):
            choices.append(("give up",))
        return choices

    def _crashes_at(self, head: Step) -> list[Choice]:
        """A host or coordinator crashes before a delivery, or before its write has landed."""
        if head.actor == STORE:  # A crash after the landing is another choice.
            life = head.args[0]
            return [("crash", life.site, True)] if head.is_write and not life.is_dead else []
        if head.life is None or head.site.partition("-")[0] not in MORTAL:
            return []
        under_way = (*self._queues.get(STORE, ()), *self.held)
        loses = any(one.is_write and one.is_request_of(head.life) for one in under_way)
        return [("crash", head.site, one) for one in ((False, True) if loses else (False,))]

    def key(self) -> bytes:
        """A digest that is equal iff two moments count as one."""
        touched = self._touched if any(one.site == self._touched for one in self.held) else ""
        done, run, _ = self._history
        return _digest(
            touched.encode(),
            b"%d" % run,
            done,
            *(one.encode() + steps for one, steps in sorted(self._steps_of.items())),
            *(one.name for site in sorted(self._queues) for one in self._queues[site]),
            b"late",
            *sorted(one.name for one in self.held),
            b"later",
            *sorted(one.name for _, _, one in self._timers),
        )

    def _text(self, choice: Choice | None) -> str:
        """The next step as text for people."""
        match choice:
            case ("crash", str(site), bool(loses)):
                return f"CRASH of {site}" + (", its writes are lost" if loses else "")
            case ("give up",):
                return "who waits for the store's answer gives up"
            case _:
                pass
        late = choice[1] if choice and choice[0] == "release" else len(self.held)
        step = self.held[late] if late < len(self.held) else self.head
        if step is None:
            return "nothing is under way"
        what = f"{step.actor}: {step.call.__name__.strip('_')} {content(step.args)}"
        return what + ("" if choice is None else f"  {choice[0].upper()}")

    def _apply(self, choice: Choice) -> None:
        head, self._touched = self.head, ""
        match choice:
            case ("hold",) if head is not None:
                self.held.append(self._queues[head.site].popleft())
                self.late += 1
            case ("release", int(at)) if at < len(self.held):
                self._deliver(self.held.pop(at))
            case ("crash", str(site), bool(loses)) if life := self.world.at_site(site):
                self._crash(life, loses=loses)
            case ("give up",):
                self._give_up()
            case _:
                raise InvalidArgument(f"nobody can {choice[0]} at step {self.asked}")

    def _crash(self, life: Life, *, loses: bool) -> None:
        """End a process; `loses`: its writes that are under way never land."""
        self.crashes += 1
        with self._stepping(WORLD, b"%s %d" % (life.name.encode(), loses)):
            self.world.kill(life)
        if loses:
            kept = [one for one in self._queues.get(STORE, ()) if not one.is_request_of(life)]
            self._queues[STORE] = deque(kept)
        self.held = [
            one
            for one in self.held
            if not one.is_nobodys and not (loses and one.is_request_of(life))
        ]

    def _give_up(self) -> None:
        """Tell all who wait for a write's reply that its outcome is unknown."""
        held, self.held = self.held, []
        for step in held:
            if not step.is_awaited:
                self.held.append(step)
                continue
            life, then, given = step.life, step.call, step.args[1:]
            if step.is_write:  # The write itself may still land.
                life, apply, args, then, given = step.args
                self.held.append(step._replace(args=(life, apply, args, None, ())))
            with self._stepping(STORE, step.name):
                unknown = OutcomeUnknown("the store did not answer")
                self.at(self.now, life, then, unknown, *given)


def _rank(site: str) -> tuple[int, str]:
    return RANKS[site.partition("-")[0]], site


def _digest(*parts: bytes) -> bytes:
    return blake2b(b"\0".join(parts), digest_size=16).digest()
