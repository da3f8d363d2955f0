#!/usr/bin/env bash
# Sees to promtool, a program of Prometheus by which the tests check alerts; does nothing if it is
# there. `make servers` runs it beside setup.sh.
set -euo pipefail

if command -v promtool >/dev/null; then exit; fi
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
if command -v apt-get >/dev/null && "${as_root[@]}" true 2>/dev/null; then
    printf 'setup: installing prometheus\n' >&2
    "${as_root[@]}" apt-get update -qq >&2
    # Not every system that has apt has this package.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends prometheus >&2 || true
fi
if ! command -v promtool >/dev/null; then
    printf "setup: the tests of alerts need promtool: install Prometheus (Debian, Ubuntu: 'sudo\
 apt-get install prometheus'; Homebrew: prometheus), then repeat\n" >&2
    exit 1
fi
