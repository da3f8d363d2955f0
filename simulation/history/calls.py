"""What callers saw of a service: each call, when it began and ended, and its outcome.

Rule: an outcome is never guessed. "ok" holds from its position on; "fail" has certainly
changed nothing; "info" is in doubt: the call may have taken effect, or may yet.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgpack

from tierledger.actors.calls import LEADER, PartitionKey
from tierledger.actors.messages import Query
from tierledger.actors.queries import QUERIES
from tierledger.events.commands import Claim
from tierledger.events.errors import (
    DataError,
    Fenced,
    InvalidArgument,
    RejectedError,
    RemoteStorageError,
    RetryableError,
)
from tierledger.events.identifiers import Uuid
from tierledger.events.kafka.codec import KafkaValue, decode, encode

T = TypeVar("T")

_pack = msgpack.Packer(autoreset=True).pack
_unhashed = blake2b(digest_size=16)

WRITE = "write"
READ = "read"

OK = "ok"
FAIL = "fail"
INFO = "info"

DEFINITE = (RetryableError, RejectedError, Fenced, DataError)
"""Errors after which a write has certainly not happened; after others it is in doubt."""

WRONG_LINE = (ValueError, TypeError, KeyError, RecursionError, RemoteStorageError)
"""Errors that can come of reading a line from elsewhere."""

SHOWN_CHARACTERS_MAX = 80
"""How much of an unexpected value an error quotes."""


class Operation(NamedTuple):
    """One call from its beginning to its end, as the caller saw it."""

    number: int
    """Order of invocation."""
    process: str
    """The caller, which waits for the end of one call before it begins the next."""
    kind: str
    """`WRITE` or `READ`."""
    key: PartitionKey
    role: str
    """The node that is asked: the leader (all writes), or a follower."""
    claim: Claim | None
    """The claim under which the writer believed to lead."""
    request: bytes
    """The write's request id, which its event carries; empty for reads."""
    what: str
    """The call as text for people."""
    query: Query | None
    invoked: int
    """Nanoseconds, on the one clock of the history."""
    completed: int | None
    """None if the caller never saw the call end."""
    outcome: str
    """`OK`, `FAIL` or `INFO`."""
    position: int | None
    value: bytes
    """`digest_of` the answer to a read."""
    stale: bool
    """Whether the answer was marked as stale, by a partition in quarantine."""
    error: str
    """The name of the error's class."""
    wanted: KafkaValue | None = None
    """What a write asked for; if unknown, a write that appended nothing is not judged."""
    answer: object = None
    """The answer to a read, if at hand; a file holds only its digest."""


class NodeNote(NamedTuple):
    """Something that happened to a node: "claimed", "crashed", "paused", ..."""

    time: int
    node: str
    what: str
    key: PartitionKey | None
    detail: str


class CallHistory(NamedTuple):
    """All calls by number, and all notes in their order."""

    operations: list[Operation]
    notes: list[NodeNote]


class Recorder:
    """Writes a history down while it happens."""

    def __init__(self, now: Callable[[], int]) -> None:
        """`now` gives nanoseconds and never goes back."""
        self._now = now
        self._operations: list[Operation] = []
        self._notes: list[NodeNote] = []

    def begin(  # noqa: PLR0913 - The fields of a call, most by name.
        self,
        process: str,
        kind: str,
        key: PartitionKey,
        *,
        role: str = LEADER,
        claim: Claim | None = None,
        request: bytes = b"",
        what: str = "",
        query: Query | None = None,
        wanted: KafkaValue | None = None,
    ) -> int:
        """The number of a call that begins now; until it ends, it counts as in doubt."""
        number, now = len(self._operations), self._now()
        self._operations.append(
            Operation(
                number, process, kind, key, role, claim, request, what, query,
                now, None, INFO, None, b"", False, "", wanted,
            )
        )  # fmt: skip
        return number

    @property
    def count(self) -> int:
        """How many calls have begun."""
        return len(self._operations)

    def ok(
        self,
        number: int,
        position: int,
        value: bytes = b"",
        *,
        stale: bool = False,
        answer: object = None,
    ) -> None:
        """The call succeeded; its event, or the state it read, is at `position`."""
        self._end(number, OK, position, value, stale, "", answer)

    def fail(self, number: int, error: BaseException) -> None:
        """The call certainly changed nothing."""
        self._end(number, FAIL, None, b"", False, type(error).__name__)

    def info(self, number: int, error: BaseException) -> None:
        """The call is in doubt: it may or may not have happened."""
        self._end(number, INFO, None, b"", False, type(error).__name__)

    def failed(self, number: int, error: BaseException) -> None:
        """The call ended with `error`, whose class decides between `FAIL` and `INFO`."""
        outcome = outcome_of(error)
        self._end(number, outcome, None, b"", False, type(error).__name__)

    def note(
        self, time: int, node: str, what: str, key: PartitionKey | None = None, detail: str = ""
    ) -> None:
        """Something happened to a node."""
        self._notes.append(NodeNote(time, node, what, key, detail))

    def history(self) -> CallHistory:
        """All that was recorded so far."""
        return CallHistory(list(self._operations), list(self._notes))

    def _end(
        self,
        number: int,
        outcome: str,
        position: int | None,
        value: bytes,
        stale: bool,
        error: str,
        answer: object = None,
    ) -> None:
        begun = self._operations[number]
        if begun.completed is not None:
            raise InvalidArgument(f"operation {number} ended already, as {begun.outcome}")
        self._operations[number] = Operation(
            *begun[:10], self._now(), outcome, position, value, stale, error, begun.wanted,
            answer,
        )  # fmt: skip


