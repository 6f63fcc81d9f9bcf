# Two commands: `make up` (set up, start the sandbox, converge it) and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
MAKEFLAGS += --no-print-directory

export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHONDONTWRITEBYTECODE :=
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
PACKAGES := $(shell cat swarm_iac/sandbox/packages.txt tests/packages.txt 2>/dev/null)

help:
	@echo "make up         set up this machine, start the three-node sandbox, converge stacks/dev.yaml on it"
	echo "make down       stop the sandbox and remove everything it made"
	echo "make check      lint, types, imports, unit and golden tests: no sandbox; about 18 minutes on two cores"
	echo "make test       all but the long tests, on a sandbox of its own; about 50 minutes on two cores"
	echo "make test-forge pull requests on a forge of one's own (built once, about 6 minutes) and the sandbox"
	echo "make test-full  everything: every fault and operator's procedure end to end, and the long counts"
	echo "make promtool   fetch promtool, which tests of metrics and alerts use where it is there"
	echo "make wheel      build dist/*.whl"

# ---- setting up -------------------------------------------------------------------------------------------------------

.venv/ready: requirements.txt pyproject.toml
	@missing=$$(for p in $(PACKAGES); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done)
	if [ -n "$$missing" ]; then
	  echo "[setup] installing Debian packages:" $$missing
	  $(SUDO) apt-get -qq update
	  DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get -qq install -y --no-install-recommends $$missing > /dev/null
	fi
	echo "[setup] Python environment in .venv"
	[ -x .venv/bin/python ] || python3 -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.5'
	.venv/bin/uv pip install --quiet --compile-bytecode --python .venv/bin/python --require-hashes -r requirements.txt
	.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e .
	.venv/bin/python -m compileall -q swarm_iac
	touch $@

setup: .venv/ready
	@swarm toolchain

# ---- the sandbox --------------------------------------------------------------------------------------------------------

up: .venv/ready
	@swarm demo

down:
	@if [ -x .venv/bin/swarm ]; then swarm sandbox down --purge; fi
	rm -rf .state Pulumi.dev.yaml

# ---- checks -----------------------------------------------------------------------------------------------------------------

lint: .venv/ready
	@ruff check .
	ruff format --check --quiet . || { echo "hint: ruff format ."; exit 1; }
	mypy
	lint-imports --no-cache | tail -n 1

# Prometheus's own check of rules and metrics, out of its Debian package: installed as a package it would start a server.
promtool: .venv/bin/promtool
.venv/bin/promtool: .venv/ready
	@work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && cd "$$work"
	apt-get -qq download prometheus 2>/dev/null || { $(SUDO) apt-get -qq update && apt-get -qq download prometheus; }
	dpkg-deb -x prometheus_*.deb . && install -m 755 usr/bin/promtool usr/bin/prometheus $(CURDIR)/.venv/bin/

check: lint
	@eval "$$(swarm env)"
	pytest -n logical -m 'not e2e and not slow and not engine and not forge'

# Each worker starts a forge of its own, so those tests run among the others, on all cores.
test: lint .venv/bin/promtool
	@eval "$$(swarm env)"
	which='not e2e and not slow'
	python -m tests.forge.server || which+=' and not forge'
	pytest -n logical -m "$$which"
	pytest -m 'e2e and not slow and not forge'

test-forge: .venv/ready
	@eval "$$(swarm env)"
	pytest -m forge

test-full: .venv/bin/promtool
	@eval "$$(swarm env)"
	$(MAKE) lint
	SWARM_MUTATIONS=10000 HYPOTHESIS_PROFILE=full pytest

# By hand, after a change to the dependencies: file times in a fresh clone say nothing, so this hangs on no file.
requirements:
	@uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --extra dev pyproject.toml -o requirements.txt

wheel: .venv/ready
	@rm -rf dist && python -m build --quiet --wheel --no-isolation && ls dist

.PHONY: promtool help setup up down lint check test test-forge test-full requirements wheel
