"""Renders the chart as tests/deploy/rendered shows it: one file for each set of values.

It needs `helm` (see scripts/helm.sh). What it writes is read by tests that do without.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

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
        command = [helm, "template", "ledger", str(CHART), "--namespace", "kafka"]
        command += ["--kube-version", KUBERNETES, "--values", str(values)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        text = "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())
        yield TESTS / "rendered" / values.name, f"# Of chart and values {digest()}.\n{text}"


if __name__ == "__main__":
    local = ROOT / ".venv" / "helm" / "bin" / "helm"
    for path, text in rendered(str(local) if local.exists() else "helm"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
