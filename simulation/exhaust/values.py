"""Values that are told apart by all they hold, and copies that share what nobody changes."""

from __future__ import annotations

from collections import deque
from enum import Enum
from functools import cache
from typing import Any

from tierledger.events.partition.decide import Limits
from tierledger.events.partition.state import PartitionState
from tierledger.events.tables.segment_rows import SegmentRows
from tierledger.storage.serde import MsgpackSerDe

SHARED = (str, bytes, int, float, tuple, type, type(None), BaseException, MsgpackSerDe)
"""What no machine changes, however many hold it; and frozen dataclasses, and mere objects."""


PLAIN = frozenset({type(None), bool, int, str, bytes})
"""What stands for itself."""

NAMED = frozenset({MsgpackSerDe, Limits, object})
"""What is the same in all machines."""


@cache
def _is_shared(kind: Any) -> bool:  # noqa: ANN401 - A class; mypy cannot hash one.
    parameters = getattr(kind, "__dataclass_params__", None)
    is_frozen = parameters is not None and parameters.frozen
    return kind is object or is_frozen or issubclass(kind, (*SHARED, Enum))


def copied(value: Any, known: dict[int, Any]) -> Any:  # noqa: ANN401
    """What a machine may go on with while `value` stays as it is; `known`: copies made."""
    kind: Any = type(value)
    if _is_shared(kind):
        return value
    made = known.get(id(value))
    if made is not None:
        return made
    if kind is SegmentRows:
        made = known[id(value)] = value.snapshot()
    elif kind is dict:
        made = known[id(value)] = {key: copied(one, known) for key, one in value.items()}
    elif kind in {list, deque, set}:
        made = known[id(value)] = kind(copied(one, known) for one in value)
    else:
        made = known[id(value)] = kind.__new__(kind)
        for name in _attributes(value):
            object.__setattr__(made, name, copied(getattr(value, name), known))
    return made


def plain_of(value: Any, known: dict[int, Any] | None = None) -> Any:  # noqa: ANN401
    """All that `value` holds, as tuples; equal iff two values are alike in everything.

    `known` has, by `id()`, what was made of values that do not change any more.

    Raises:
        TypeError: It holds something of which this does not know how to compare it.
    """
    kind: Any = type(value)
    if kind in PLAIN:
        return value
    if kind in NAMED:
        return kind.__name__
    if isinstance(value, PartitionState):  # A fold of a log, whose hash is in the digest.
        found = None if known is None else known.get(id(value))
        return found or ("state", value.digest(), value.tracks_changes)
    if isinstance(value, tuple | list | deque):
        return (kind.__name__, *[plain_of(one, known) for one in value])
    if isinstance(value, dict):  # Some remember an order, so it counts for all.
        return ("dict", *[(plain_of(key), plain_of(one)) for key, one in value.items()])
    if isinstance(value, set | frozenset):
        return ("set", *sorted((plain_of(one) for one in value), key=repr))
    return (kind.__name__, *_parts_of(value, known))


def _parts_of(value: Any, known: dict[int, Any] | None) -> list[Any]:  # noqa: ANN401
    if isinstance(value, Enum):
        return [value.name]
    if isinstance(value, bytes):
        return [bytes(value)]
    if isinstance(value, BaseException):
        return [plain_of(one) for one in value.args]
    names = _attributes(value)
    if not names:
        raise TypeError(f"expected a value with attributes, found {value!r:.80}")
    return [(name, plain_of(getattr(value, name), known)) for name in names]


@cache
def _slots(kind: Any) -> list[str]:  # noqa: ANN401 - As above.
    names: list[str] = []
    for one in kind.__mro__:
        found = vars(one).get("__slots__", ())
        names += [found] if isinstance(found, str) else found
    return [name for name in names if name != "__weakref__"]


def _attributes(value: object) -> list[str]:
    kind: Any = type(value)
    names = [name for name in _slots(kind) if hasattr(value, name)]
    return sorted((*names, *getattr(value, "__dict__", ())))
