#!/usr/bin/env bash
# Makes .venv what requirements.lock and pyproject.toml say it is; does nothing if it is already.
# With --with-postgresql it also sees to a PostgreSQL server and pgbouncer, which the tests start;
# with --with-java to Java, Maven and the servers that run on it (tests/*/pom.xml): S3 and Kafka; with
# --with-plugin to the plugin of Kafka brokers (kafka-plugin/), with --with-kafka-suite to Kafka's
# own tests of tiered storage (tests/kafka/suite), and with --with-delta to Delta's connector for
# Spark (tests/delta_lake), for which it needs both, too; with --with-browser to Chromium, in which
# the tests open pages. With --only-build-backend it makes .venv/build alone, in which `make wheel`
# builds.
#
# No Python package is fetched that the lock does not name with its hash: packages come as wheels,
# and the project itself is built with the setuptools of the lock.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# Two `make` at a time would pull the environment from under each other.
exec 9<"scripts/setup.sh"
if command -v flock >/dev/null; then flock 9; fi

key() { { cat "$@"; pwd; } | cksum; }
# A virtual environment holds absolute paths, so a moved or copied tree needs a new one.
packages_key=$(key requirements.lock scripts/setup.sh)
project_key="$packages_key $(key pyproject.toml)"
is() { [ -f "$1" ] && [ "$(<"$1")" = "$2" ]; }

# Installs packages of Debian's or Ubuntu's, if this user may; else says $2 and ends.
install_system_package() {
    local as_root=()
    if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
    if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then die "$2"; fi
    say "installing $1"
    "${as_root[@]}" apt-get update -qq >&2
    # Words of $1 are packages.
    # shellcheck disable=SC2086
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y $1 >&2
}

has_postgresql() {
    local program
    for program in "$(command -v initdb)" /usr/lib/postgresql/*/bin/initdb; do
        if [ -x "$program" ]; then return; fi
    done
    return 1
}

has_pgbouncer() { [ "$(PATH="$PATH:/usr/sbin" command -v pgbouncer)" ]; }

has_java() {
    local major
    major=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
    [ "${major:-0}" -ge 17 ] && command -v javac >/dev/null && command -v mvn >/dev/null
}

has_browser() {
    local browser
    browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
    [ "$browser" ] && command -v chromedriver >/dev/null
}

# Maven keeps what it fetched in its own cache, so that a new .venv costs seconds.
fetch_server() {
    local pom=$1 jars=$2
    if is "$jars/.key" "$(cksum <"$pom")"; then return; fi
    say "fetching what $pom names into $jars"
    rm -rf "$jars"
    mvn --quiet --batch-mode -Dstyle.color=never --strict-checksums --file "$pom" \
        dependency:copy-dependencies -DoutputDirectory="$PWD/$jars" >&2
    # What runs inside a user's Spark is what was tried, whatever the registry says of it.
    local sums=$PWD/${pom%/*}/sha256sums
    if [ -e "$sums" ]; then (cd "$jars" && sha256sum --quiet --strict --check "$sums" >&2); fi
    cksum <"$pom" >"$jars/.key"
}

# The plugin is built, and its own tests run, when anything that it is made of has changed.
build_plugin() {
    local made=kafka-plugin/target/.key sources
    sources=$(cat actors/door/door.proto kafka-plugin/pom.xml kafka-plugin/README.md $(find kafka-plugin/src -type f | sort) | cksum)
    if is "$made" "$sources"; then return; fi
    say "building the plugin of Kafka brokers: kafka-plugin/target/tierledger-kafka-plugin.jar"
    rm -rf kafka-plugin/target
    mvn --quiet --batch-mode -Dstyle.color=never --strict-checksums --file kafka-plugin/pom.xml \
        package >&2
    printf '%s\n' "$sources" >"$made"
}

only_backend=
with_java=
with_plugin=
with_suite=
with_delta=
for option in "$@"; do
    case $option in
        --with-postgresql)
            has_postgresql || install_system_package postgresql "the tests need PostgreSQL's\
 server programs (initdb, postgres): install the package postgresql (Debian, Ubuntu: 'sudo apt-get\
 install postgresql'; Fedora: postgresql-server; Homebrew: postgresql), then repeat"
            needs_pooler="the tests need pgbouncer, a pooler for PostgreSQL: install the package\
 pgbouncer ('sudo apt-get install pgbouncer'; Fedora and Homebrew: pgbouncer), then repeat"
            # Not every system that has apt has this package.
            has_pgbouncer || install_system_package pgbouncer "$needs_pooler" || true
            has_pgbouncer || die "$needs_pooler"
            ;;
        --with-java | --with-plugin | --with-kafka-suite | --with-delta)
            case $option in
                --with-java) with_java=1 ;;
                --with-plugin) with_plugin=1 ;;
                --with-delta) with_delta=1 ;;
                *) with_suite=1 ;;
            esac
            needs_java="the tests' S3 server and Kafka broker need Java 17 or newer with its compiler,\
 and Maven: install them (Debian, Ubuntu: 'sudo apt-get install default-jdk-headless maven'), then\
 repeat"
            has_java || install_system_package "default-jdk-headless maven" "$needs_java"
            has_java || die "$needs_java"
            ;;
        --only-build-backend) only_backend=1 ;;
        --with-browser)
            needs_browser="the tests of pages need Chromium or Chrome and its chromedriver: install\
 them (Debian: 'sudo apt-get install chromium chromium-driver'), then repeat"
            # Not every system that has apt has these packages.
            has_browser || install_system_package "chromium chromium-driver" "$needs_browser" || true
            has_browser || die "$needs_browser"
            ;;
        *) die "expected --with-postgresql, --with-java, --with-plugin, --with-kafka-suite,\
 --with-delta, --with-browser or --only-build-backend, got $option" ;;
    esac
done

find_python() {
    local name
    for name in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null
        then
            command -v "$name"
            return
        fi
    done
    die "needs Python 3.11, 3.12 or 3.13, found $(python3 --version 2>&1); set PYTHON to one"
}

# Debian and Ubuntu ship Python without what makes virtual environments.
ensure_venv() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    local package
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    install_system_package "$package" \
        "Python's venv module is missing: run 'sudo apt-get install $package', then repeat"
}

# The lock's entries of the packages that $1 matches, with their hashes.
locked() { awk -v wanted="^($1)==" '/^[^ ]/ { keep = $0 ~ wanted } keep' requirements.lock; }

# Installs what the lock $2 names into the environment $1; more options of pip's follow.
install_locked() {
    "$1/bin/pip" install --quiet --disable-pip-version-check --no-input --require-hashes \
        --only-binary :all: --requirement "$2" "${@:3}"
}

install_build_backend() {
    local python
    python=$(find_python)
    ensure_venv "$python"
    say "installing the build backend into .venv/build ($("$python" --version))"
    rm -rf .venv/build
    "$python" -m venv .venv/build
    locked setuptools >.venv/build/lock
    install_locked .venv/build .venv/build/lock
    printf '%s\n' "$packages_key" >.venv/build/.packages
}

# Whether the environment is of this place, and the lock still has all that is installed: then
# what is new or changed is enough.
is_within_lock() {
    grep -qs "^#!$PWD/.venv/bin/python" .venv/bin/pip || return
    local name
    for name in $(.venv/bin/pip list --disable-pip-version-check --format=freeze \
        --exclude pip --exclude tierledger | sed 's/==.*//' | tr 'A-Z_.' 'a-z--'); do
        grep -q "^$name==" requirements.lock || return
    done
}

