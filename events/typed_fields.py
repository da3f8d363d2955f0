"""Checks values from outside: exact types and bounds of an object's fields.

Types and bounds are in the annotations of a class's fields, in msgspec's words. msgspec checks
them where bytes are decoded. It does not look into objects that exist already, so what a
constructor or a call is given is checked here; and its errors do not name the value.

Rule 1: a value that passes is exactly of its type, never of a subclass, so that it is equal
after it was stored and read. A constructor converts other integers (numpy's) to `int`.
Rule 2: a value that does not pass raises `InvalidArgument`, which names the field. Nothing else
is raised, whatever a foreign object's methods do.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import force_setattr

from tierledger.events.errors import InvalidArgument

T = TypeVar("T")
StructT = TypeVar("StructT", bound=Struct)

INT32_MIN: Final = -(1 << 31)
INT32_MAX: Final = (1 << 31) - 1
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

TOPIC_CHARACTERS_MAX: Final = 249
"""Kafka's own limit for a topic's name."""

LEADER_EPOCHS_MAX: Final = 10_000
"""Most leader epochs of one segment: a new leader every minute for a week, which is Kafka's
default `segment.ms`."""

ITEMS_MAX: Final = 1_000_000
"""Most items of a caller's collection: the partitions of a large cluster."""

TEXT_CHARACTERS_MAX: Final = 4096
REQUEST_ID_BYTES_MAX: Final = 64

SHOWN_CHARACTERS: Final = 80

MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999; no later date can be written."""


Int32: TypeAlias = Annotated[int, Meta(ge=INT32_MIN, le=INT32_MAX)]
Int64: TypeAlias = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=INT64_MAX)]
"""Also an offset or a position."""
PartitionNumber: TypeAlias = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Id: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
RequestId: TypeAlias = Annotated[bytes, Meta(max_length=REQUEST_ID_BYTES_MAX)]
Topic: TypeAlias = Annotated[str, Meta(max_length=TOPIC_CHARACTERS_MAX)]
"""A topic's name; empty if it is not known."""
Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]
LeaderEpochs: TypeAlias = Annotated[
    Mapping[Int32, Int64], Meta(min_length=1, max_length=LEADER_EPOCHS_MAX)
]
"""Leader epoch to the offset at which it starts."""


def checked(kind: Any, value: object, name: str) -> Any:  # noqa: ANN401 - Of that kind.
    """`value`, which must fit the annotation `kind`, converted if need be.

    Raises:
        InvalidArgument: It does not fit; the message calls it `name`.
    """
    try:
        return value if exactly(kind)(value) else _taken(kind, value, name)
    except InvalidArgument:
        raise
    except Exception as error:
        raise InvalidArgument(
            f"expected {_kind_text(kind)} for {name}, got {shown(value)}"
        ) from error


def checked_items(kind: Any, given: object, name: str) -> list[Any]:  # noqa: ANN401 - As above.
    """The items of a collection, each of which must fit the annotation `kind`.

    Raises:
        InvalidArgument: `given` is no collection, has too many items, or one does not fit.
    """
    if not isinstance(given, Collection) or isinstance(given, str | bytes):
        raise _refusal(Collection, given, name)
    try:
        items = list(islice(given, ITEMS_MAX + 1))
    except Exception as error:
        raise _refusal(Collection, given, name) from error
    if len(items) > ITEMS_MAX:
        raise InvalidArgument(f"expected at most {ITEMS_MAX} items for {name}, got more")
    return [checked(kind, item, f"{name}[{at}]") for at, item in enumerate(items)]


def as_dataclass(struct: type[StructT]) -> type[StructT]:
    """`struct`, which `dataclasses.replace`, `fields` and `asdict` take as well.

    Programs used these on metadata objects when they were dataclasses.
    """
    fields = dataclasses.make_dataclass(struct.__name__, struct.__struct_fields__)
    struct.__dataclass_fields__ = fields.__dataclass_fields__  # type: ignore[attr-defined]
    return struct


