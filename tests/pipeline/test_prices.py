"""Prices and labels: what their files may say, and exact sums."""

from decimal import Decimal
from pathlib import Path

import pytest

from tierledger.events.errors import InvalidArgument
from tierledger.events.topic_patterns import narrowest
from tierledger.pipeline.prices import GIB, Cost, Label, read_prices

DEPLOY = Path(__file__).parents[2] / "deploy"
EXAMPLE = (DEPLOY / "prices.toml").read_text(encoding="utf-8")


def changed(folder: Path, there: str, instead: str) -> Path:
    """The example with something else in one place."""
    assert EXAMPLE.count(there) == 1
    path = folder / "prices.toml"
    path.write_text(EXAMPLE.replace(there, instead))
    return path


def test_the_examples_have_prices_and_labels() -> None:
    prices = read_prices(DEPLOY / "prices.toml", DEPLOY / "labels.toml")

    assert prices.currency == "EUR"
    assert prices.class_of("anything").gib_month == Decimal("0.0245")
    assert prices.label_of("orders-eu") == Label("checkout", "shop")
    assert prices.label_of("else") == Label("platform", None)


def test_a_sum_is_exact() -> None:
    prices = read_prices(DEPLOY / "prices.toml")

    assert prices.cost("a", 1_000_000, 1000 * GIB) == Cost(
        Decimal("24.5"), Decimal("4.3"), Decimal("16.2"), Decimal(0)
    )
    assert prices.cost("a", 1, GIB // 1024, is_read=False).month == Decimal("0.000023925781")
    most = prices.cost("a", 1 << 40, (1 << 63) - 1).storage_month
    assert most == Decimal("210453397.503999999977")


@pytest.mark.parametrize(
    ("there", "instead", "told"),
    [
        ('currency = "EUR"', "", "currency: expected a code like EUR, got none"),
        ('"EUR"', '"euros"', "expected three capital letters like EUR, got 'euros'"),
        ("gib_month = 0.0245", "gib_month = -1", "class.standard.gib_month: expected a price"),
        ("gib_month = 0.0245", "gib_month = nan", "got NaN"),
        ("gib_month = 0.0245", "gib_month = '1'", "got '1'"),
        ("gib_month = 0.0245", "gib_month = true", "got True"),
        (
            "gib_month = 0.0245",
            "gib_month = 1e-13",
            "at most 12 decimals, like 0.0245; got 1E-13",
        ),
        ("gib_month = 0.0245", "gib_month = 1e999999999", "got 1E+999999999"),
        ("gib_month = 0.0245", "", "class.standard.gib_month: expected a price from 0 to"),
        ("gib_month = 0.0245", "gib = 1", "class.standard: expected gib_month, put_1000"),
        ("put = 3  ", "put = 0.5  ", "segment.put: expected a number of requests"),
        (
            "[segment]",
            "[segments]",
            "expected currency, segment, class, topics; got 'segments'",
        ),
        ('"*" = "standard"', "", "topics: expected a table with entries"),
        (
            '"*" = "standard"',
            '"*" = "cold"',
            "expected one of the classes standard, infrequent",
        ),
        ('"*" = "standard"', '"*" = 1', "topics.'*': expected the name of a class, got 1"),
        ('currency = "EUR"', "currency =", "cannot read"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(
    tmp_path: Path, there: str, instead: str, told: str
) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        read_prices(changed(tmp_path, there, instead))

    assert told in str(refusal.value)
    assert str(tmp_path) in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"*" = "me"', "'*': expected a table with entries, got 'me'"),
        ('"*" = { boss = "me" }', "'*': expected owner, team; got 'boss'"),
        ('"*" = { owner = "" }', "'*'.owner: expected a name, got ''"),
        ("", "expected a table with entries"),
    ],
)
def test_wrong_labels_are_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "labels.toml").write_text(text)

    with pytest.raises(InvalidArgument, match=r"labels\.toml") as refusal:
        read_prices(DEPLOY / "prices.toml", tmp_path / "labels.toml")

    assert told in str(refusal.value)


def test_the_narrowest_pattern_counts() -> None:
    patterns = ["*", "ord*", "order?", "orders", "*s"]

    assert narrowest("orders", patterns) == ["orders"]
    assert narrowest("orderz", patterns) == ["order?"]
    assert narrowest("ordnance", patterns) == ["ord*"]
    assert narrowest("else", patterns) == ["*"]
    assert narrowest("else", ["ord*"]) == []


@pytest.mark.parametrize(
    ("patterns", "told"),
    [
        ('"*" = "standard"\n"order" = "standard"', "none matches 'order'"),
        ('"o*" = "standard"', "expected a pattern that topic 'else' matches"),
        (
            '"*" = "standard"\n"o*" = "standard"\n"*s" = "standard"',
            "expected one narrowest pattern for topic 'orders', got 'o*' and '*s'",
        ),
    ],
)
def test_patterns_have_to_fit_the_topics(tmp_path: Path, patterns: str, told: str) -> None:
    prices = read_prices(changed(tmp_path, '"*" = "standard"', patterns))

    with pytest.raises(InvalidArgument) as refusal:
        prices.check({"orders", "else"})

    assert told in str(refusal.value)