install_packages() {
    local python
    python=$(find_python)
    ensure_venv "$python"
    say "installing the locked packages into .venv ($("$python" --version))"
    rm -f .venv/.project
    if ! is_within_lock; then
        # The jars of the tests' servers stay: they have keys of their own.
        rm -rf .venv/{bin,include,lib,lib64,share,src,pyvenv.cfg,spark.jsa}
        "$python" -m venv .venv
    fi
    # PySpark is published as source alone, and built with what the lock names for building.
    locked 'setuptools|wheel|packaging' >.venv/build.lock
    local file
    for file in .venv/build.lock requirements.lock; do
        install_locked .venv "$file" --no-binary pyspark --no-build-isolation
    done
    printf '%s\n' "$packages_key" >.venv/.packages
}

install_project() {
    say "installing tierledger into .venv"
    rm -f .venv/.project
    .venv/bin/pip install --quiet --disable-pip-version-check --no-input \
        --no-build-isolation --no-deps --no-index --config-settings editable_mode=lenient \
        --editable .
    # Python finds `tierledger.<folder>` through the editable install's import hook, so a new file
    # is found at once. mypy cannot follow it, and reads the same folders through these links: for
    # the project (see mypy_path), and as a package of stubs for programs elsewhere.
    rm -rf .venv/src
    mkdir -p .venv/src/tierledger
    local folder
    for folder in $(sed -n 's/^"tierledger\.[a-z_]*" = "\(.*\)"$/\1/p' pyproject.toml); do
        ln -s "../../../$folder" ".venv/src/tierledger/$folder"
    done
    local packages
    packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    ln -sfn ../../../src/tierledger "$packages/tierledger-stubs"
    # Spark looks for formats in the folders of packages alone, not through an import hook.
    ln -sfn "$PWD/pyspark_tierledger" "$packages/pyspark_tierledger"
    for folder in pyspark_tierledger/*/__init__.py; do
        folder=$(basename "$(dirname "$folder")")
        ln -sfn "$PWD/pyspark_tierledger/$folder" "$packages/pyspark_tierledger_$folder"
    done
    printf '%s\n' "$project_key" >.venv/.project
}

if [ "$only_backend" ]; then
    is .venv/build/.packages "$packages_key" || install_build_backend
    exit
fi
if ! is .venv/.project "$project_key"; then
    is .venv/.packages "$packages_key" || install_packages
    install_project
    say "ready: .venv/bin/tierledger"
fi
if [ "$with_java" ]; then
    fetch_server tests/s3_server/pom.xml .venv/s3proxy
    fetch_server tests/kafka_broker/pom.xml .venv/kafka
    fetch_server tests/kafka_broker/tier/pom.xml .venv/kafka-tier
    fetch_server tests/kafka_broker/oldest/pom.xml .venv/kafka-3.9.1
    .venv/bin/python -m tests.models.spark.class_archive
fi
if [ "$with_plugin" ]; then build_plugin; fi
if [ "$with_suite" ]; then fetch_server tests/kafka/suite/pom.xml .venv/kafka-suite; fi
if [ "$with_delta" ]; then fetch_server tests/delta_lake/pom.xml .venv/delta; fi
