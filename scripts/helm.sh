#!/usr/bin/env bash
# Builds helm into .venv/helm, by Go from its module proxy; does nothing if helm is there. It takes
# some minutes, and only who changes deploy/helm needs it: `make chart`, and `make test-long`.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=v3.22.0

if command -v helm >/dev/null || [ -x .venv/helm/bin/helm ]; then exit; fi
if ! command -v go >/dev/null; then
    printf 'setup: the tests of the Helm chart need helm, or Go to build it; they are skipped\n' >&2
    exit
fi
printf 'setup: building helm\n' >&2
GOBIN="$PWD/.venv/helm/bin" go install "helm.sh/helm/v3/cmd/helm@$VERSION" >&2
