#!/usr/bin/env bash
# Builds the container image: of the wheel, and of what the lock names for the service, a
# store in a bucket, and the console. build/image is all that the build sees; the arguments are for the program that builds,
# which is buildah, podman or docker.
set -euo pipefail
cd "$(dirname "$0")/.."

image=build/image
rm -rf "$image"
mkdir -p "$image"
cp dist/tierledger-*.whl deploy/container/Containerfile "$image"
.venv/bin/python scripts/locked.py service bucket console >"$image/requirements.lock"

version=$(.venv/bin/python -c 'from importlib.metadata import version; print(version("tierledger"))')
for builder in buildah podman docker; do
    command -v "$builder" >/dev/null || continue
    format=()
    # Images of the OCI's format have no health check.
    if [ "$builder" != docker ]; then format=(--format docker); fi
    exec "$builder" build "${format[@]}" --file "$image/Containerfile" \
        --tag "tierledger:$version" "$@" "$image"
done
printf 'image: expected buildah, podman or docker; what they would build is in %s\n' "$image" >&2
exit 1
