"""What the tier and the trash cost: `jobs costs`, the table `costs`, a what-if in money."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from tests.models.cli.command_line import ORDERS, refused, rows_in, run
from tests.models.pipeline.folded_tables import written
from tests.models.storage.stored_partitions import StoredPartition, finished, segment_id
from tierledger import tables
from tierledger.events import log_events as log
from tierledger.events.errors import InvalidArgument
from tierledger.events.identifiers import TopicIdPartition, Uuid
from tierledger.pipeline.tables.costs import ABOUT, COLUMNS
from tierledger.storage.backends.sqlite.backend import SqliteBackend

DOCS = Path(__file__).parents[3] / "docs"
PRICES = """
currency = "EUR"
[segment]
put = 3
get_month = 5
delete = 2
[class.fast]
gib_month = 1000000
put_1000 = 10
get_1000 = 4
delete_1000 = 1
[class.slow]
gib_month = 500000
put_1000 = 20
get_1000 = 8
delete_1000 = 0
[topics]
"*" = "slow"
"orders" = "fast"
"""
LABELS = """
"o*" = { owner = "checkout", team = "shop" }
"p*" = { owner = "billing", team = "shop" }
"""
STORED = Decimal("3.725290298462")
"""What the four segments of the fast class cost in a month, to be stored."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a store, prices and labels.

    `orders` has four segments, `payments` two and one in the trash, `odd` has none.
    """

    async def step(backend: SqliteBackend) -> None:
        orders = await StoredPartition.led(backend, TopicIdPartition(ORDERS, 0, "orders"))
        await orders.append([body for at in range(4) for body in finished(at)])
        tip = TopicIdPartition(Uuid(b"p" * 16), 3, "payments")
        payments = await StoredPartition.led(backend, tip)
        await payments.append([body for at in range(3) for body in finished(at)])
        await payments.append([log.SegmentKept(segment_id(0), 9, 2, 1, 5, "undo")])
        await StoredPartition.led(backend, TopicIdPartition(Uuid(b"e" * 16), 0, "else"))

    written(tmp_path / "store", step)
    (tmp_path / "prices.toml").write_text(PRICES)
    (tmp_path / "labels.toml").write_text(LABELS)
    return tmp_path


def asked(place: Path, *arguments: object) -> tuple[object, ...]:
    return (
        *("jobs", *arguments, "--prices", place / "prices.toml"),
        *("--labels", place / "labels.toml"),
    )


def test_each_topic_has_its_cost_and_the_sums_are_exact(place: Path) -> None:
    told = json.loads(run(place / "store", *asked(place, "costs", "--json")).stdout)

    orders, payments, other = told["worst"]
    assert [row["topic"] for row in told["worst"]] == ["orders", "payments", "else"]
    assert orders["tier"] == {
        "month": "3.805290298462",
        "storage_month": "3.725290298462",
        "reads_month": "0.08",
        "copying": "0.12",
        "deleting": "0.008",
    }
    assert (payments["bytes"], payments["trash_bytes"]) == (2000, 1000)
    assert payments["tier"]["month"] == "1.011322574615"
    assert payments["trash"]["month"] == "0.465661287308"
    assert other["tier"]["month"] == "0.00"
    assert (told["currency"], told["month"]) == ("EUR", "4.816612873077")
    assert (told["trash_month"], told["copying"]) == ("0.465661287308", "0.24")


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (
            "owner",
            [("checkout", "3.805290298462"), ("billing", "1.011322574615"), (None, "0.00")],
        ),
        ("team", [("shop", "4.816612873077"), (None, "0.00")]),
        ("class", [("fast", "3.805290298462"), ("slow", "1.011322574615")]),
    ],
)
def test_sums_by_owner_team_and_class(
    place: Path, by: str, expected: list[tuple[str | None, str]]
) -> None:
    command = asked(place, "costs", "--by", by, "--json")

    told = json.loads(run(place / "store", *command).stdout)

    assert [(row[by], row["tier"]["month"]) for row in told["worst"]] == expected


def test_people_see_hundredths_and_the_currency_in_the_heading(place: Path) -> None:
    page = place / "page.html"

    result = run(place / "store", *asked(place, "costs", "--by", "owner", "--page", page))

    assert result.exit_code == 0, result.output
    head, first = result.stdout.splitlines()[0], result.stdout.splitlines()[2]
    assert "EUR a month" in head
    assert "trash EUR a month" in head
    assert "checkout" in first
    assert "3.805290298462" in first, "a pipe gets the whole sum"
    assert ["month", "4.82"] in [line.split() for line in result.stdout.splitlines()]
    drawn = page.read_text()
    assert all(one in drawn for one in ("checkout", "3.81 EUR", "no label"))


def test_a_what_if_tells_how_much_less(place: Path) -> None:
    what_if = ("retention", "--what-if", "retention.bytes=1000", "--json")

    told = json.loads(run(place / "store", *asked(place, *what_if)).stdout)

    first = told["worst"][0]
    assert (first["topic"], first["segments_before"], first["segments_after"]) == (
        "orders",
        4,
        1,
    )
    assert (first["month_before"], first["month_after"]) == ("3.805290298462", "0.951322574615")
    assert (first["less_a_month"], first["deleting"]) == ("2.853967723847", "0.006")
    assert (told["currency"], told["less_a_month"]) == ("EUR", "3.359629011154")


def test_a_what_if_by_team(place: Path) -> None:
    what_if = ("retention", "--what-if", "retention.bytes=1000", "--by", "team")

    result = run(place / "store", *asked(place, *what_if))

    head, _, first, *_ = result.stdout.splitlines()
    assert head.split()[0] == "team"
    assert "EUR less a month" in head
    assert first.split()[0] == "shop"
    assert first.split()[-1] == "3.359629011154"


def test_sql_and_python_have_the_table(place: Path) -> None:
    url = f"sqlite:{place / 'store'}"
    prices = tables.read_prices(place / "prices.toml", place / "labels.toml")
    query = "select owner, sum(storage_month) as money from costs group by 1 order by 2 desc"

    read = tables.read("costs", url, prices=prices)

    assert read.column_names[4:] == [column.name for column in COLUMNS]
    assert read.num_rows == 6
    assert tables.sql(query, url, prices=prices).to_pylist()[0] == {
        "owner": "checkout",
        "money": STORED,
    }


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_files_of_text_have_exact_numbers(place: Path, kind: str) -> None:
    command = asked(place, "costs", "--out", place / "out", "--format", kind)

    assert run(place / "store", *command).exit_code == 0

    (part,) = (place / "out").glob("part-*")
    assert "3.725290298462" in part.read_text()
    if kind == "json":
        assert all(isinstance(row["storage_month"], float) for row in rows_in(place / "out"))


def test_the_command_asks_the_table_in_sql(place: Path) -> None:
    query = "select topic from costs where what = 'trash' and storage_month > 0"
    given = ("--prices", place / "prices.toml", "--json")

    assert run(place / "store", "sql", query, *given).stdout == '{"topic": "payments"}\n'
    refused(
        run(place / "store", "sql", "from costs", "--json"),
        "Table with name costs does not exist",
    )


def test_bad_requests_are_refused(place: Path) -> None:
    store, labels = place / "store", ("--labels", place / "labels.toml")
    refused(run(store, "jobs", "costs"), "expected --prices FILE, got none")
    refused(run(store, "jobs", "costs", *labels), "--labels", "expected --prices, too")
    prices = ("--prices", place / "prices.toml")
    refused(
        run(store, "jobs", "costs", *prices, "--by", "team"), "--by team: expected --labels"
    )
    refused(run(store, "jobs", "costs", *prices, "--by", "boss"), "topic, owner, team, class")
    what_if = ("jobs", "retention", "--what-if", "retention.ms=1")
    refused(run(store, *what_if, "--by", "class"), "--by class: expected --prices, too")
    (place / "labels.toml").write_text('"order" = { owner = "me" }')
    refused(
        run(store, "jobs", "costs", *prices, *labels), "labels.toml", "none matches 'order'"
    )
    refused(run(store, *what_if, *prices, *labels), "labels.toml", "none matches 'order'")
    with pytest.raises(InvalidArgument, match="expected prices, got none"):
        tables.read("costs", f"sqlite:{store}")


def test_the_columns_are_documented_as_they_are() -> None:
    text = (DOCS / "jobs.md").read_text(encoding="utf-8")
    _, _, section = text.partition(f"\n## `costs`: {ABOUT}\n")

    lines = [line for line in section.splitlines() if line.startswith("| `")]
    lines = lines[lines.index(next(one for one in lines if one.startswith("| `what`"))) :]
    lines = lines[: len(COLUMNS)]

    assert lines == [
        f"| `{one.name}` | `{one.type}` | {'yes' if one.is_nullable else 'no'} | {one.about} |"
        for one in COLUMNS
    ]
