"""Renders the chart as tests/deploy/rendered shows it: two files for each set of values.

One has the objects, the other what `helm install` prints then. It needs `helm` (see
scripts/helm.sh); tests without `helm` read what it writes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm" / "tierledger"
TESTS = ROOT / "tests" / "deploy"
KUBERNETES = "1.36.0"
"""The version for which `helm` renders, since it asks no server here."""


def digest() -> str:
    """What chart and values are, so that a test can tell whether they were rendered since."""
    found = hashlib.sha256()
    for path in sorted([*CHART.rglob("*"), *TESTS.glob("values/*.yaml")]):
        if path.is_file():
            found.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def rendered(helm: str) -> Iterator[tuple[Path, str]]:
    """The files with their text."""
    for values in sorted(TESTS.glob("values/*.yaml")):
        for suffix, made in (
            (".yaml", _template(helm, CHART, values)),
            (".txt", _notes(helm, values)),
        ):
            text = "".join(line.rstrip() + "\n" for line in made.splitlines())
            name = values.with_suffix(suffix).name
            yield TESTS / "rendered" / name, f"# Of chart and values {digest()}.\n{text}"


def _template(helm: str, chart: Path, values: Path, *more: str) -> str:
    command = [helm, "template", "ledger", str(chart), "--namespace", "kafka"]
    command += ["--kube-version", KUBERNETES, "--values", str(values), *more]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _notes(helm: str, values: Path) -> str:
    """What `helm install` prints; `helm template` shows that of an object alone."""
    with tempfile.TemporaryDirectory() as folder:
        chart = shutil.copytree(CHART, Path(folder, "chart"))
        (chart / "templates" / "NOTES.txt").rename(chart / "NOTES.txt")
        (chart / "templates" / "notes.yaml").write_text(
            'notes: {{ tpl (.Files.Get "NOTES.txt") . | quote }}\n', encoding="utf-8"
        )
        shown = _template(helm, chart, values, "--show-only", "templates/notes.yaml")
    notes: str = yaml.load(shown, yaml.CSafeLoader)["notes"]
    return notes


if __name__ == "__main__":
    local = ROOT / ".venv" / "helm" / "bin" / "helm"
    for path, text in rendered(str(local) if local.exists() else "helm"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