def check_fields(made: Struct) -> None:
    """Check, in its constructor, the fields of a frozen struct; convert those that need it.

    Raises:
        InvalidArgument: A field does not fit its annotation.
    """
    kind = type(made)
    test = _MADE.get(kind)
    if test is None:
        source = _Source()
        test = _MADE[kind] = source.compiled(source.fields(kind, _ROOT))
    if not test(made):
        for name, of in kinds_of(kind).items():
            force_setattr(made, name, checked(of, getattr(made, name), name))


def made_of(kind: type[T], plain: Any) -> T:  # noqa: ANN401 - Lists of lists, as stored.
    """The named tuple `kind` whose fields are `plain`, with a tuple in place of each list.

    Raises:
        InvalidArgument: Their number is wrong, or one does not fit its annotation.
    """
    try:
        return convert(plain, kind, builtin_types=(bytes,))  # Else text would count as Base64.
    except ValidationError as error:
        check_items(kind, plain)
        raise InvalidArgument(str(error)) from error


def check_items(kind: Any, plain: Any) -> None:  # noqa: ANN401 - A named tuple, its fields.
    """Check each of the fields `plain` of the named tuple `kind`, by its name.

    Raises:
        InvalidArgument: Their number is wrong, or one does not fit its annotation.
    """
    kinds, least = kinds_of(kind), len(kind._fields) - len(kind._field_defaults)
    if not least <= len(plain) <= len(kinds):
        expected = least if len(plain) < least else len(kinds)
        raise InvalidArgument(f"expected {expected} fields, got {len(plain)}")
    for (name, of), value in zip(kinds.items(), as_tuples(plain), strict=False):
        if hasattr(of, "_fields") and isinstance(value, tuple):
            check_items(of, value)
        else:
            checked(of, value, name)


def as_tuples(plain: Any) -> Any:  # noqa: ANN401 - Lists of lists, as they were stored.
    """`plain` with a tuple in place of each list, as annotations expect it."""
    if type(plain) is not list:
        return plain
    return tuple([as_tuples(one) if type(one) is list else one for one in plain])


def exactly(kind: Any) -> Callable[[Any], bool]:  # noqa: ANN401 - Any annotation.
    """A fast test whether a value fits the annotation `kind` without conversion."""
    known = _TESTS.get(kind)
    if known is None:
        source = _Source()
        known = _TESTS[kind] = source.compiled(source.test(kind, _ROOT))
    return known


def kinds_of(kind: type[Any]) -> dict[str, Any]:
    """The fields of a named tuple or a struct, and the annotation of each."""
    known = _KINDS.get(kind)
    if known is None:
        hints = get_type_hints(kind, include_extras=True)
        names = kind.__struct_fields__ if issubclass(kind, Struct) else kind._fields
        known = _KINDS[kind] = {name: hints[name] for name in names}
    return known


def shown(value: object) -> str:
    """`value` as short text for a message, even if its `repr` fails."""
    try:
        text = _short.repr(value)
    except Exception:  # noqa: BLE001 - The message is about the value, not about its `repr`.
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def time_text(time_ms: int, timespec: str = "milliseconds") -> str:
    """A time as ISO 8601 in UTC; milliseconds if no such date exists.

    `timespec`: its last part, as of `datetime.isoformat`.
    """
    if not 0 <= time_ms <= MS_MAX:
        return f"{time_ms} ms"
    at = datetime.fromtimestamp(time_ms / 1000, UTC)
    return at.isoformat(timespec=timespec).replace("+00:00", "Z")


class _Short(reprlib.Repr):
    def repr_bytes(self, value: bytes, _level: int) -> str:
        rest = f" and {len(value) - 32} more bytes" if len(value) > 32 else ""
        return repr(value[:32]) + rest

    repr_bytearray = repr_bytes


_short = _Short()
_TESTS: dict[Any, Callable[[Any], bool]] = {}
_MADE: dict[type[Any], Callable[[Any], bool]] = {}
_KINDS: dict[type[Any], dict[str, Any]] = {}


# The slow check, which converts values and finds the message for an error.


