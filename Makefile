# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make demo   the embedded cluster, untidy, and the controller at work
#   make test   style, types, layers, and all tests (with Go: also on the real control plane)
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help install demo test lint types layers unit realcluster koordinator controlplane nightly compatibility bench clean

help:  ## this text
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed (PYTHON=python3.12 make ...)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[pykube,zstd]' --group dev
	@touch $@

install: $(STAMP)  ## the virtual environment in .venv

demo: $(STAMP)  ## the main job on the embedded cluster, in about a minute
	@$(BIN)/rescheduler demo

test: lint types layers unit realcluster koordinator  ## everything that must hold before a commit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

unit: $(STAMP)  ## tests that need nothing but Python
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m 'not realcluster and not koordinator'

controlplane: $(STAMP)  ## build etcd and the Kubernetes control plane into the cache (needs Go; about 8 minutes once)
	@$(BIN)/python -m rescheduler.testing.controlplane_command build

realcluster: $(STAMP)  ## tests on the real control plane (skipped with one line where Go is missing)
	@if [ -n "$$KUBEBUILDER_ASSETS" ] || command -v go >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory controlplane && $(BIN)/python -m pytest -m realcluster; \
	elif [ -n "$$CI" ]; then \
	  echo 'Go is missing: in CI the tests on the real control plane must run.' >&2; exit 1; \
	else \
	  echo 'Go is missing: the tests on the real control plane are skipped.'; \
	fi

koordinator: $(STAMP)  ## tests with Koordinator's real scheduler (skipped with one line where Go is missing)
	@if command -v go >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory controlplane && $(BIN)/python -m rescheduler.testing.koordinator && \
	  $(BIN)/python -m pytest tests/koordinator -m koordinator; \
	elif [ -n "$$CI" ]; then \
	  echo 'Go is missing: in CI the tests with Koordinator must run.' >&2; exit 1; \
	else \
	  echo 'Go is missing: the tests with Koordinator are skipped.'; \
	fi

HISTORIES ?= 1000
SEED      ?= $(shell date +%s)

nightly: $(STAMP)  ## random histories with faults and crashes, HISTORIES of each kind from SEED on (it is printed)
	@echo 'SEED=$(SEED) HISTORIES=$(HISTORIES)'
	$(BIN)/python -m rescheduler.testing.histories --seed $(SEED) --histories $(HISTORIES) --jobs $(JOBS)
	RESCHEDULER_FIRST_SEED=$(SEED) RESCHEDULER_HISTORIES=$(HISTORIES) $(BIN)/python -m pytest -n $(JOBS) \
	  tests/controller/test_moving_crash_safety.py tests/controller/test_shared_rooms.py
	RESCHEDULER_FIRST_SEED=$(SEED) RESCHEDULER_SEEDS=$$(( $(HISTORIES) / 10 + 1 )) $(BIN)/python -m pytest -n $(JOBS) \
	  tests/sim/test_sim_whole_program.py tests/sim/test_sim_start_first.py

VERSION ?= v1.35.4

compatibility: $(STAMP)  ## the gate and moves on a real server of another VERSION of Kubernetes (needs Go; builds it once, 15 minutes)
	@set -e; KUBEBUILDER_ASSETS=$$($(BIN)/python -m rescheduler.testing.controlplane_command build --kubernetes $(VERSION)); \
	export KUBEBUILDER_ASSETS; \
	$(BIN)/python -m pytest -m realcluster tests/webhook; \
	$(BIN)/python bench/moves.py stampede --gate webhook; \
	$(BIN)/python bench/moves.py kill --gate webhook

bench: $(STAMP)  ## speed and memory, printed
	$(BIN)/python bench/run.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
