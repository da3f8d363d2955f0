#!/usr/bin/env bash
# Renews requirements.lock: the newest versions that pyproject.toml and requirements-dev.in allow,
# with the hash of every file of each, so that one lock serves all machines and Pythons.
set -euo pipefail
cd "$(dirname "$0")/.."

UV_VERSION=0.13.8 # The resolver; only whoever renews the lock needs it.

[ -x .venv/lock/bin/uv ] || {
    .venv/bin/python -m venv .venv/lock
    .venv/lock/bin/pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
}
.venv/lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
    --all-extras --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
    --only-binary :all: --no-binary pyspark --output-file requirements.lock pyproject.toml requirements-dev.in
