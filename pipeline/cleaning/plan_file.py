"""A plan of a clean-up as a file: lines of JSON, which `apply` takes as they are or not at all.

The first line says what the plan rests on, then come the logs, what is dead weight and what is
left, and the last line has the digest of all lines before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, NamedTuple, TypeVar

import msgspec

from tierledger.events.errors import FormatTooNew, InvalidArgument
from tierledger.events.typed_fields import Count, Int32, Int64
from tierledger.pipeline.cleaning.weights import DeadWeight, LeftWeight
from tierledger.tiering.quarantine import PlanId

VERSION: Final = 1

T = TypeVar("T")


class PlanHead(msgspec.Struct, frozen=True):
    """What a plan rests on."""

    version: int
    plan: PlanId
    """The plan's own name, which also names its quarantine."""
    cluster: str
    tier: str
    """The tier's URL, without possible secrets."""
    made_ms: Int64
    listed_ms: Int64
    """When the list of the tier's objects was begun."""
    objects: Count
    size_in_bytes: Count
    older_than_ms: Count
    quarantine_ms: Count
    is_idle: bool


class PlanLog(msgspec.Struct, frozen=True):
    """How far a log was read on which the plan rests."""

    topic: str
    topic_id: str
    partition: Int32
    next_position: Count
    chain_hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]*$")]


class PlanEnd(msgspec.Struct, frozen=True):
    """How many lines there are, and the digest of all but this one."""

    lines: Count
    digest: str


class CleaningPlan(NamedTuple):
    """What a clean-up would do."""

    head: PlanHead
    logs: Sequence[PlanLog]
    weights: Sequence[DeadWeight]
    left: Sequence[LeftWeight]


_KINDS: Final[dict[str, type[Any]]] = {
    "head": PlanHead,
    "log": PlanLog,
    "weight": DeadWeight,
    "left": LeftWeight,
    "end": PlanEnd,
}


def write_plan(plan: CleaningPlan, file: BinaryIO) -> None:
    """Write the plan; the caller makes the file appear when it is complete."""
    digest, lines = blake2b(digest_size=16), 0
    for line in _lines(plan):
        digest.update(line)
        file.write(line)
        lines += 1
    file.write(_line("end", PlanEnd(lines, digest.hexdigest())))


def _lines(plan: CleaningPlan) -> Iterator[bytes]:
    yield _line("head", plan.head)
    for kind, some in (("log", plan.logs), ("weight", plan.weights), ("left", plan.left)):
        for one in some:
            yield _line(kind, one)


def _line(kind: str, value: msgspec.Struct) -> bytes:
    plain = {"line": kind, **msgspec.to_builtins(value)}
    return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


def read_plan(path: Path) -> CleaningPlan:
    """The plan in a file.

    Raises:
        InvalidArgument: It is no plan, or not as it was written: cut, or edited.
        FormatTooNew: A newer program wrote it.
    """
    found: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    digest, lines = blake2b(digest_size=16), 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            kind, value = _read(path, number, line)
            if found["end"]:
                raise InvalidArgument(f"{path}: line {number} comes after the plan's end")
            found[kind].append(value)
            if kind != "end":
                digest.update(line)
                lines += 1
    if len(found["head"]) != 1 or len(found["end"]) != 1:
        raise InvalidArgument(f"{path}: expected a plan of `clean plan`, whole; it has no end")
    (end,) = found["end"]
    if (end.lines, end.digest) != (lines, digest.hexdigest()):
        raise InvalidArgument(
            f"{path}: expected the plan as it was written, it has been changed; make a new one"
        )
    return CleaningPlan(found["head"][0], found["log"], found["weight"], found["left"])


def _read(path: Path, number: int, line: bytes) -> tuple[str, Any]:
    try:
        plain = json.loads(line)
        kind = plain.pop("line")
        if kind == "head" and plain.get("version", VERSION) > VERSION:
            raise FormatTooNew(
                f"{path}: a newer program wrote this plan, version {plain['version']}; "
                f"expected {VERSION}"
            )
        return kind, msgspec.convert(plain, _KINDS[kind])
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise InvalidArgument(
            f"{path}: line {number}: expected a line of a plan: {error}"
        ) from None
