# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make demo   the sandbox, untidy, and the controller at work
#   make test   style, types, layers, and all tests (with Go: also on the real control plane)
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# One test process for each core; those of the real control plane mostly wait for its servers.
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN)

# In CI what failed is tried once more by itself, in a new process and on a new control plane. The first report stays in
# the output: a test that passes then depends on the tests before it, and is to be mended.
# Each kind of test remembers its own failures, because two kinds run at once.
define pytest
$(2) $(BIN)/python -m pytest -o cache_dir=.pytest_cache/$@ $(1) || { [ -n "$$CI" ] && \
	  $(2) $(BIN)/python -m pytest -o cache_dir=.pytest_cache/$@ $(1) --last-failed --last-failed-no-failures none; }
endef

.DEFAULT_GOAL := help
.PHONY: help install demo test tests servers lint types layers unit realcluster koordinator controlplane nightly monitoring sbom container mutants compatibility bench changelog clean

help:  ## this text
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed (PYTHON=python3.12 make ...)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[all]' --group dev
	@touch $@

install: $(STAMP)  ## the virtual environment in .venv

demo: $(STAMP)  ## the main job on the sandbox, in about a minute
	@$(BIN)/rescheduler demo

test: lint types layers tests  ## everything that must hold before a commit

# Unit tests compute and the others wait for servers, so both run at once; the servers go first. Only make starts them:
# a shell would start the second one with SIGINT ignored. What the servers' tests print comes at the end, in one piece.
tests: $(STAMP)
	@mkdir -p build
	@$(MAKE) --no-print-directory -j2 --keep-going UNIT_NICE='nice -n 5' unit servers

servers: $(STAMP)
	@{ $(MAKE) --no-print-directory -j1 realcluster && $(MAKE) --no-print-directory -j1 koordinator; } > build/servers.log 2>&1; \
	  passed=$$?; cat build/servers.log; exit $$passed

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

unit: $(STAMP)  ## tests that need nothing but Python
	$(call pytest,-n $(JOBS) --dist loadgroup -m 'not realcluster and not koordinator',$(UNIT_NICE))

controlplane: $(STAMP)  ## build etcd and the Kubernetes control plane into the cache (needs Go; about 8 minutes once)
	@$(BIN)/python -m harness.controlplane build

realcluster: $(STAMP)  ## tests on the real control plane (skipped with one line where Go is missing)
	@if [ -n "$$KUBEBUILDER_ASSETS" ] || command -v go >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory controlplane && $(BIN)/python -m harness.controlplane.helm && \
	  { $(call pytest,-n $(JOBS) --dist loadfile -m realcluster); }; \
	elif [ -n "$$CI" ]; then \
	  echo 'Go is missing: in CI the tests on the real control plane must run.' >&2; exit 1; \
	else \
	  echo 'Go is missing: the tests on the real control plane are skipped.'; \
	fi

koordinator: $(STAMP)  ## tests with Koordinator's real scheduler (skipped with one line where Go is missing)
	@if command -v go >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory controlplane && $(BIN)/python -m harness.controlplane.koordinator && \
	  { $(call pytest,tests/koordinator -m koordinator); }; \
	elif [ -n "$$CI" ]; then \
	  echo 'Go is missing: in CI the tests with Koordinator must run.' >&2; exit 1; \
	else \
	  echo 'Go is missing: the tests with Koordinator are skipped.'; \
	fi

HISTORIES ?= 1000
SEED      ?= $(shell date +%s)

nightly: $(STAMP)  ## random histories with faults and crashes, and random plans against kube-scheduler: HISTORIES from SEED on (it is printed)
	@echo 'SEED=$(SEED) HISTORIES=$(HISTORIES)'
	$(BIN)/python -m harness.histories --seed $(SEED) --histories $(HISTORIES) --jobs $(JOBS)
	if command -v go >/dev/null; then $(BIN)/python -m harness.differential.plans --moves $$(( $(HISTORIES) * 5 )) --first $(SEED); \
	  else echo 'Go is missing: plans are not compared with kube-scheduler.'; fi
	$(BIN)/python -m bench.crowds
	RESCHEDULER_EXAMPLES=$$(( $(HISTORIES) * 20 )) $(BIN)/python -m pytest tests/controller/test_generated_objects.py
	RESCHEDULER_EXAMPLES=$$(( $(HISTORIES) / 4 + 1 )) $(BIN)/python -m pytest tests/sandbox/test_histories_by_hypothesis.py
	RESCHEDULER_EVERY_ZONE=1 $(BIN)/python -m pytest tests/room_sets/test_cron.py
