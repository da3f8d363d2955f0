"""A checker of what hosts, leaders and followers remember between messages.

Which placements are late, which claims wait for the oracle or for a look at the log's end, and
what the next checkpoint holds are small tables with rules of their own. They get random
messages, and so does a plain list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any

from tierledger.actors import messages as msg
from tierledger.actors.calls import FOLLOWER, LEADER, PartitionKey, Placement
from tierledger.actors.follower import Follower
from tierledger.actors.host.placement_order import PlacementOrder
from tierledger.actors.leader.checkpoints import Checkpoints
from tierledger.actors.leader.claim import WaitingClaims
from tierledger.events import commands as cmd
from tierledger.events.errors import NotLeader, StorageUnavailable
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.content import first_difference
from tierledger.simulation.checkers.violation import ASKED, Violation
from tierledger.storage.serde import MsgpackSerDe

CLAIM = cmd.Claim(1, 1, 1)

GONE = NotLeader("asked")


def wrong_memory(seed: int, count: int) -> Iterator[Violation]:
    """One of `count` random messages has another result than all messages before it imply."""
    for ask in (_order_differs, _waiting_differs, _checkpoints_differ, _readiness_differs):
        try:
            why = ask(Random(f"{seed}:{ask.__name__}"), count)
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError) as error:
            why = f"{ask.__name__}: a message leads to {error!r}"
        if why is not None:
            yield Violation("wrong_memory", None, f"{ASKED}: {why}")


def _order_differs(random: Random, count: int) -> str | None:
    order, heard = PlacementOrder(), list[Placement]()
    runs: dict[tuple[PartitionKey, str], int] = {}
    ended: list[tuple[PartitionKey, int]] = []
    for _ in range(count):
        leaders = [(key, number) for (key, role), number in runs.items() if role == LEADER]
        if leaders and random.random() < 0.1:
            ended.append(leaders[0])
            order.ended(*ended[-1])
            del runs[ended[-1][0], LEADER]
        key, number = (
            PartitionKey(bytes(16), int(random.random() * 2)),
            int(random.random() * 9),
        )
        role = LEADER if random.random() < 0.5 else FOLLOWER
        placement = Placement(key, "orders", role, msg.Assignment(number, CLAIM))
        if random.random() < 0.4:
            placement = Placement(key, "orders", role, None, number)
        of_seat = [one for one in heard if (one.key, one.role) == (key, role)]
        released = max((one.until for one in of_seat if one.assignment is None), default=-1)
        known = runs.get((key, role))
        if placement.assignment is None:
            is_late = known is None or known > number
        else:
            newest = -1 if known is None else known
            is_repeat = number == known and role == LEADER
            ends = [last for one, last in ended if (one, LEADER) == (key, role)]
            is_late = number <= released or number < max([newest, *ends]) or is_repeat
        if order.is_late(placement, known) != is_late:
            late = f"{'not ' * is_late}late"
            return f"{placement!r:.300} is {late} where {known} runs, {released} went"
        heard.append(placement)
        if not is_late and placement.assignment is None:
            del runs[key, role]
        elif not is_late:
            runs[key, role] = number
    return None


def _waiting_differs(random: Random, count: int) -> str | None:
    claims, plain = WaitingClaims(), dict[int, tuple[int, msg.CommandArrived]]()
    asked = 0

    def pick(*among: Any) -> Any:  # noqa: ANN401
        return among[int(random.random() * len(among))]

    for step in range(count):
        claim = cmd.Claim(pick(1, 2), pick(1, 1, 2), pick(1, 2))
        broker_id = claim.broker_id
        number, waiting = plain.get(broker_id, (0, None))
        before = len(plain)
        expected: Any
        action = pick("hold", "hold", "answer", "answer", "withdraw", "release")
        match action:
            case "hold":
                command = cmd.OpenSession(claim, pick(1, 2, 3), None, "orders", pick(None, "a"))
                command = command._replace(waited_ms=pick(0, 5), verdict=cmd.NOBODY_KNOWS)
                arrived, delay_ms = msg.CommandArrived(step, command, step), pick(0, 7)
                asked += 1
                found: Any = [_plain(one) for one in claims.hold(arrived, delay_ms)]
                expected = [(claim, delay_ms, asked)]
                if waiting is not None and _age(waiting) > _age(arrived):
                    expected = [(step, "Fenced")]
                else:
                    if waiting is not None:
                        expected.insert(0, (waiting.reply_to, "Fenced"))
                    waited = command.waited_ms + delay_ms
                    later = command._replace(waited_ms=waited, verdict=None)
                    plain[broker_id] = asked, arrived._replace(command=later)
            case "answer":
                verdict = pick(None, cmd.LeaderVerdict(1, 3))
                answer = msg.OracleAnswered(claim, verdict, 99, max(0, number - pick(0, 0, 1)))
                found, expected = claims.answered(answer), None
                if waiting is not None and answer.number == number:
                    del plain[broker_id]
                    imports = getattr(waiting.command, "import_cluster", None) is not None
                    expected = _asked(waiting, verdict=verdict or cmd.NOBODY_KNOWS)
                    expected = expected._replace(now_ms=waiting.now_ms if imports else 99)
            case "withdraw":
                found = [_plain(one) for one in claims.withdraw([claim])]
                expected = []
                if waiting is not None and _age(waiting)[:2] == claim[1:]:
                    del plain[broker_id]
                    expected = [(waiting.reply_to, "Fenced")]
            case _:
                held = sorted((one for _, one in plain.values()), key=lambda one: _age(one)[2])
                plain = {}
                if random.random() < 0.5:
                    found, expected = (
                        claims.release(),
                        [_asked(one, waited_ms=0) for one in held],
                    )
                else:
                    found = [_plain(one) for one in claims.drop(GONE)]
                    expected = [(one.reply_to, "NotLeader") for one in held]
        if found != expected or len(claims) != len(plain):
            return (
                f"message {step}, to {action} {claim} where {before} claims wait, leads to "
                f"{first_difference([found, len(claims)], [expected, len(plain)])}"
            )
    return None


def _age(arrived: msg.CommandArrived) -> tuple[int, int, int]:
    command = arrived.command
    assert isinstance(command, cmd.OpenSession), "only claims wait"
    return (*command.claim[1:], command.assignment)


def _asked(arrived: msg.CommandArrived, **fields: Any) -> msg.CommandArrived:  # noqa: ANN401
    command = arrived.command
    assert isinstance(command, cmd.OpenSession), "only claims wait"
    return arrived._replace(command=command._replace(**fields))


def _plain(effect: msg.Effect) -> tuple[Any, ...]:
    if isinstance(effect, msg.ReplyError):
        return (effect.reply_to, type(effect.error).__name__)
    return tuple(effect)


def _checkpoints_differ(random: Random, count: int) -> str | None:
    checkpoints, waiting, held = Checkpoints(), 0, 0
    is_writing = False
    for step in range(count):
        chance, events = random.random(), int(random.random() * 4)
        if chance < 0.4:
            checkpoints.applied(events)
            waiting += events
        elif chance < 0.7:
            least, expected = int(random.random() * 6), list[msg.Effect]()
            if not is_writing and waiting >= least:
                expected, is_writing = [msg.WriteCheckpoint(step)], True
                waiting, held = 0, waiting
            if checkpoints.due(least, step) != expected:
                return f"of {waiting or held} events a checkpoint is due, or not: {expected}"
        elif is_writing:
            is_again = random.random() < 0.5
            checkpoints.done(msg.CheckpointDone(stored=not is_again, again=is_again))
            is_writing, waiting = False, waiting + held * is_again
        most = int(random.random() * 6)
        if checkpoints.is_writing != is_writing or (
            checkpoints.holds_back(most) != (is_writing and waiting >= most)
        ):
            return f"a checkpoint is written, or holds back {waiting} events, or not"
    return None


def _readiness_differs(random: Random, count: int) -> str | None:
    """A follower is ready for other claims than it should be, or forgets one."""
    asked = _AskedFollower()
    for step in range(count):
        asked.happen(step, random.random(), random)
        why = asked.differs()
        if why is not None:
            return f"message {step} to a follower: {why}"
    return None


class _AskedFollower:
    """A follower of an empty log, and for which claims it may be ready.

    That is so once a look at the next slot that began when the claim was there found nothing.
    """

    def __init__(self) -> None:
        self._follower = Follower(MsgpackSerDe())
        self._came: dict[cmd.Claim, int] = {}
        self._newest: dict[int, cmd.Claim] = {}
        self._ready: set[cmd.Claim] = set()
        self._under_way: deque[tuple[msg.Effect, int]] = deque()
        """Reads, each with the step of its beginning."""
        tip = TopicIdPartition(Uuid(bytes(16)), 0, "orders")
        self._tell(0, msg.StateLoaded(PartitionState(tip, bytes(32)), 0))

    def _tell(self, step: int, stimulus: msg.Stimulus) -> None:
        for effect in self._follower.handle(stimulus):
            if isinstance(effect, msg.ReadLog | msg.ReadSlot):
                self._under_way.append((effect, step))

    def happen(self, step: int, chance: float, random: Random) -> None:
        """Let a claim or a hint come, or a read end."""
        if chance < 0.2:
            broker_id, number = (int(random.random() * most) for most in (2, 9))
            self._claimed(step, cmd.Claim(broker_id, 1, number))
        elif chance < 0.3:
            self._tell(step, msg.HintArrived(step))
        elif self._under_way:
            effect, began = self._under_way.popleft()
            if isinstance(effect, msg.ReadLog):
                self._tell(step, msg.LogRead(effect.number, (), is_end=True))
            elif chance < 0.5:
                self._tell(step, msg.ProbeFailed(0, StorageUnavailable("asked")))
            elif chance < 0.6:
                self._tell(step, msg.SlotRead(0, b"written since"))
            else:
                claims = self._newest.values()
                self._ready |= {one for one in claims if self._came[one] <= began}
                self._tell(step, msg.SlotRead(0, None))

    def _claimed(self, step: int, claim: cmd.Claim) -> None:
        former = self._newest.get(claim.broker_id, claim)
        if former <= claim:
            self._ready.discard(former)
            self._newest[claim.broker_id] = claim
            self._came.setdefault(claim, step)
        self._tell(step, msg.Assigned(msg.Assignment(step, claim), None, 0))

    def differs(self) -> str | None:
        """How the follower's readiness is wrong; none if it is not."""
        for claim in self._newest.values():
            is_ready = self._follower.is_ready_for(claim)
            if is_ready and claim not in self._ready:
                return f"it is ready for {claim}, and has not looked since that came"
            if not (is_ready or self._under_way):
                return f"it is not ready for {claim}, and no longer looks"
        return None
