# crb. Every target does its own set-up: git, make and Python 3.11 or newer are enough.
# Written for GNU make 3.81 and later.

VENV := .venv
BIN := $(VENV)/bin

# The first Python that is new enough; `make PYTHON=/path/to/python3 ...` takes another.
ifndef PYTHON
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	if "$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	command -v "$$p"; break; fi; done)
endif

# Arguments for pytest and for the demo, for example PYTEST_ARGS="-k claims".
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
FUZZ_SECONDS ?= 300

PACKAGES := crb_core crb_worker crb_scheduler crb_cli crb_web

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-all chaos hostile fuzz lint audit type bench base-image test-images egress-image clean \
	setup-demo setup-test python

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: setup-demo ## Run a sweep of four agents over the showcase corpus and print the leaderboard
	@$(BIN)/crb demo $(DEMO_ARGS)

test: setup-test ## Run all tests; those that need a Docker engine are skipped, with the reason, where none answers
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

test-fast: setup-test ## Run the tests that need neither Docker nor much time, on all cores
	@$(BIN)/python -m pytest -n auto -m "not docker and not slow and not network" $(PYTEST_ARGS)

test-all: setup-test ## Run all tests, those that a plain run leaves out too; about an hour
	@$(BIN)/python -m pytest -m "chaos or thorough or not chaos" $(PYTEST_ARGS)

chaos: setup-test ## Cause every fault on purpose and report how long recovery took; about half an hour
	@$(BIN)/python -m pytest -m chaos tests/chaos $(PYTEST_ARGS)

hostile: setup-test ## Run agents that try to break out, and print what each tried and what became of it
	@$(BIN)/python -m tests.hostile.report

fuzz: setup-test ## Damage documents of every format that comes from outside (FUZZ_SECONDS=300)
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

audit: setup-test ## Ask the advisory databases for what is installed (needs the network)
	@$(BIN)/uv export --quiet --frozen --no-emit-project --all-groups --output-file $(VENV)/locked.txt
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement $(VENV)/locked.txt

lint: setup-test ## Check style, imports between rooms, and known security mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --recursive --severity-level medium $(PACKAGES) tools

type: setup-test ## Check types
	$(BIN)/mypy
	$(BIN)/mypy --strict tools/setup.py

bench: setup-test ## Measure orchestration overhead, the error of review_ms, planning and dispatch
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

base-image: ## Build the base image of the agents from Debian's packages (needs root, debootstrap and an engine)
	@docker/base/build.sh

test-images: base-image ## Build the Redis and PostgreSQL images of the tests, for a machine without image registry
	@docker/test-services/build.sh

egress-image: ## Build the proxy through which agents reach the hosts that they declare
	@docker/egress/build.sh

clean: ## Remove the environment and caches; results in .crb stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
	@if docker version >/dev/null 2>&1; then \
		docker ps --all --quiet --filter label=crb.tests | xargs docker rm --force --volumes >/dev/null 2>&1 || true; \
	fi

setup-demo: python
	@"$(PYTHON)" tools/setup.py demo

setup-test: python
	@"$(PYTHON)" tools/setup.py test

python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "crb needs Python 3.11 or newer, and none is on the PATH; install one, or name one: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi
