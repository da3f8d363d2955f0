"""The options of the `tierledger.records` format, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tierledger.events.errors import InvalidArgument
from tierledger.pipeline.folding.store import JobStore
from tierledger.pipeline.source.options import number_of, own_options
from tierledger.storage.connector import CONNECTOR_SETTING, SERIALIZER_SETTING, URL_SETTING
from tierledger.storage.keys import INT32_MAX, INT64_MAX
from tierledger.tiering.layouts.tier_url import MEMORY, open_tier, parse
from tierledger.tiering.reader.reader import IsolationLevel
from tierledger.tiering.remote_storage_manager import RemoteStorageManager

OPTIONS = {
    "store": "URL of the store with the metadata, as for `--store`",
    "cluster": "the Kafka cluster's id; not needed if the store holds one cluster",
    "tier": "URL of the tier with the segments, as for `--tier`",
    "tier.NAME": "an option of the tier's client, such as `tier.endpoint`; `tier.keys` names "
    "the keys of encrypted segments ([tiers](tiers.md#the-three-object-layout))",
    "topic": "the newest topic of this name, or the topic with this id",
    "partition": "only the partition of this number",
    "startingOffset": "first offset to read; by default the earliest in the tier",
    "endingOffset": "stop before this offset; by default at the tier's end",
    "startingTimestamp": "begin with the first record of this time (ms since 1970) or later",
    "endingTimestamp": "stop before the first record of this time (ms since 1970) or later",
    "isolation": "`read_uncommitted`, or `read_committed`, which leaves out aborted "
    "transactions and stops before the first unfinished one",
    "damaged": "`fail` on records that cannot be read, or `skip` them and return a row with "
    "the reason",
    "deleted": "`true`: with what was deleted and stays in the tier "
    "([deletion](deletion.md#keep-what-is-deleted)), as if it had not been",
    CONNECTOR_SETTING: "the class of a connector, if it is not ours",
    SERIALIZER_SETTING: "the class of a serializer, if it is not ours",
}
"""Name and meaning of each option."""

FAIL, SKIP = "fail", "skip"
_TIER_OPTION = "tier."


@dataclass(frozen=True, slots=True)
class RecordBounds:
    """Limits of a partition's records. Each end is an offset, a time, or open."""

    starting_offset: int | None = None
    ending_offset: int | None = None
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None

    def __post_init__(self) -> None:
        if self.starting_offset is not None and self.starting_timestamp is not None:
            raise InvalidArgument("expected startingOffset or startingTimestamp, got both")
        if self.ending_offset is not None and self.ending_timestamp is not None:
            raise InvalidArgument("expected endingOffset or endingTimestamp, got both")
        for name, start, end in (
            ("endingOffset", self.starting_offset, self.ending_offset),
            ("endingTimestamp", self.starting_timestamp, self.ending_timestamp),
        ):
            if start is not None and end is not None and end < start:
                raise InvalidArgument(f"expected {name} from {start} up, got {end}")


@dataclass(frozen=True, slots=True)
class RecordsOptions:
    """The options of one read. Pickled into every task."""

    store: JobStore
    tier: str = field(repr=False)
    """The tier's URL. It may hold a secret, as may `tier_options`."""

    tier_options: dict[str, str] = field(repr=False)
    topic: str
    partition: int | None
    bounds: RecordBounds
    isolation: IsolationLevel
    skips_damage: bool
    with_deleted: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> RecordsOptions:
        """The checked form of `options`.

        Raises:
            InvalidArgument: An option is unknown or invalid, or a required one is missing.
        """
        given = {name.lower(): value for name, value in own_options(options).items()}
        known = {name.lower() for name in OPTIONS}
        for name in sorted(given):
            if name not in known and not name.startswith(_TIER_OPTION):
                raise InvalidArgument(f"expected options {', '.join(OPTIONS)}; got {name!r}")
        bounds = RecordBounds(
            number_of(given, "startingOffset", 0, INT64_MAX),
            number_of(given, "endingOffset", 0, INT64_MAX),
            number_of(given, "startingTimestamp", 0, INT64_MAX),
            number_of(given, "endingTimestamp", 0, INT64_MAX),
        )
        levels = [level.value for level in IsolationLevel]
        return cls(
            _store(given),
            _tier(given),
            {
                name.removeprefix(_TIER_OPTION): value
                for name, value in given.items()
                if name.startswith(_TIER_OPTION)
            },
            _needed(given, "topic", "orders"),
            number_of(given, "partition", 0, INT32_MAX),
            bounds,
            IsolationLevel(_one_of(given, "isolation", levels)),
            _one_of(given, "damaged", [FAIL, SKIP]) == SKIP,
            _one_of(given, "deleted", ["false", "true"]) == "true",
        )

    def open_tier(self) -> RemoteStorageManager:
        """The tier's storage manager. Raises as `tier_url.open_tier` does."""
        return open_tier(self.tier, self.tier_options)


def _store(given: Mapping[str, str]) -> JobStore:
    config = {URL_SETTING: _needed(given, "store", "sqlite:FILE")}
    for name in (CONNECTOR_SETTING, SERIALIZER_SETTING):
        if name.lower() in given:
            config[name] = given[name.lower()]
    return JobStore.of(config, given.get("cluster"))


def _tier(given: Mapping[str, str]) -> str:
    url = _needed(given, "tier", "s3://BUCKET/PREFIX")
    if parse(url).scheme == MEMORY:
        raise InvalidArgument("expected a tier that other processes can read, got memory:")
    return url


def _needed(given: Mapping[str, str], name: str, example: str) -> str:
    value = given.get(name)
    if not value:
        raise InvalidArgument(f"expected the option {name}, for example {example}")
    return value


def _one_of(given: Mapping[str, str], name: str, values: list[str]) -> str:
    value = given.get(name, values[0])
    if value not in values:
        raise InvalidArgument(f"expected {' or '.join(values)} for {name}, got {value!r}")
    return value
