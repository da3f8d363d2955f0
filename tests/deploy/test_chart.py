"""The Helm chart: what it makes is what Kubernetes takes, and what the service needs.

`tests/deploy/rendered` shows what `helm` makes of the values beside it. Most tests read that,
as `helm` takes minutes to build; `make chart` writes it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError

from scripts.render_chart import CHART, ROOT, TESTS, digest, rendered
from tierledger.cli.whole_program import app
from tierledger.health.server import LIVE_PATH, READY_PATH

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = sorted(TESTS.glob("rendered/*.yaml"))
SCHEMAS = json.loads((TESTS / "schemas.json").read_text())
LOCAL = ROOT / ".venv" / "helm" / "bin" / "helm"
HELM = str(LOCAL) if LOCAL.exists() else shutil.which("helm")

SECRETS = {"PGPASSWORD", "RAY_AUTH_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
"""Variables that must come from secrets."""

Object = dict[str, Any]


def objects(path: Path) -> list[Object]:
    found = yaml.load_all(path.read_text(), yaml.CSafeLoader)
    return [one for one in found if one is not None]


def of_kind(path: Path, kind: str) -> list[Object]:
    return [one for one in objects(path) if one["kind"] == kind]


def pods(path: Path) -> Iterator[Object]:
    """The specifications of all pods, of Ray's nodes too."""
    for one in objects(path):
        if one["kind"] == "RayCluster":
            yield one["spec"]["headGroupSpec"]["template"]["spec"]
            for group in one["spec"].get("workerGroupSpecs", ()):
                yield group["template"]["spec"]
        elif one["kind"] == "Deployment":
            yield one["spec"]["template"]["spec"]


def containers(path: Path) -> Iterator[Object]:
    for pod in pods(path):
        yield from pod["containers"]


def errors_of(one: Object) -> list[str]:
    schema = SCHEMAS[f"{one['apiVersion']} {one['kind']}"]
    return [error.message for error in Draft7Validator(schema).iter_errors(one)]


def values(path: Path) -> Object:
    found: Object = yaml.load(path.read_text(), yaml.CSafeLoader)
    return found


each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@each_file
def test_what_is_shown_is_of_this_chart(path: Path) -> None:
    assert path.read_text().startswith(f"# Of chart and values {digest()}.\n"), "make chart"


@each_file
def test_each_object_is_one_that_kubernetes_and_the_operators_take(path: Path) -> None:
    assert objects(path)
    for one in objects(path):
        assert not errors_of(one)