def _taken(kind: Any, value: Any, name: str) -> Any:  # noqa: ANN401 - One rule each.
    base, bounds = _split(kind)
    origin = get_origin(base)
    if origin in {Union, UnionType}:
        return _one_of(get_args(base), value, name)
    if origin is Mapping:
        return _mapping(get_args(base), bounds, value, name)
    if origin is tuple:
        return _tuple(base, bounds, value, name)
    if base is int:
        return _integer(bounds, value, name)
    if base in {str, bytes} and isinstance(value, base):
        return _sized(bounds, base.__getitem__(value, slice(None)), name)
    if type(value) is base:  # A field of it does not fit, or has to be converted.
        known = kinds_of(base).items()
        items = [checked(of, getattr(value, one), f"{name}.{one}") for one, of in known]
        return base(*items)
    if isinstance(base, type) and issubclass(base, bytes) and isinstance(value, bytes):
        return base(value)  # An id, whose constructor reports what is wrong.
    raise _refusal(kind, value, name)


def _one_of(kinds: tuple[Any, ...], value: object, name: str) -> Any:  # noqa: ANN401
    others = [kind for kind in kinds if kind is not NoneType]
    if len(others) == 1:
        return checked(others[0], value, name)
    for kind in others:
        base, _ = _split(kind)
        if type(value) is (get_origin(base) or base):
            return checked(kind, value, name)
    expected = " or ".join(map(_kind_text, others))
    raise InvalidArgument(f"expected {expected} for {name}, got {shown(value)}")


def _integer(bounds: Any, value: Any, name: str) -> int:  # noqa: ANN401
    if isinstance(value, bool):
        raise _refusal(int, value, name)
    number = operator.index(value)
    if number < bounds.ge:
        raise InvalidArgument(f"expected {bounds.ge} or more for {name}, got {shown(number)}")
    if number > bounds.le:
        raise InvalidArgument(f"expected {bounds.le} or less for {name}, got {shown(number)}")
    return number


def _sized(bounds: Any, value: T, name: str) -> T:  # noqa: ANN401
    size = len(value)  # type: ignore[arg-type] # All that is bounded so has a size.
    low, high = bounds.min_length or 0, bounds.max_length
    if not low <= size <= high:
        unit = "characters" if isinstance(value, str) else "bytes"
        unit = unit if isinstance(value, str | bytes) else "entries"
        few = str(low) if low == high else f"{low} to {high}"
        raise InvalidArgument(f"expected {few} {unit} for {name}, got {size}: {shown(value)}")
    if isinstance(value, str) and not _is_unicode(value):
        raise InvalidArgument(f"expected Unicode for {name}, got {shown(value)}")
    return value


def _mapping(kinds: tuple[Any, ...], bounds: Any, value: Any, name: str) -> dict[Any, Any]:  # noqa: ANN401
    if not isinstance(value, Mapping):
        raise _refusal(Mapping, value, name)
    _sized(bounds, value, name)
    of_key, of_value = kinds
    taken = {}
    for key, one in value.items():
        known = checked(of_key, key, f"a key of {name}")
        taken[known] = checked(of_value, one, f"{name}[{known}]")
    return _sized(bounds, taken, name)


def _tuple(kind: Any, bounds: Any, value: Any, name: str) -> tuple[Any, ...]:  # noqa: ANN401
    if type(value) is not tuple:
        raise _refusal(tuple, value, name)
    kinds = get_args(kind)
    if kinds[-1] is Ellipsis:
        _sized(bounds, value, name)
        kinds = (kinds[0],) * len(value)
    elif len(kinds) != len(value):
        raise _refusal(kind, value, name)
    return tuple(
        checked(of, item, f"{name}[{at}]")
        for at, (of, item) in enumerate(zip(kinds, value, strict=True))
    )


def _refusal(kind: Any, value: object, name: str) -> InvalidArgument:  # noqa: ANN401
    return InvalidArgument(f"expected {_kind_text(kind)} for {name}, got {shown(value)}")


_KIND_TEXTS: Final[dict[Any, str]] = {
    NoneType: "none",
    int: "an integer",
    bool: "true or false",
    str: "text",
    bytes: "bytes",
    tuple: "a tuple",
    Mapping: "a mapping",
    Collection: "a collection",
}


def _kind_text(kind: Any) -> str:  # noqa: ANN401
    base, _ = _split(kind)
    if get_origin(base) in {Union, UnionType}:
        return " or ".join(map(_kind_text, get_args(base)))
    base = get_origin(base) or base
    article = "an" if base.__name__[0] in "AEIOU" else "a"
    return _KIND_TEXTS.get(base) or f"{article} {base.__name__}"


