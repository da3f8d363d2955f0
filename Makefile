# `make help` lists the targets. Everything runs in .venv, which each target brings up to date.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Hundreds of processes are started, each of which would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE
# One more than cores, since tests also wait. Each starts servers of its own, so that more than
# four gain little.
WORKERS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
SITE := build/site
PAGES := .
PARALLEL := --numprocesses $(WORKERS) --maxprocesses 4 --dist loadfile

.PHONY: help setup postgresql servers kafka-suite delta plugin demo demo-kafka test test-core test-ray test-kafka test-long fuzz check format bench bench-tiering bench-spark bench-tables bench-kafka bench-guard chaos wheel image chart site pictures lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## make .venv what the lock says (at once if it is already)
	@scripts/setup.sh

demo: setup ## show tierledger at work, from nothing
	@scripts/demo.sh

demo-kafka: servers ## show a stock Kafka broker on tierledger, killed and read back, deleted and brought back
	@scripts/demo-kafka.sh

postgresql:
	@scripts/setup.sh --with-postgresql

servers:
	@scripts/setup.sh --with-postgresql --with-java --with-browser --with-plugin
	@scripts/promtool.sh

kafka-suite: servers
	@scripts/setup.sh --with-kafka-suite

delta: servers
	@scripts/setup.sh --with-delta

plugin: ## build and test the plugin of Kafka brokers
	@scripts/setup.sh --with-plugin

test: servers ## every test except the long ones
	@$(PYTEST) $(PARALLEL) -m "not long" --durations=10

test-core: servers ## what one runs after an edit: no Ray, no Spark, no soak, no processes
	@$(PYTEST) $(PARALLEL) -m "not long and not ray and not spark and not chaos" \
		$(addprefix tests/,house events storage tiering actors)

test-ray: postgresql ## the tests on a local Ray cluster
	@$(PYTEST) -m "ray and not long"

test-kafka: kafka-suite ## the brokers' plugin, stock brokers on tierledger, Kafka's own tests
	@$(PYTEST) tests/kafka --durations=10 -o verbosity_subtests=1

test-long: kafka-suite delta ## every test, with ten thousand examples of each property
	@scripts/helm.sh
	@$(PYTEST) $(PARALLEL) --hypothesis-profile=nightly --fuzz-seconds 60 \
		--timeout=7200 --durations=10

fuzz: servers ## wrong calls, damaged stores and odd command lines for MINUTES (60)
	@$(PYTEST) tests/fuzz -x --timeout=0 --fuzz-seed $(or $(SEED),1000000) \
		--fuzz-seconds $$(( $(or $(MINUTES),60) * 60 / 4 ))

check: setup ## format, lint, scripts, types and imports, in under a minute
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/oxlint --quiet pages/scripts
	@$(BIN)/mypy | sed 's#^\.venv/src/tierledger/##'
	@$(BIN)/lint-imports

format: setup ## write the code as `make check` wants it
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: postgresql ## measure the core and the service, in a quarter of an hour
	@$(BIN)/python -m tierledger.benchmarks replay lookup commit checkpoint cold-start \
		cli-lookup neighbour steps path feed service door followers announce failover world worlds

bench-tiering: setup ## measure the remote tier
	@$(BIN)/python -m tierledger.benchmarks tier-requests tier-index-cache tier-read tier-retention tier-scrub

bench-spark: servers ## measure the pipeline on Spark; builds stores of ten million events first
	@$(BIN)/python -m tierledger.benchmarks spark-scan spark-tables spark-import spark-retention

bench-tables: servers ## measure what column files change: scans, tables, a query in a new process
	@$(BIN)/python -m tierledger.benchmarks tables-columns

bench-kafka: servers ## measure the brokers' plugin beside Kafka's own manager, on a real broker
	@$(BIN)/python -m tierledger.benchmarks kafka-calls kafka-one kafka-many

bench-guard: servers ## measure the guard of brokers' deletions, on a real broker
	@$(BIN)/python -m tierledger.benchmarks guard-calls guard-topics

spark-versions: setup wheel ## try the wheel at Connect servers of other versions of Spark
	@scripts/spark-versions.sh $(or $(VERSIONS),4.0.1 4.1.0)

chaos: postgresql ## kill and freeze a real service's processes for MINUTES (2) under load
	@$(BIN)/tierledger simulate live --minutes $(or $(MINUTES),2) \
		--store $(or $(STORE),postgresql) $(if $(SEED),--seed $(SEED))

# The files in the wheel have the time of the commit, so that all builds of it are the same.
wheel: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
wheel: ## build dist/tierledger-*.whl, to install elsewhere, and the source distribution
	@scripts/setup.sh --only-build-backend
	@rm -rf build/lib build/bdist.* dist
	@umask 022; .venv/build/bin/python -c "from setuptools import build_meta as at; at.build_sdist('dist')" >/dev/null
	@umask 022; .venv/build/bin/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --wheel-dir dist .
	@rm -rf build/lib build/bdist.*
	@echo "install it: pip install '$$(ls dist/*.whl)[service]' (docs/packages.md has the extras)"

image: setup wheel ## build the container image tierledger:VERSION, with buildah, podman or docker
	@scripts/image.sh

chart: setup ## render deploy/helm as tests/deploy/rendered shows it
	@scripts/helm.sh
	@$(BIN)/python scripts/render_chart.py

site: setup ## build the pages as a site with a search: build/site/index.html
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto --builder html \
		--doctree-dir $(SITE)-doctrees --conf-dir $(PAGES)/docs $(PAGES) $(SITE)

pictures: setup ## make the pictures of the documents anew
	@scripts/setup.sh --with-browser
	@$(BIN)/python -m tests.models.pages.pictures

lock: setup ## renew requirements.lock
	@scripts/lock.sh

clean: ## remove what the targets made
	@rm -rf .venv build dist *.egg-info .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