def test_a_misspelt_field_and_a_wrong_type_are_found() -> None:
    (cluster,) = of_kind(TESTS / "rendered" / "least.yaml", "RayCluster")
    head = cluster["spec"]["headGroupSpec"]
    head["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    head["rayStartParams"]["object-store-memory"] = 1

    found = errors_of(cluster)

    assert any("readynessProbe" in error for error in found)
    assert any("1 is not of type 'string'" in error for error in found)


@each_file
def test_no_container_is_root_or_writes_into_its_image(path: Path) -> None:
    for pod in pods(path):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
    for one in containers(path):
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@each_file
def test_what_containers_mount_is_there_and_secrets_are_only_read(path: Path) -> None:
    for pod in pods(path):
        there = {one["name"]: one for one in pod["volumes"]}
        for one in pod["containers"]:
            for mount in one["volumeMounts"]:
                is_secret = "secret" in there[mount["name"]]
                assert mount.get("readOnly", False) is is_secret


@each_file
def test_secrets_are_named_and_not_written(path: Path) -> None:
    for one in containers(path):
        for variable in one["env"]:
            if variable["name"] in SECRETS:
                assert set(variable) == {"name", "valueFrom"}
                assert set(variable["valueFrom"]) == {"secretKeyRef"}
    assert not of_kind(path, "Secret")


@each_file
def test_each_container_says_whether_it_works(path: Path) -> None:
    for one in containers(path):
        assert one["readinessProbe"]
        assert one["livenessProbe"]
        if one["name"] == "serve":
            assert one["readinessProbe"]["httpGet"]["path"] == READY_PATH
            assert one["startupProbe"]["httpGet"]["path"] == READY_PATH
            assert one["livenessProbe"]["httpGet"]["path"] == LIVE_PATH


@each_file
def test_the_commands_have_the_options_that_they_are_given(path: Path) -> None:
    commands: Any = typer.main.get_command(app)
    for one in containers(path):
        if one["name"] not in {"serve", "console"}:
            continue
        known = {name for each in commands.commands[one["name"]].params for name in each.opts}
        known |= {
            name
            for each in commands.commands[one["name"]].params
            for name in each.secondary_opts
        }
        given = [text.split("=")[0] for text in one["args"] if text.startswith("--")]
        assert given
        assert set(given) <= known


@each_file
def test_commands_in_a_container_are_let_in_by_the_doors(path: Path) -> None:
    (serve,) = [one for one in containers(path) if one["name"] == "serve"]
    given = dict(text.removeprefix("--").partition("=")[::2] for text in serve["args"])
    for one in containers(path):
        if one["name"] not in {"serve", "console"}:
            continue
        files = {each["name"]: each.get("value") for each in one["env"]}
        assert files.get("TIERLEDGER_CA") == given.get("tls-ca")
        shows = "tls-client-ca" in given
        assert files.get("TIERLEDGER_CERTIFICATE") == (given["tls-cert"] if shows else None)
        assert files.get("TIERLEDGER_KEY") == (given["tls-key"] if shows else None)
        own = given.get("host-token", "")
        token = own if one["name"] == "serve" else own.replace("host", "reader")
        assert files.get("TIERLEDGER_TOKEN", "") == token


@each_file
def test_the_lines_for_brokers_are_those_that_the_doors_ask_for(path: Path) -> None:
    notes = path.with_suffix(".txt").read_text()
    assert notes.startswith(f"# Of chart and values {digest()}.\n"), "make chart"
    lines = dict(re.findall(r"^  (\S+)=(\S+)$", notes, re.MULTILINE))
    plugin = (ROOT / "kafka-plugin" / "README.md").read_text()
    for key in lines:
        own = key.removeprefix("rlmm.config.")
        assert f"{key}=" in plugin if own == key else f"| `{own}` |" in plugin

    (serve,) = [one for one in containers(path) if one["name"] == "serve"]
    args = "\n".join(serve["args"])
    bootstrap = lines["rlmm.config.tierledger.bootstrap"]
    assert bootstrap.startswith("tierledgers://") == ("--tls-cert" in args)
    for key, option in (
        ("ssl.ca.location", "--tls-ca"),
        ("ssl.certificate.location", "--tls-client-ca"),
        ("ssl.key.location", "--tls-client-ca"),
        ("token.location", "--tokens"),
    ):
        assert (f"rlmm.config.tierledger.{key}" in lines) == (option in args)
    (doors,) = [one for one in of_kind(path, "Service") if one["spec"].get("clusterIP")]
    ports = [int(port) for port in re.findall(r":(\d+)", bootstrap)]
    assert ports == [one["port"] for one in doors["spec"]["ports"]]


@each_file
def test_each_host_has_a_port_that_clients_reach(path: Path) -> None:
    (serve,) = [one for one in containers(path) if one["name"] == "serve"]
    given = dict(text.removeprefix("--").split("=") for text in serve["args"] if "=" in text)
    first, hosts = int(given["listen"].rpartition(":")[2]), int(given["hosts"])
    (doors,) = [one for one in of_kind(path, "Service") if one["spec"].get("clusterIP")]
    assert [one["port"] for one in doors["spec"]["ports"]] == list(range(first, first + hosts))
    assert given["advertise"] == f"{{node}}.{doors['metadata']['name']}.kafka.svc"
    for policy in of_kind(path, "NetworkPolicy"):
        if policy["metadata"]["name"] == "ledger":
            ports = policy["spec"]["ingress"][1]["ports"][0]
            assert ports["port"] == first
            assert ports["endPort"] >= first + hosts


@each_file
def test_one_pod_at_a_time_is_taken_away(path: Path) -> None:
    (cluster,) = of_kind(path, "RayCluster")
    nodes = 1 + sum(group["replicas"] for group in cluster["spec"].get("workerGroupSpecs", ()))
    for budget in of_kind(path, "PodDisruptionBudget"):
        assert budget["spec"]["minAvailable"] == nodes - 1
        assert budget["spec"]["selector"]["matchLabels"] == {
            "ray.io/cluster": cluster["metadata"]["name"]
        }
    assert bool(of_kind(path, "PodDisruptionBudget")) is (nodes > 1)


def test_a_service_monitor_is_there_if_somebody_wants_it() -> None:
    assert [path.stem for path in FILES if of_kind(path, "ServiceMonitor")] == ["full"]


def test_versions_are_those_of_the_project() -> None:
    chart = values(CHART / "Chart.yaml")
    (ray,) = [
        text.removeprefix("ray==")
        for text in PROJECT["optional-dependencies"]["service"]
        if text.startswith("ray==")
    ]
    assert chart["version"] == chart["appVersion"] == PROJECT["version"]
    assert values(CHART / "values.yaml")["ray"]["version"] == ray


def test_the_schema_of_the_values_knows_each_of_them_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = Draft7Validator(schema)
    default = values(CHART / "values.yaml")
    known.validate(default)
    for path in TESTS.glob("values/*.yaml"):
        known.validate(values(path))
    assert set(default) == set(schema["properties"]) - {"global"}
    for wrong in (
        {"doors": {"tokenSecret": "typo"}},
        {"store": {"url": "postgresql://ledger:secret@db/ledger"}},
        {"store": {"url": "memory:"}},
        {"workers": {"replicas": -1}},
    ):
        with pytest.raises(ValidationError):
            known.validate(default | wrong)


needs_helm = pytest.mark.skipif(
    HELM is None, reason="needs helm, which scripts/helm.sh builds where there is Go"
)


@needs_helm
@pytest.mark.long
def test_helm_makes_what_is_shown() -> None:
    assert HELM is not None
    made = dict(rendered(HELM))
    assert set(made) == {*FILES, *(path.with_suffix(".txt") for path in FILES)}
    for path, text in made.items():
        assert path.read_text() == text
    for path in FILES:
        subprocess.run(
            [HELM, "lint", "--strict", CHART, "--values", TESTS / "values" / path.name],
            check=True,
            capture_output=True,
        )


@needs_helm
@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("cluster=", "expected a value for cluster"),
        ("ray.tokenSecret=", "expected a value for ray.tokenSecret"),
        ("doors.tlsSecret=", "expected doors.tlsSecret, or doors.allowPlaintext: true"),
        ("doors.tokensSecret=", "expected doors.tokensSecret or doors.clientCertificates"),
        (
            "store.url=sqlite:/var/lib/tierledger/x",
            "expected store.claim, and workers.replicas",
        ),
        ("store.url=postgresql://u:p@db/x", "Does not match pattern|does not match pattern"),
        ("doors.porth=1", "[Aa]dditional propert"),
    ],
)
def test_what_cannot_work_is_refused(wrong: str, said: str) -> None:
    assert HELM is not None
    command = [HELM, "template", "ledger", str(CHART), "--kube-version", "1.36.0"]
    command += ["--values", str(TESTS / "values" / "least.yaml"), "--set", wrong]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert re.search(said, done.stderr), done.stderr
