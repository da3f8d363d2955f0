"""Plays a transcript: what happens to actors of one partition, and the effects that it has.

    # Lines that begin with # are for the reader.
    a is assigned to lead for broker 1
    a has no checkpoint
      read the log from batch 0 on

What happens stands at the margin; `HAPPENS` has all that can. Effects are indented. Callers are
numbered in the order in which they come.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from tests.models.actors.harness import (
    CREATED,
    EXISTS,
    NOW_MS,
    SERDE,
    UNKNOWN,
    SlotStore,
    added,
    assigned,
    finished,
    kinds,
)
from tests.models.events.driven_partition import GENESIS, NO_REQUEST, TIP, command_of
from tierledger.actors import messages as msg
from tierledger.actors.follower import Follower
from tierledger.actors.leader.machine import Leader
from tierledger.events import commands as cmd
from tierledger.events.errors import StorageUnavailable
from tierledger.events.partition.decide import Limits
from tierledger.events.partition.state import PartitionState
from tierledger.simulation.checkers.slow.model import (
    DELETE_FINISHED,
    DELETE_STARTED,
    Record,
    Update,
)
from tierledger.storage.partition.event_log import StoredBatch, decode_batch

AWAY = StorageUnavailable("the store is away")
RECORDS: dict[str, Callable[[int], Record]] = {
    "add": added,
    "finish": finished,
    "begin to delete": lambda number: Update(bytes([number]) * 16, DELETE_STARTED, 1),
    "delete": lambda number: Update(bytes([number]) * 16, DELETE_FINISHED, 1),
}


def claim_of(broker: str, announcement: str | None = None) -> cmd.Claim:
    return cmd.Claim(int(broker), 1, int(announcement or 1))


class Transcript:
    """Some actors of one partition, their store, and the oracle."""

    def __init__(self) -> None:
        self.store = SlotStore()
        self.machines: dict[str, Leader | Follower] = {}
        self._asked: dict[str, deque[msg.Effect]] = {}
        """By actor, what it has asked the store and was not answered yet."""
        self._questions: dict[str, deque[msg.AskOracle]] = {}
        self._callers = self._assignments = 0

    def play(self, text: str) -> str:
        """`text` with the effects that each of its lines has now."""
        lines = []
        for line in text.splitlines():
            if line.startswith("  "):
                continue
            lines.append(line)
            if line and not line.startswith("#"):
                lines += [f"  {effect}" for effect in self._happens(line)]
        return "\n".join(lines) + "\n"

    def _happens(self, line: str) -> list[str]:
        for pattern, happens in HAPPENS.items():
            if (found := re.fullmatch(pattern, line)) is not None:
                return happens(self, *found.groups())
        raise ValueError(f"nothing that can happen: {line!r}")

    # Actors.

    def leader(self, name: str, broker: str, epoch: str | None) -> list[str]:
        self._assignments += 1
        leader_epoch = None if epoch is None else int(epoch)
        first = assigned(self._assignments, claim_of(broker), leader_epoch)
        self._joins(name, Leader(SERDE, Limits(), first))
        return []

    def leads(self, name: str, broker: str, epoch: str | None) -> list[str]:
        """How an actor comes to lead is in first-claim.txt; here it does without words."""
        self.leader(name, broker, epoch)
        self.loads(name)
        self.settled(name)
        return []

    def follower(self, name: str) -> list[str]:
        self._joins(name, Follower(SERDE))
        return []

    def _joins(self, name: str, machine: Leader | Follower) -> None:
        self.machines[name], self._asked[name] = machine, deque()
        self._questions[name] = deque()

    def hear(self, name: str, stimulus: msg.Stimulus) -> list[str]:
        """Let the actor handle `stimulus`; its effects in words."""
        effects = self.machines[name].handle(stimulus)
        for effect in effects:
            match effect:
                case msg.ReadLog() | msg.Append() | msg.ReadSlot() | msg.WriteCheckpoint():
                    self._asked[name].append(effect)
                case msg.AskOracle():
                    self._questions[name].append(effect)
                case _:
                    pass
        replies = msg.Reply | msg.ReplyError | msg.Answer
        heard = [one for one in effects if not isinstance(one, replies) or one.reply_to]
        return [self._words(name, effect) for effect in heard]

    # Callers.

    def claims(self, name: str, broker: str, announcement: str, epoch: str | None) -> list[str]:
        self._assignments += 1
        claim = claim_of(broker, announcement)
        leader_epoch = None if epoch is None else int(epoch)
        told = assigned(self._assignments, claim, leader_epoch, self._caller())
        return self.hear(name, told)

    def writes(self, name: str, broker: str, what: str, number: str) -> list[str]:
        command = command_of(RECORDS[what](int(number)), claim_of(broker), NO_REQUEST)
        return self.hear(name, msg.CommandArrived(self._caller(), command, NOW_MS))

    def lookup(self, name: str, position: str | None) -> list[str]:
        asked = msg.QueryArrived(self._caller(), msg.Query("lookup"), int(position or -1))
        return self.hear(name, asked)

    def stop(self, name: str, released: str | None) -> list[str]:
        return self.hear(name, msg.StopArrived(None, NOW_MS, is_released=released is not None))

    def hint(self, name: str, position: str) -> list[str]:
        return self.hear(name, msg.HintArrived(int(position)))

    def _caller(self) -> int:
        self._callers += 1
        return self._callers

    # Store and oracle.

    def loads(self, name: str) -> list[str]:
        return self.hear(name, msg.StateLoaded(PartitionState(TIP, GENESIS), 0))

    def answered(self, name: str) -> list[str]:
        match self._asked[name].popleft():
            case msg.ReadLog(number=number):
                return self.hear(name, msg.LogRead(number, self.store.read_from(number)))
            case msg.Append(number=number, value=value):
                outcome = self.store.create(number, value)
                return self.hear(name, msg.AppendAnswered(number, outcome))
            case msg.ReadSlot(number=number):
                return self.hear(name, msg.SlotRead(number, self.store.read(number)))
            case _:
                return self.hear(name, msg.CheckpointDone(stored=True))

    def settled(self, name: str) -> list[str]:
        effects: list[str] = []
        while self._asked[name]:
            effects += self.answered(name)
        return effects

    def in_doubt(self, name: str, what: str) -> list[str]:
        append = self._append(name)
        if what == "stored":
            assert self.store.create(append.number, append.value) in {CREATED, EXISTS}
        return self.hear(name, msg.AppendAnswered(append.number, UNKNOWN))

    def refused(self, name: str) -> list[str]:
        return self.hear(name, msg.AppendRefused(self._append(name).number, AWAY))

    def _append(self, name: str) -> msg.Append:
        append = self._asked[name].popleft()
        assert isinstance(append, msg.Append), append
        return append

    def unread(self, name: str) -> list[str]:
        asked = self._asked[name].popleft()
        if isinstance(asked, msg.ReadSlot):
            return self.hear(name, msg.ProbeFailed(asked.number, AWAY))
        return self.hear(name, msg.LoadFailed(AWAY))

    def oracle(self, name: str, broker: str | None, epoch: str | None) -> list[str]:
        asked = self._questions[name].popleft()
        verdict = None if broker is None else cmd.LeaderVerdict(int(broker), int(epoch or 0))
        told = msg.OracleAnswered(asked.claim, verdict, NOW_MS, asked.number)
        return self.hear(name, told)

    def log(self) -> list[str]:
        """The log as it stands, batch by batch."""
        return [
            f"batch {number}: {', '.join(self._kinds(number, value))}"
            for number, value in enumerate(self.store.slots)
        ]

    # Words.

    def _kinds(self, number: int, value: bytes) -> list[str]:
        previous, position, found = GENESIS, 0, []
        for at, one in enumerate([*self.store.slots[:number], value]):
            decoded = decode_batch(SERDE, StoredBatch(at, one), position, previous)
            previous, position = decoded.chain_hash, position + len(decoded.events)
            found = kinds(list(decoded.events))
        return found

    def _words(self, name: str, effect: msg.Effect) -> str:  # noqa: C901, PLR0911 - A line each.
        match effect:
            case msg.ReadLog(number=number):
                return f"read the log from batch {number} on"
            case msg.Append(number=number, value=value):
                return f"append batch {number}: {', '.join(self._kinds(number, value))}"
            case msg.ReadSlot(number=number, delay_ms=delay_ms):
                return f"read slot {number}" + (f" in {delay_ms} ms" if delay_ms else "")
            case msg.Reply(reply_to=caller, position=position):
                return f"caller {caller}: done, position {position}"
            case msg.ReplyError(reply_to=caller, error=error):
                return f"caller {caller}: {type(error).__name__}, {error}"
            case msg.Answer(reply_to=caller, stale=is_stale):
                position = self.machines[name].position
                return f"caller {caller}: as of position {position}" + ", stale" * is_stale
            case msg.AskOracle(claim=claim, delay_ms=delay_ms):
                late = f" in {delay_ms} ms" if delay_ms else ""
                return f"ask Kafka{late} whether broker {claim.broker_id} leads"
            case msg.ClaimRefused(assignment=number, is_served=is_served):
                return f"assignment {number} is refused" + ", lead on" * is_served
            case msg.WriteCheckpoint(next_batch=number):
                return f"write the checkpoint before batch {number}"
            case msg.HeadMoved(position=position):
                return f"tell followers: position {position}"
            case msg.Alarm(kind=kind, message=message):
                return f"alarm {kind}: {message}"
            case msg.Gone(reason=reason):
                return f"gone: {reason}"


HAPPENS: dict[str, Callable[..., list[str]]] = {
    r"(\w+) is to lead for broker (\d)(?: in leader epoch (\d+))?": Transcript.leader,
    r"(\w+) leads for broker (\d)(?: in leader epoch (\d+))?": Transcript.leads,
    r"(\w+) is to follow": Transcript.follower,
    r"(\w+) finds no checkpoint": Transcript.loads,
    r"the store answers (\w+)": Transcript.answered,
    r"the store answers (\w+) until nothing is asked": Transcript.settled,
    r"the append of (\w+) is (stored|lost) and not answered": Transcript.in_doubt,
    r"the store refuses the append of (\w+)": Transcript.refused,
    r"the store cannot read for (\w+)": Transcript.unread,
    r"(\w+) hears broker (\d) claim, announcement (\d+)(?:, leader epoch (\d+))?": (
        Transcript.claims
    ),
    r"(\w+) hears broker (\d) (add|finish|begin to delete|delete) segment (\d+)": (
        Transcript.writes
    ),
    r"(\w+) hears a lookup(?: of one who saw position (\d+))?": Transcript.lookup,
    r"(\w+) hears that the log has position (\d+)": Transcript.hint,
    r"(\w+) is to stop(, no broker hosts the partition)?": Transcript.stop,
    r"Kafka tells (\w+) that broker (\d) leads in leader epoch (\d+)": Transcript.oracle,
    r"Kafka tells (\w+) (nothing)": lambda one, name, _: one.oracle(name, None, None),
    r"the log has": Transcript.log,
}
"""What can happen, as a pattern of its line."""
