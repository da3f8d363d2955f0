"""Settings of a service in a broker's configuration."""

import pickle
from dataclasses import fields

import pytest

from tierledger.actors.host_settings import (
    CUSTOM_METADATA_KEY,
    TOMBSTONE_KEY,
    ServiceSettings,
    limits_of,
    without_prefix,
)
from tierledger.events.errors import InvalidArgument
from tierledger.events.partition.decide import Limits
from tierledger.storage.connector import MemoryConnector
from tierledger.storage.kafka_brokers import KafkaBrokers
from tierledger.storage.serde import MsgpackSerDe


def test_the_prefix_is_stripped_and_prefixed_keys_win() -> None:
    config = {
        "broker.id": 7,
        "metadata.storage.url": "sqlite:/a",
        "rlmm.config.metadata.storage.url": "sqlite:/b",
        "rlmm.config.x": True,
    }

    assert without_prefix(config) == {
        "broker.id": "7",
        "metadata.storage.url": "sqlite:/b",
        "x": "True",
    }


def test_limits_have_kafkas_defaults() -> None:
    assert limits_of({}) == Limits()
    assert limits_of({}).custom_metadata_bytes_max == 128


@pytest.mark.parametrize("text", ["0", "128", "2147483647", " 5 "])
def test_a_limit_is_taken_as_the_broker_has_it(text: str) -> None:
    limits = limits_of({CUSTOM_METADATA_KEY: text, TOMBSTONE_KEY: "1000"})

    assert limits == Limits(int(text), 1000)


@pytest.mark.parametrize("key", [CUSTOM_METADATA_KEY, TOMBSTONE_KEY])
@pytest.mark.parametrize("text", ["", "many", "1.5", "-1"])
def test_what_is_no_limit_is_refused_by_name(key: str, text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        limits_of({key: text})

    assert key.removesuffix(".ms") in str(caught.value)


def test_a_limit_beyond_32_bits_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        limits_of({CUSTOM_METADATA_KEY: str(2**31)})


def test_settings_survive_the_trip_to_another_process() -> None:
    settings = ServiceSettings("c1", {"metadata.storage.url": "memory:"}, Limits(5))

    copy = pickle.loads(pickle.dumps(settings))

    assert copy == settings
    assert isinstance(copy.connector(), MemoryConnector)
    assert isinstance(copy.serde(), MsgpackSerDe)


@pytest.mark.parametrize(
    "sent",
    [
        ServiceSettings(
            "c", {}, Limits(7), kafka=KafkaBrokers("broker:9092"), log_format="json"
        ),
        Limits(7),
        KafkaBrokers("broker:9092", "file"),
    ],
)
def test_settings_of_a_former_release_have_defaults_for_what_it_did_not_know(
    sent: object,
) -> None:
    assert pickle.loads(pickle.dumps(sent)) == sent
    known = fields(sent)  # type: ignore[arg-type] # A dataclass.
    given = [getattr(sent, field.name) for field in known]

    former = object.__new__(type(sent))
    former.__setstate__(given[:-1])  # type: ignore[attr-defined]
    newer = object.__new__(type(sent))
    newer.__setstate__([*given, "unknown"])  # type: ignore[attr-defined]

    assert getattr(former, known[-1].name) == known[-1].default
    assert [getattr(former, field.name) for field in known[:-1]] == given[:-1]
    assert newer == sent
