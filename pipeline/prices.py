"""What a tier costs: prices of storage classes, and whose topics are. Exact, in decimals.

Prices and labels are TOML files of their users. For each topic the narrowest pattern counts;
two that are equally narrow are refused, and so is one that no topic matches.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition
from tierledger.events.topic_patterns import narrowest
from tierledger.pipeline.folding.store import JobStore, require_cluster
from tierledger.pipeline.table_columns import MONEY_SCALE

GIB = 1 << 30
PRICE_MAX = 1_000_000
REQUESTS_MAX = 1_000_000
"""Requests of one kind for a segment, at most."""

CLASS_PRICES = ("gib_month", "put_1000", "get_1000", "delete_1000")
"""Prices of a storage class: of a GiB for a month, and of 1,000 requests."""

SEGMENT_REQUESTS = ("put", "get_month", "delete")
"""Requests for a segment: to copy it, each month to read it, to delete it."""

KEYS = ("currency", "segment", "class", "topics")
LABEL_KEYS = ("owner", "team")

EXACT = Context(prec=100, Emin=-10_000, Emax=10_000)
"""No price times a count has as many digits, so a sum is rounded only at its end."""

_UNIT = Decimal(1).scaleb(-MONEY_SCALE)
_CURRENCY = re.compile(r"[A-Z]{3}")


class StorageClass(NamedTuple):
    """A storage class and its prices."""

    name: str
    gib_month: Decimal
    put_1000: Decimal
    get_1000: Decimal
    delete_1000: Decimal


class Label(NamedTuple):
    """Who a topic belongs to."""

    owner: str | None = None
    team: str | None = None


class Cost(NamedTuple):
    """What some segments cost, in the currency of the prices."""

    storage_month: Decimal = Decimal(0)
    """Storing them for a month."""
    reads_month: Decimal = Decimal(0)
    """The month's reads, as many for each segment as the prices assume."""
    copying: Decimal = Decimal(0)
    """What copying them has cost, once."""
    deleting: Decimal = Decimal(0)
    """What deleting them will cost, once."""

    @property
    def month(self) -> Decimal:
        return EXACT.add(self.storage_month, self.reads_month)

    def plus(self, other: Cost) -> Cost:
        return Cost(*map(EXACT.add, self, other))


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of storage classes, which topics are in which, and whose they are."""

    currency: str
    classes: Mapping[str, StorageClass]
    puts: int
    gets_month: int
    deletes: int
    topics: Mapping[str, str]
    """By pattern: the name of the storage class."""
    labels: Mapping[str, Label] = field(default_factory=dict)
    """By pattern."""
    sources: tuple[str, str] = ("prices", "labels")
    """What messages call the two files."""

    def class_of(self, topic: str) -> StorageClass:
        """The storage class of the topic's segments.

        Raises:
            InvalidArgument: No pattern matches, or several equally narrow ones.
        """
        pattern = _matching(topic, tuple(self.topics), f"{self.sources[0]}: topics")
        if pattern is None:
            raise InvalidArgument(
                f"{self.sources[0]}: topics: expected a pattern that topic {topic!r} matches, "
                f'like "*" = "{next(iter(self.classes))}"; none does'
            )
        return self.classes[self.topics[pattern]]

    def label_of(self, topic: str) -> Label:
        """Who the topic belongs to; an empty label if no pattern matches.

        Raises:
            InvalidArgument: Several equally narrow patterns match.
        """
        pattern = _matching(topic, tuple(self.labels), self.sources[1])
        return Label() if pattern is None else self.labels[pattern]

    def cost(self, topic: str, segments: int, size: int, *, is_read: bool = True) -> Cost:
        """What segments of the topic cost, each sum rounded once, to the scale of `MONEY`.

        Args:
            topic: The topic's name.
            segments: How many there are.
            size: Their bytes.
            is_read: Whether consumers read them; what is in the trash has no reads.
        """
        of = self.class_of(topic)

        def requests(price: Decimal, each: int) -> Decimal:
            many = EXACT.multiply(price, Decimal(each * segments))
            return EXACT.quantize(EXACT.divide(many, Decimal(1000)), _UNIT)

        stored = EXACT.divide(EXACT.multiply(of.gib_month, Decimal(size)), Decimal(GIB))
        return Cost(
            EXACT.quantize(stored, _UNIT),
            requests(of.get_1000, self.gets_month * is_read),
            requests(of.put_1000, self.puts),
            requests(of.delete_1000, self.deletes),
        )

    def check(self, topics: Collection[str]) -> None:
        """Refuse patterns that none of a store's topics matches, and topics without a class.

        Raises:
            InvalidArgument: As said; the message has the pattern or the topic.
        """
        tables = (f"{self.sources[0]}: topics", self.topics), (self.sources[1], self.labels)
        for source, patterns in tables:
            for pattern in patterns:
                if not any(narrowest(topic, [pattern]) for topic in topics):
                    raise InvalidArgument(
                        f"{source}: expected a topic of the store, or a pattern that some "
                        f"match; none matches {pattern!r}"
                    )
        for topic in topics:
            self.class_of(topic)
            self.label_of(topic)


@lru_cache(maxsize=4096)
def _matching(topic: str, patterns: tuple[str, ...], source: str) -> str | None:
    found = narrowest(topic, patterns)
    if len(found) > 1:
        raise InvalidArgument(
            f"{source}: expected one narrowest pattern for topic {topic!r}, got "
            f"{' and '.join(map(repr, found))}"
        )
    return found[0] if found else None


async def checked(prices: Prices, store: JobStore) -> Prices:
    """`prices`, if they fit the topics of the store.

    Raises:
        InvalidArgument: As `Prices.check`, or the store holds several clusters and none was
            named.
        RemoteResourceNotFound: The store does not hold the named cluster.
        StoreRefused: The URL does not lead to a store.
    """
    async with (await require_cluster(store)).opened() as catalog:
        tips: AsyncIterable[TopicIdPartition] = (
            entry.topic_id_partition async for entry in catalog.partitions()
        )
        prices.check({tip.topic async for tip in tips})
    return prices


def read_prices(path: Path, labels: Path | None = None) -> Prices:
    """The prices of one file, with the labels of another.

    Raises:
        InvalidArgument: A file cannot be read, or holds something else; names the file, the
            place in it and what was expected there.
    """
    source = str(path)
    whole = _known(_document(path), KEYS, source)
    currency = _text(whole.get("currency"), f"{source}: currency", "a code like EUR")
    if _CURRENCY.fullmatch(currency) is None:
        raise InvalidArgument(
            f"{source}: currency: expected three capital letters like EUR, got {currency!r}"
        )
    requests = _known(_table(whole, "segment", source), SEGMENT_REQUESTS, f"{source}: segment")
    puts, gets_month, deletes = (
        _count(requests.get(name), f"{source}: segment.{name}") for name in SEGMENT_REQUESTS
    )
    classes = {
        name: _class(name, given, f"{source}: class.{name}")
        for name, given in _table(whole, "class", source).items()
    }
    topics: dict[str, str] = {}
    for pattern, given in _table(whole, "topics", source).items():
        place = f"{source}: topics.{pattern!r}"
        topics[pattern] = _text(given, place, "the name of a class")
        if topics[pattern] not in classes:
            raise InvalidArgument(
                f"{place}: expected one of the classes {', '.join(classes)}; got {given!r}"
            )
    return Prices(
        currency,
        classes,
        puts,
        gets_month,
        deletes,
        topics,
        {} if labels is None else _labels(labels),
        (source, str(labels)),
    )


def _labels(path: Path) -> dict[str, Label]:
    found = {}
    for pattern, given in _some(_document(path), str(path)).items():
        place = f"{path}: {pattern!r}"
        known = _known(_some(given, place), LABEL_KEYS, place)
        owner, team = (
            None if name not in known else _text(known[name], f"{place}.{name}", "a name")
            for name in LABEL_KEYS
        )
        found[pattern] = Label(owner, team)
    return found


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8-sig"), parse_float=Decimal)
    except (OSError, UnicodeDecodeError, ValueError, ArithmeticError) as error:
        # A float out of all bounds is an error of arithmetic.
        raise InvalidArgument(f"cannot read {path}: {error}") from error


def _known(given: dict[str, Any], keys: Iterable[str], place: str) -> dict[str, Any]:
    for name in given:
        if name not in keys:
            raise InvalidArgument(f"{place}: expected {', '.join(keys)}; got {name!r}")
    return given


def _table(given: dict[str, Any], name: str, place: str) -> dict[str, Any]:
    return _some(given.get(name), f"{place}: {name}")


def _some(given: object, place: str) -> dict[str, Any]:
    if not isinstance(given, dict) or not given:
        raise InvalidArgument(f"{place}: expected a table with entries, got {_shown(given)}")
    return given


def _text(given: object, place: str, expected: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise InvalidArgument(f"{place}: expected {expected}, got {_shown(given)}")
    return given


def _count(given: object, place: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= REQUESTS_MAX:
        raise InvalidArgument(
            f"{place}: expected a number of requests from 0 to {REQUESTS_MAX}, got "
            f"{_shown(given)}"
        )
    return given


def _class(name: str, given: object, place: str) -> StorageClass:
    prices = _known(_some(given, place), CLASS_PRICES, place)
    return StorageClass(
        name, *(_price(prices.get(one), f"{place}.{one}") for one in CLASS_PRICES)
    )


def _price(given: object, place: str) -> Decimal:
    if isinstance(given, int) and not isinstance(given, bool):
        given = Decimal(given)
    if (
        not isinstance(given, Decimal)
        or not given.is_finite()
        or not 0 <= given <= PRICE_MAX
        or given != EXACT.quantize(given, _UNIT)
    ):
        raise InvalidArgument(
            f"{place}: expected a price from 0 to {PRICE_MAX} with at most {MONEY_SCALE} "
            f"decimals, like 0.0245; got {_shown(given)}"
        )
    return given


def _shown(given: object) -> str:
    if given is None:
        return "none"
    text = str(given) if isinstance(given, Decimal) else repr(given)
    return text if len(text) <= 60 else f"{text[:57]}..."
