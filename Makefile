# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make demo   the sandbox, untidy, and the controller at work
#   make test   style, types, layers, and all tests (with Go: also on the real control plane)
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# One process for each core, and half as many again for tests, of which many wait: for servers, for commands, for time to pass.
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN)
TESTERS ?= $(shell echo $$(( ($(JOBS) * 3 + 1) / 2 )))

# Python keeps what it compiles, whatever the environment says: hundreds of commands that tests start import the same modules.
# pip compiles nothing: most of what it installs is never imported.
unexport PYTHONDONTWRITEBYTECODE

# No test is tried twice: one that fails now and then has a cause. Each kind of test remembers its own failures for
# --last-failed, because two kinds run at once.
define pytest
$(2) $(BIN)/python -m pytest -o cache_dir=.pytest_cache/$@ $(1)
endef

EACH_FILE := --dist loadfile --max-worker-restart 0

# The files with tests of a kind, and the folders whose conftest.py marks some: only they are read.
files = $$(grep -rlE 'mark\.$(1)\b' tests --include='*.py' | sed 's|/conftest.py$$||')

.DEFAULT_GOAL := help
.PHONY: help install demo test tests servers lint types layers collected unit quick realcluster koordinator strangers controlplane nightly monitoring sbom container mutants compatibility bench changelog dist release upgrade clean

help:  ## this text
	@grep -hE '^[a-z-]+:.*?## ' $(MAKEFILE_LIST) | awk -F ':.*?## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml sandbox/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed (PYTHON=python3.12 make ...)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt --editable '.[all]' --editable ./sandbox --group dev
	@touch $@

install: $(STAMP)  ## the virtual environment in .venv

demo: $(STAMP)  ## the main job on the sandbox, in about a minute
	@$(BIN)/rescheduler demo

test: $(STAMP)  ## everything that must hold before a commit
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint types layers collected
	@$(MAKE) --no-print-directory tests

# Unit tests compute and the others wait for servers, so both run at once; the servers go first. Only make starts them:
# a shell would start the second one with SIGINT ignored. What the servers' tests print comes at the end, in one piece.
tests: $(STAMP)
	@mkdir -p build
	@$(MAKE) --no-print-directory -j2 --keep-going UNIT_NICE='nice -n 5' unit servers

servers: $(STAMP)
	@{ { ! command -v go >/dev/null || $(MAKE) --no-print-directory -j1 controlplane; } && \
	  $(MAKE) --no-print-directory -j2 --keep-going --output-sync=target realcluster koordinator; } > build/servers.log 2>&1; \
	  passed=$$?; cat build/servers.log; exit $$passed

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

# All processes of pytest read the test files at once; none of them compiles one again if it was compiled before.
collected: $(STAMP)
	@mkdir -p build
	@$(BIN)/python -m pytest --collect-only -qq -o cache_dir=.pytest_cache/$@ > build/collected.log || { cat build/collected.log; exit 1; }

unit: $(STAMP)  ## tests that need nothing but Python
	$(call pytest,-n $(TESTERS) $(EACH_FILE) --no-loadscope-reorder --durations 20 -m 'not realcluster and not koordinator and not strangers and not container',$(UNIT_NICE))

quick: $(STAMP)  ## the tests nearest to what differs from the last commit, in a minute
	@$(BIN)/python -m harness.quick

controlplane: $(STAMP)  ## build etcd and the Kubernetes control plane into the cache (needs Go; about 8 minutes once)
	@$(BIN)/python -m harness.controlplane build

realcluster: $(STAMP)  ## tests on the real control plane (skipped with one line where Go is missing)
	@if [ -n "$$KUBEBUILDER_ASSETS" ] || command -v go >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory controlplane && $(BIN)/python -m harness.strangers helm && \
	  { ! command -v go >/dev/null || $(BIN)/python -m harness.differential --clusters 0; } && \
	  $(call pytest,-n $(TESTERS) $(EACH_FILE) -m realcluster $(call files,realcluster)); \
	elif [ -n "$$CI" ]; then \
	  echo 'Go is missing: in CI the tests on the real control plane must run.' >&2; exit 1; \
	else \
	  echo 'Go is missing: the tests on the real control plane are skipped.'; \
	fi

koordinator: $(STAMP)  ## tests with Koordinator's real scheduler (skipped with one line where Go is missing)
	@if command -v go >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory controlplane && $(BIN)/python -m harness.strangers koord-scheduler && \
	  $(call pytest,tests/koordinator -m koordinator); \
	elif [ -n "$$CI" ]; then \
	  echo 'Go is missing: in CI the tests with Koordinator must run.' >&2; exit 1; \
	else \
	  echo 'Go is missing: the tests with Koordinator are skipped.'; \
	fi

strangers: $(STAMP)  ## beside descheduler, Argo Rollouts and others, unmodified (needs Go; builds them once; skipped with one line without it)
	@if command -v go >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory controlplane && $(BIN)/python -m harness.strangers && \
	  $(BIN)/python -m pytest -rs -m 'strangers or realcluster' tests/strangers; \
	else \
	  echo 'Go is missing: the tests beside other tools are skipped.'; \
	fi

HISTORIES ?= 1000
SEED      ?= $(shell date +%s)

