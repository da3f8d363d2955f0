#!/usr/bin/env bash
# Tries the wheel in dist/ at a Spark Connect server of each version of PySpark that is given:
# a line for each thing that works there, or why not.
set -euo pipefail
cd "$(dirname "$0")/.."

for version in "$@"; do
    environment=.venv/pyspark-$version
    [ -x "$environment/bin/pip" ] || .venv/bin/python -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps dist/*.whl
    "$environment/bin/pip" install --quiet --disable-pip-version-check \
        "$(ls dist/*.whl)[spark,tier]" "pyspark[connect]==$version"
    PYTHONPATH=. "$environment/bin/python" scripts/spark_versions.py
done