def _split(kind: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """The type in an annotation, and the bounds of its value or of its length."""
    if get_origin(kind) is Annotated:
        base, bounds, *_ = get_args(kind)
        return base, bounds
    return kind, Meta(ge=INT64_MIN, le=INT64_MAX) if kind is int else _ANY_LENGTH


_ANY_LENGTH: Final = Meta(min_length=0, max_length=INT32_MAX)


def _is_unicode(text: str) -> bool:
    """Whether `text` can be encoded as UTF-8: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# The fast check: one compiled expression per annotation, much as dataclasses compile methods.


_ROOT: Final = "v"
"""The tested value's name in an expression."""


class _Source:
    """Builds the test of an annotation as one Python expression."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {"is_unicode": _is_unicode}

    def compiled(self, expression: str, parameters: str = _ROOT) -> Callable[..., bool]:
        """The function that evaluates `expression` with its arguments."""
        test: Callable[..., bool] = eval(f"lambda {parameters}: {expression}", self._names)  # noqa: S307 - Of our own annotations.
        return test

    def test(self, kind: Any, at: str) -> str:  # noqa: ANN401 - One rule each.
        """The expression that tests the value of the expression `at`."""
        base, bounds = _split(kind)
        origin = get_origin(base)
        if base is Any:
            return "True"
        if base in {None, NoneType}:
            return f"{at} is None"
        if origin in {Union, UnionType}:
            return "(" + " or ".join(self.test(one, at) for one in get_args(base)) + ")"
        if origin is Mapping:
            key, item = self._name(None), self._name(None)
            each = " and ".join(map(self.test, get_args(base), (key, item)))
            each = f"all([{each} for {key}, {item} in {at}.items()])"
            return f"(type({at}) is dict and {_size(bounds, at)} and {each})"
        if origin is tuple:
            return f"(type({at}) is tuple and {self._tuple(base, bounds, at)})"
        if base is int:
            return f"(type({at}) is int and {bounds.ge} <= {at} <= {bounds.le})"
        if base is bytes:
            return f"(type({at}) is bytes and {_size(bounds, at)})"
        if base is str:
            unicode = f"({at}.isascii() or is_unicode({at}))"
            return f"(type({at}) is str and {_size(bounds, at)} and {unicode})"
        return self._object(base, at)

    def items(self, kinds: Iterable[Any], at: str) -> str:
        """The expression that tests each item of a tuple."""
        tests = [self.test(kind, f"{at}[{number}]") for number, kind in enumerate(kinds)]
        return " and ".join((f"len({at}) == {len(tests)}", *tests))

    def fields(self, kind: type[Any], at: str) -> str:
        """The expression that tests each field of a struct."""
        return " and ".join(self.test(of, f"{at}.{one}") for one, of in kinds_of(kind).items())

    def _tuple(self, kind: Any, bounds: Any, at: str) -> str:  # noqa: ANN401
        kinds = get_args(kind)
        if kinds[-1] is not Ellipsis:
            return self.items(kinds, at)
        item = self._name(None)
        each = f"all([{self.test(kinds[0], item)} for {item} in {at}])"
        return f"{_size(bounds, at)} and {each}"

    def _object(self, kind: type[Any], at: str) -> str:
        tests = [f"type({at}) is {self._name(kind)}"]
        if hasattr(kind, "_fields"):
            tests.append(self.items(kinds_of(kind).values(), at))
        elif issubclass(kind, Struct):
            # A frozen object was checked when created; only a mapping may have changed since.
            tests += [
                self.test(of, f"{at}.{one}")
                for one, of in kinds_of(kind).items()
                if get_origin(_split(of)[0]) is Mapping
            ]
        return "(" + " and ".join(tests) + ")"

    def _name(self, meaning: object) -> str:
        """A new name in this expression, with `meaning` as its value."""
        name = f"n{len(self._names)}"
        self._names[name] = meaning
        return name


def _size(bounds: Any, at: str) -> str:  # noqa: ANN401 - Whose length is bounded.
    low, high = bounds.min_length or 0, bounds.max_length
    return f"len({at}) == {low}" if low == high else f"{low} <= len({at}) <= {high}"
