"""The tier that a URL names, and the errors for URLs that name none."""

from pathlib import Path

import pytest

from tests.models.tiering.segment_copies import copied, whole_log
from tests.models.tiering.tier_trace import segments
from tierledger.events.errors import InvalidArgument, RemoteStorageError, StoreRefused
from tierledger.simulation.live.s3_server import S3Server
from tierledger.tiering.formats.index_type import IndexType
from tierledger.tiering.layouts.kafka import KafkaLayoutStorageManager
from tierledger.tiering.layouts.ledger.layout import LedgerStorageManager
from tierledger.tiering.layouts.manifest.layout import ManifestStorageManager
from tierledger.tiering.layouts.tier_url import Layout, TierUrl, open_tier, parse
from tierledger.tiering.objects.store import StoreSettings


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("memory:", TierUrl(Layout.LEDGER, "memory", "", "")),
        ("memory:///", TierUrl(Layout.LEDGER, "memory", "", "")),
        ("dir:/a/b", TierUrl(Layout.LEDGER, "dir", "/a/b", "")),
        ("file:/a/b", TierUrl(Layout.LEDGER, "dir", "/a/b", "")),
        ("file:///a/b%20c", TierUrl(Layout.LEDGER, "dir", "/a/b c", "")),
        ("s3://bucket", TierUrl(Layout.LEDGER, "s3", "s3://bucket", "")),
        ("s3://bucket/x/y/", TierUrl(Layout.LEDGER, "s3", "s3://bucket", "x/y/")),
        ("ledger:s3://bucket/x", TierUrl(Layout.LEDGER, "s3", "s3://bucket", "x")),
        ("gs://bucket/x", TierUrl(Layout.LEDGER, "gs", "gs://bucket", "x")),
        ("az://c/x", TierUrl(Layout.LEDGER, "az", "az://c/x", "")),
        ("manifest:s3://b/p-", TierUrl(Layout.MANIFEST, "s3", "s3://b", "p-")),
        ("manifest:dir:/a", TierUrl(Layout.MANIFEST, "dir", "/a", "")),
        ("local-tiered:/a", TierUrl(Layout.LOCAL_TIERED, "dir", "/a", "")),
        ("local-tiered:file:///a", TierUrl(Layout.LOCAL_TIERED, "dir", "/a", "")),
    ],
)
def test_a_url_is_taken_apart(url: str, expected: TierUrl) -> None:
    assert parse(url) == expected


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("memory:", "memory:"),
        ("dir:/a/b", "dir:/a/b"),
        ("file:///a", "dir:/a"),
        ("local-tiered:/a", "local-tiered:/a"),
        ("local-tiered:dir:/a", "local-tiered:/a"),
        ("manifest:dir:/a", "manifest:dir:/a"),
        ("s3://bucket/x/y", "s3://bucket/x/y"),
        ("manifest:s3://b/p-", "manifest:s3://b/p-"),
        ("az://user:hush@c/x?key=hush", "az://c/x"),
    ],
)
def test_a_tier_is_shown_as_it_is_given(url: str, shown: str) -> None:
    assert parse(url).shown == shown


async def test_a_store_without_credentials_says_which_variables_give_some() -> None:
    patience = StoreSettings(0.5, 1.0, retries_max=0)
    # In place of the machine's own address for it, which may be slow to say that it has none.
    options = {"metadata_endpoint": "http://127.0.0.1:1", "allow_http": "true"}
    storage = open_tier("s3://bucket/x", options, store_settings=patience)

    with pytest.raises(RemoteStorageError, match="set AWS_ACCESS_KEY_ID and") as caught:
        await storage.fetch_index(segments()[0].metadata, IndexType.OFFSET)

    assert "127.0.0.1" not in str(caught.value)
    assert "s3://bucket: no credentials were given" in str(caught.value)


def test_a_directory_may_be_relative_to_where_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")

    assert parse("dir:a/b").root == "/a/b"
    assert parse("local-tiered:a").root == "/a"


NO_TIERS = [
    "",
    "s3:",
    "s3://",
    "s3:///x",
    "dir:",
    "file://",
    "memory:x",
    "local-tiered:",
    "manifest:",
    "nothing",
    "/a/path",
    "s3:bucket",
]


@pytest.mark.parametrize("url", NO_TIERS)
def test_what_names_no_tier_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="expected a tier as dir:DIR"):
        open_tier(url)


@pytest.mark.parametrize(
    "prefix", ["a//b", "/a", "/", "a//", ".", "..", "../x", "a/./b", "a/..", "a/../", "a\nb"]
)
def test_a_prefix_that_no_object_can_have_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidArgument, match=r"expected a prefix whose parts") as caught:
        open_tier(f"s3://bucket/{prefix}")
    assert repr(f"s3://bucket/{prefix}") in str(caught.value)


def test_of_three_objects_the_prefix_may_end_as_a_name_begins() -> None:
    assert parse("manifest:s3://bucket/a/..").prefix == "a/.."
    with pytest.raises(InvalidArgument, match="expected a prefix whose parts"):
        parse("manifest:s3://bucket/../a")


@pytest.mark.parametrize("url", ["ftp://user:hush@host/x", "s3:user:hush@host", "x:y?key=hush"])
def test_a_refusal_shows_no_secret(url: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        open_tier(url, {"secret_access_key": "hush"})
    assert "hush" not in str(caught.value)


def test_an_unknown_option_is_refused_and_its_value_not_shown() -> None:
    with pytest.raises(InvalidArgument, match=r"s3://bucket: .*bogus") as caught:
        open_tier("s3://bucket/x", {"bogus": "hush"})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("url", ["dir:", "manifest:dir:", "local-tiered:"])
def test_a_directory_that_is_not_there_is_not_made(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="there is no such directory"):
        open_tier(f"{url}{tmp_path}/misspelt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("dir:", LedgerStorageManager),
        ("manifest:dir:", ManifestStorageManager),
        ("local-tiered:", KafkaLayoutStorageManager),
    ],
)
def test_each_layout_has_its_manager(url: str, kind: type, tmp_path: Path) -> None:
    assert type(open_tier(f"{url}{tmp_path}")) is kind


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("gs://bucket/x", {}),
        ("az://container/x", {"account_name": "a", "account_key": "YQ=="}),
        ("http://127.0.0.1:1/x", {"allow_http": "true"}),
    ],
)
def test_other_stores_are_passed_through(url: str, options: dict[str, str]) -> None:
    assert isinstance(open_tier(url, options), LedgerStorageManager)


async def test_a_store_reads_its_own_environment(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in s3_server.options().items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    storage = open_tier(s3_server.place())

    finished = await copied(storage, tmp_path, segments()[0])
    assert await whole_log(storage, finished.metadata) == segments()[0].log