def outcome_of(error: BaseException) -> str:
    """The outcome of a write that ended with `error`: `FAIL` if it had no effect, or `INFO`."""
    return FAIL if isinstance(error, DEFINITE) else INFO


def digest_of(answer: object, query: Query | None = None) -> bytes:
    """16 bytes that agree iff two answers do: none, a number, a row, or a list of rows.

    Rows that have no order, as those of `query` may, are compared without one.
    """
    if query is not None and not QUERIES[query.kind].is_ordered:
        answer = sorted(answer)  # type: ignore[call-overload]
    hashed = _unhashed.copy()  # A copy costs half of what a new one does; so does one packer.
    hashed.update(_pack(answer))
    return hashed.digest()


# As a file: JSON Lines, one for each invocation, each end and each note, by time.


def history_as_lines(history: CallHistory) -> Iterator[bytes]:
    """The lines of a file that `read_history` reads back."""
    return (line_of(fields) for fields in history_lines(history))


def line_of(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def history_lines(history: CallHistory) -> Iterator[dict[str, object]]:
    """The fields of each line of the file, in order of time."""
    for *_, fields in sorted(_timed_lines(history), key=lambda line: line[:3]):
        yield fields


def _timed_lines(history: CallHistory) -> Iterator[tuple[int, int, int, dict[str, object]]]:
    for op in history.operations:
        yield op.invoked, op.number, 0, _invocation(op)
        if op.completed is not None:
            yield op.completed, op.number, 1, _completion(op)
    for at, note in enumerate(history.notes):
        fields: dict[str, object] = {"t": note.time, "type": "note", "node": note.node}
        fields |= {"what": note.what, "detail": note.detail}
        if note.key is not None:
            fields["part"] = key_text(note.key)
        yield note.time, at, 2, fields


def _invocation(op: Operation) -> dict[str, object]:
    fields: dict[str, object] = {"t": op.invoked, "type": "invoke", "op": op.number}
    fields |= {"proc": op.process, "f": op.kind, "part": key_text(op.key), "role": op.role}
    if op.claim is not None:
        fields["claim"] = list(op.claim)
    if op.request:
        fields["request"] = op.request.hex()
    if op.query is not None:
        fields["query"] = list(op.query)
    if op.wanted is not None:
        fields["wanted"] = base64.b64encode(encode(op.wanted)).decode("ascii")
    return fields | {"what": op.what}


def _completion(op: Operation) -> dict[str, object]:
    fields: dict[str, object] = {"t": op.completed, "type": op.outcome, "op": op.number}
    fields["proc"] = op.process
    if op.position is not None:
        fields["pos"] = op.position
    if op.value:
        fields["value_hash"] = op.value.hex()
    if op.stale:
        fields["stale"] = True
    if op.error:
        fields["err"] = op.error
    return fields


def key_text(key: PartitionKey) -> str:
    return f"{Uuid(key.topic_id)}:{key.partition}"


def read_history(path: Path) -> CallHistory:
    """The history in a file; a call whose end is missing has the outcome `INFO`.

    Raises:
        InvalidArgument: A line is not one of a history; names its number and the value.
    """
    operations: dict[int, Operation] = {}
    notes: list[NodeNote] = []
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                take_line(json.loads(text), operations, notes)
            except WRONG_LINE as error:
                reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
                shown = text.strip()[:SHOWN_CHARACTERS_MAX]
                raise InvalidArgument(
                    f"{path}, line {number}: expected a line of a history, found {shown} "
                    f"({reason})"
                ) from error
    return CallHistory([operations[one] for one in sorted(operations)], notes)


def take_line(line: object, operations: dict[int, Operation], notes: list[NodeNote]) -> None:
    if not isinstance(line, dict):
        raise InvalidArgument(f"expected an object, found {line!r:.80}")
    match line.get("type"):
        case "note":
            part = line.get("part")
            key = None if part is None else parsed("part", part, key_of)
            time, node, what = (
                typed(int, line, "t"),
                typed(str, line, "node"),
                typed(str, line, "what"),
            )
            notes.append(NodeNote(time, node, what, key, typed(str, line, "detail")))
        case "invoke":
            op = _invoked(line)
            if op.number in operations:
                raise InvalidArgument(f"operation {op.number} was invoked before")
            operations[op.number] = op
        case "ok" | "fail" | "info":
            _complete(line, operations)
        case kind:
            raise InvalidArgument(
                f"expected a type invoke, ok, fail, info or note: {kind!r:.80}"
            )


def _invoked(line: dict[str, Any]) -> Operation:
    kind = typed(str, line, "f")
    if kind not in (WRITE, READ):
        raise InvalidArgument(f"expected 'f' to be {WRITE} or {READ}, found {kind!r:.80}")
    claim, query, wanted = line.get("claim"), line.get("query"), line.get("wanted")
    return Operation(
        number=typed(int, line, "op"),
        process=typed(str, line, "proc"),
        kind=kind,
        key=parsed("part", line["part"], key_of),
        role=typed(str, line, "role"),
        claim=None if claim is None else Claim(*_whole_numbers("claim", claim)),
        request=parsed("request", line.get("request", ""), bytes.fromhex),
        what=typed(str, line, "what"),
        query=None if query is None else _query(query),
        invoked=typed(int, line, "t"),
        completed=None,
        outcome=INFO,
        position=None,
        value=b"",
        stale=False,
        error="",
        wanted=None if wanted is None else parsed("wanted", wanted, _record),
    )


def _complete(line: dict[str, Any], operations: dict[int, Operation]) -> None:
    number = typed(int, line, "op")
    op = operations.get(number)
    if op is None or op.completed is not None:
        what = "was never invoked" if op is None else f"ended before, as {op.outcome}"
        raise InvalidArgument(f"operation {number} {what}")
    if typed(str, line, "proc") != op.process:
        raise InvalidArgument(f"operation {number} is {op.process}'s, not {line['proc']}'s")
    operations[number] = op._replace(
        completed=typed(int, line, "t"),
        outcome=line["type"],
        position=typed(int, line, "pos") if line["type"] == OK else None,
        value=parsed("value_hash", line.get("value_hash", ""), bytes.fromhex),
        stale=line.get("stale", False) is True,
        error=line.get("err", ""),
    )


def typed(kind: type[Any], line: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - Of `kind`.
    value = line[name]
    if type(value) is not kind:
        raise InvalidArgument(
            f"expected {name!r} to be of {kind.__name__}, found {value!r:.80}"
        )
    return value


def _whole_numbers(name: str, values: Iterable[object]) -> list[Any]:
    found = list(values)
    if not all(type(one) is int for one in found):
        raise InvalidArgument(f"expected {name!r} to be whole numbers, found {found!r:.80}")
    return found


def _query(fields: list[Any]) -> Query:
    kind, *numbers = fields
    if not isinstance(kind, str):
        raise InvalidArgument(f"expected a query to begin with its kind, found {kind!r:.80}")
    return Query(kind, *_whole_numbers("query", numbers))


def key_of(text: str) -> PartitionKey:
    topic_id, _, partition = text.rpartition(":")
    return PartitionKey(bytes(Uuid.parse(topic_id)), int(partition))


def _record(text: str) -> KafkaValue:
    return decode(base64.b64decode(text)).value


def parsed(name: str, text: object, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)  # type: ignore[arg-type] # What is no text is refused by its type.
    except (ValueError, TypeError, AttributeError, RemoteStorageError) as error:
        raise InvalidArgument(f"{name!r} is {text!r:.80}: {error}") from error