nightly: $(STAMP)  ## random histories with faults and crashes, random plans against kube-scheduler, a day of mixed use: HISTORIES from SEED on (it is printed)
	@echo 'SEED=$(SEED) HISTORIES=$(HISTORIES)'
	$(BIN)/python -m harness.histories --seed $(SEED) --histories $(HISTORIES) --jobs $(JOBS)
	if command -v go >/dev/null; then $(BIN)/python -m harness.differential.plans --moves $$(( $(HISTORIES) * 5 )) --first $(SEED) && \
	  $(BIN)/python -m harness.differential.plans --asked --moves $(HISTORIES) --first $(SEED); \
	  else echo 'Go is missing: plans are not compared with kube-scheduler.'; fi
	if command -v go >/dev/null; then $(MAKE) --no-print-directory controlplane && $(BIN)/python -m harness.day --seed $(SEED); \
	  else echo 'Go is missing: no day is played on the real control plane.'; fi
	$(BIN)/python -m bench.crowds
	RESCHEDULER_EXAMPLES=$$(( $(HISTORIES) * 20 )) $(BIN)/python -m pytest --timeout=0 tests/controller/test_generated_objects.py
	RESCHEDULER_EXAMPLES=$$(( $(HISTORIES) / 4 + 1 )) $(BIN)/python -m pytest --timeout=0 tests/sandbox/test_histories_by_hypothesis.py
	RESCHEDULER_EVERY_ZONE=1 $(BIN)/python -m pytest tests/room_sets/test_cron.py
	RESCHEDULER_EXAMPLES=1 $(BIN)/python -m pytest -n $(JOBS) -m 'not realcluster' tests/upgrades
	if command -v go >/dev/null; then $(MAKE) --no-print-directory upgrade; else echo 'Go is missing: nothing is upgraded.'; fi
	$(MAKE) --no-print-directory strangers
	$(BIN)/python -m pytest -rs -m container tests/packaging
	RESCHEDULER_FIRST_SEED=$(SEED) RESCHEDULER_SEEDS=$$(( $(HISTORIES) / 10 + 1 )) $(BIN)/python -m pytest -n $(JOBS) \
	  $$(grep -rlE 'tests.seeds|mark.crossed' tests --include='test_*.py')

SAMPLE ?= 10

sbom: $(STAMP)  ## dist/sbom.cdx.json: what is in the image besides Python, as CycloneDX
	@rm -rf build/sbom && mkdir -p dist
	$(PYTHON) -m venv build/sbom
	build/sbom/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt .
	build/sbom/bin/python -m pip uninstall --quiet --yes pip setuptools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group sbom
	$(BIN)/cyclonedx-py environment --output-reproducible --of JSON --pyproject pyproject.toml -o dist/sbom.cdx.json build/sbom/bin/python

container: $(STAMP)  ## build the image with buildah and start it with runc (needs root, debootstrap, buildah, runc, Go; 6 minutes)
	$(BIN)/python -m pytest -m container tests/packaging

mutants: $(STAMP)  ## change one thing at a time in the most dangerous modules and print what no test notices: SAMPLE changes of each, 0 for all
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group mutants
	$(BIN)/python -m harness.mutants.protocol
	$(BIN)/python -m harness.mutants --sample $(SAMPLE)

VERSION ?= v1.35.4

monitoring: $(STAMP)  ## alerts, dashboard and metrics with promtool and Prometheus (needs Go; builds both once, 10 minutes)
	$(BIN)/python -m harness.strangers promtool prometheus
	$(BIN)/python -m pytest -m realcluster tests/manifests/test_monitoring.py tests/manifests/test_dashboard_on_prometheus.py

compatibility: $(STAMP)  ## the gate and moves on a real server of another VERSION of Kubernetes (needs Go; builds it once, 15 minutes)
	@set -e; KUBEBUILDER_ASSETS=$$($(BIN)/python -m harness.controlplane build --kubernetes $(VERSION)); \
	export KUBEBUILDER_ASSETS; \
	case $(VERSION) in v1.3[0-5].*) more=;; *) more='tests/controller tests/manifests';; esac; \
	$(BIN)/python -m pytest -m realcluster tests/webhook $$more  # before 1.36 the webhook is the only gate

bench: $(STAMP)  ## speed and memory, printed
	$(BIN)/python bench/run.py

changelog: $(STAMP)  ## what the notes of the next release say so far
	@$(BIN)/towncrier build --draft

FROM ?= v0.1.0

upgrade: controlplane  ## upgrade FROM a tag or commit, and back, on the real control plane while pods are moved (skipped without that commit)
	RESCHEDULER_UPGRADE_FROM=$(FROM) $(BIN)/python -m pytest -rs -m realcluster tests/upgrades

VERSIONED := pyproject.toml sandbox/pyproject.toml rescheduler/__init__.py charts/rescheduler/Chart.yaml charts/rescheduler/values.yaml manifests/base/deployment.yaml Dockerfile

release: $(STAMP)  ## cut RELEASE (0.2.0): version, CHANGELOG.md, recorded objects (CONTRIBUTING.md says what is left to do)
	@test -n '$(RELEASE)' || { echo 'make release RELEASE=0.2.0' >&2; exit 2; }
	@old=$$($(BIN)/python -c 'import rescheduler; print(rescheduler.__version__)'); \
	  sed -i "s/\b$$(echo $$old | sed 's/[.]/[.]/g')\b/$(RELEASE)/" $(VERSIONED)
	sed -i '/app.kubernetes.io\/version:/s/"[^"]*"/"$(RELEASE)"/' $$(grep -rl app.kubernetes.io/version: manifests)
	$(BIN)/towncrier build --yes --version $(RELEASE)
	$(BIN)/python -m harness.recorded $(RELEASE)
	@$(MAKE) --no-print-directory dist

URL ?= https://releases.example
PYTHONS ?=

dist: $(STAMP)  ## what a release publishes at URL, in dist/: wheel, source, krew plugin, chart, manifests, checksums (no network; make sbom and make container need one; PYTHONS="3.13 3.12 3.11" fetches the wheels of the plugin)
	$(BIN)/python -m harness.publish dist $(URL) $(PYTHONS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
