"""The packages of the base and of the extras, and the error if an extra is missing."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tierledger.client
from tests.events.test_errors import CLASSES
from tests.models.cli.base_install import beyond_the_base, project, run_in_base
from tierledger.events.errors import InvalidArgument
from tierledger.events.extras import EXTRAS, naming_extras

HEAVY = {"ray", "pyspark", "pandas", "numpy", "pyarrow", "obstore", "aiokafka", "cramjam"}
LATER = {"grpc", "google.protobuf", "psycopg", "rich", "structlog", "typer", "sqlite3"}
"""Of the base, and not needed before a service is looked for."""

IMPORTED_AS = {
    "grpcio-reflection": "grpc_reflection",
    "opentelemetry-exporter-otlp-proto-grpc": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
}
"""Packages that are imported by another name than they are installed by."""


def test_the_extras_that_are_named_are_those_that_are_declared() -> None:
    declared = {
        IMPORTED_AS.get(name := Requirement(one).name, name.replace("-", "_")): extra
        for extra, requirements in project()["optional-dependencies"].items()
        for one in requirements
        if extra != "all"
    }
    brought = {"numpy": "spark", "py4j": "spark"}  # By pandas and PySpark.

    assert declared | brought == EXTRAS


def test_all_is_every_extra() -> None:
    extras = project()["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])

    assert everything.name == project()["name"]
    assert everything.extras == extras.keys() - {"all"}


def test_no_extra_comes_with_the_base() -> None:
    assert EXTRAS.keys() <= set(beyond_the_base())


@pytest.mark.parametrize("name", ["ray", "ray.exceptions"])
def test_a_missing_extra_is_told_with_what_brings_it(name: str) -> None:
    message = rf"^this needs {name}, .* with the extra service: docs/packages\.md$"

    with pytest.raises(InvalidArgument, match=message), naming_extras():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("name", ["of_nobody", "tierledger.ray", None])
def test_what_no_extra_brings_stays_a_mistake(name: str | None) -> None:
    with pytest.raises(ModuleNotFoundError), naming_extras():
        raise ModuleNotFoundError("missing", name=name)


def test_the_client_names_every_error_and_nothing_that_is_not_there() -> None:
    named = tierledger.client.__all__

    assert {kind.__name__ for kind in CLASSES} <= set(named)
    assert named == sorted(named)
    assert all(hasattr(tierledger.client, name) for name in named)


def test_the_client_loads_nothing_heavy() -> None:
    done = run_in_base(
        "before = set(sys.modules)\n"
        "import tierledger.client\n"
        "with tierledger.client.RemoteLogMetadataManager(): pass\n"
        "tierledger.client.AsyncRemoteLogMetadataManager()\n"
        "print(*sorted(set(sys.modules) - before))"
    )

    assert done.stderr == ""
    loaded = set(done.stdout.split())
    assert "tierledger.actors.client.client" in loaded
    assert not loaded & (HEAVY | LATER)


def test_a_client_that_goes_through_a_store_needs_no_extra(tmp_path: Path) -> None:
    done = run_in_base(
        "from tierledger.client import RemoteLogMetadataManager, StoreRefused\n"
        "with RemoteLogMetadataManager() as manager:\n"
        "    try: manager.configure({'cluster.id': 'one', 'broker.id': 1, "
        "'metadata.storage.url': sys.argv[1]})\n"
        "    except StoreRefused as error: print(error)",
        f"sqlite:{tmp_path / 'store'}",
    )

    assert str(tmp_path / "store") in done.stdout
    assert done.stderr == ""
