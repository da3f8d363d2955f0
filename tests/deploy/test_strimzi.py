"""The recipe for Strimzi's brokers: what Strimzi takes, with the settings of docs/kafka.md."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

import pytest

from scripts.render_chart import ROOT, TESTS
from tests.deploy.test_chart import errors_of, objects, of_kind

RECIPE = ROOT / "deploy" / "strimzi" / "kafka.yaml"
JAVA = ROOT / "kafka-plugin" / "src" / "main" / "java"
README = (ROOT / "kafka-plugin" / "README.md").read_text()
PREFIX = "rlmm.config."


@pytest.fixture
def kafka() -> dict[str, Any]:
    (found,) = of_kind(RECIPE, "Kafka")
    spec: dict[str, Any] = found["spec"]["kafka"]
    return spec


def test_strimzi_takes_it() -> None:
    assert {one["kind"] for one in objects(RECIPE)} == {"Kafka", "KafkaNodePool", "KafkaTopic"}
    for one in objects(RECIPE):
        assert not errors_of(one)


def test_a_misspelt_field_and_a_wrong_type_are_found() -> None:
    (cluster,) = of_kind(RECIPE, "Kafka")
    manager = cluster["spec"]["kafka"]["tieredStorage"]["remoteStorageManager"]
    manager["className"] = 1
    manager["klassPath"] = ""

    found = errors_of(cluster)

    assert any("klassPath" in error for error in found)
    assert any("is not of type 'string'" in error for error in found)


def test_the_classes_are_those_of_the_plugin(kafka: dict[str, Any]) -> None:
    classes = [
        kafka["config"]["remote.log.metadata.manager.class.name"],
        kafka["tieredStorage"]["remoteStorageManager"]["className"],
    ]
    for one in classes:
        assert (JAVA / f"{one.replace('.', '/')}.java").exists()
    assert classes[0] in (ROOT / "docs" / "kafka.md").read_text()


def test_the_settings_are_those_that_the_plugin_documents(kafka: dict[str, Any]) -> None:
    ours = [key for key in kafka["config"] if key.startswith(PREFIX)]
    assert ours
    for key in ours:
        assert f"| `{key.removeprefix(PREFIX)}` |" in README
    for key in kafka["tieredStorage"]["remoteStorageManager"]["config"]:
        assert f"rsm.config.{key}=" in README


def test_the_files_that_settings_name_are_mounted_and_in_the_image(
    kafka: dict[str, Any],
) -> None:
    (mount,) = kafka["template"]["kafkaContainer"]["volumeMounts"]
    (volume,) = kafka["template"]["pod"]["volumes"]
    assert mount["name"] == volume["name"]
    assert mount["mountPath"].startswith("/mnt/")  # Strimzi takes no other place.
    for key, value in kafka["config"].items():
        if key.endswith(".location"):
            assert str(PurePosixPath(value).parent) == mount["mountPath"]
            assert PurePosixPath(value).name in RECIPE.read_text().partition("volumes:")[2]
    image = RECIPE.with_name("Containerfile").read_text()
    jar = PurePosixPath(kafka["config"]["remote.log.metadata.manager.class.path"])
    assert f"{jar.name} {jar.parent}/\n" in image


def test_brokers_begin_at_the_doors_of_the_chart(kafka: dict[str, Any]) -> None:
    bootstrap = kafka["config"]["rlmm.config.tierledger.bootstrap"]
    doors = re.findall(r"([a-z.-]+):(\d+)", bootstrap.removeprefix("tierledgers://"))
    services = of_kind(TESTS / "rendered" / "least.yaml", "Service")
    (service,) = [one for one in services if one["spec"].get("clusterIP")]

    assert {host for host, _ in doors} == {f"{service['metadata']['name']}.kafka.svc"}
    assert [int(port) for _, port in doors] == [one["port"] for one in service["spec"]["ports"]]
