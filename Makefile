# Everything runs in .venv, which is made from the lock files on first use.
# requirements.lock: a node. requirements-lab.lock, requirements-spark.lock: a node and relay-lab, or pyspark-relay.
# requirements-build.lock: the tools that build a wheel or install a checkout. requirements-dev.lock: all of these, and the tests.

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
DOCS := $(VENV)/.docs-installed
UV_VERSION := 0.13.9

.DELETE_ON_ERROR:
.PHONY: help demo test test-all lint pytest browser pytest-all simulate-smoke mutants drawn-mutants conformance reference docs bench \
	sbom audit-dependencies floors lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## two sites on this machine; the relay of one is killed half-way
	@$(BIN)/relay demo

test: lint pytest simulate-smoke ## lint, types, tests, simulated failures: six minutes on two cores; TESTS="not long" with slow ones

test-all: lint pytest-all ## the same with every test and more seeds
	$(BIN)/relay simulate --seeds 0:300

lint: $(DEV) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tests also write docs/reference/conformance.md from their `conforms` marks. The one in the repository must be equal.
PYTEST := $(BIN)/pytest -n 2 --conformance-report $(VENV)/conformance.md
COMPARE := diff -u docs/reference/conformance.md $(VENV)/conformance.md \
	|| { echo "docs/reference/conformance.md is out of date: run 'make conformance'" >&2; exit 1; }

TESTS := not long and not slow

# What needs Spark stays with one worker, which starts it once.
pytest: $(DEV) ## the tests of `make test`, and whether docs/reference/conformance.md is up to date
	$(PYTEST) -m "$(TESTS)"
	@$(COMPARE)

# As root, or with the rights of apt. Without a Chromium the tests of the dashboard are skipped, and say so.
APT := DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 \
	-o Acquire::https::Timeout=10
AXE_VERSION := 4.10.3
browser: $(DEV) ## install a Chromium and axe-core for the tests of the dashboard, with apt and npm
	@$(BIN)/python -c "from tests.harness.browser import find_browser; raise SystemExit(find_browser() is None)" \
		|| { $(APT) update && $(APT) install --no-install-recommends chromium; } >$(VENV)/browser.txt 2>&1 \
		|| echo "no Chromium could be installed here; $(VENV)/browser.txt says why" >&2
	@npm install --silent --no-save --prefix $(VENV)/npm axe-core@$(AXE_VERSION) || echo "axe-core could not be installed here" >&2

pytest-all: $(DEV) ## every test, also those that keep a machine busy for long
	$(PYTEST)
	@$(COMPARE)

SMOKE := 0:30
simulate-smoke: $(DEV) ## thirty simulated runs
	$(BIN)/relay simulate --seeds $(SMOKE)

# make mutants TRAPS="S5 R2" SEEDS=50: takes each fix away, in a copy, and sees whether a story or a seed notices.
mutants: $(DEV) ## take fixes away, and see whether a test notices: TRAPS="S5 R2" SEEDS=50
	@$(BIN)/python -m tests.mutants --seeds $(or $(SEEDS),200) $(TRAPS)

drawn-mutants: $(DEV) ## break lines of drawn packages, and see whether their tests notice: COUNT=20 SEED=1 MINUTES=6
	@$(BIN)/python -m tests.mutants --packages --draw $(or $(COUNT),20) --seed $(or $(SEED),$$(date +%s)) \
		--minutes $(or $(MINUTES),6)

# Rewrites docs/reference/conformance.md from the `conforms` marks of the tests.
conformance: $(DEV) ## rewrite docs/reference/conformance.md
	@$(BIN)/pytest --collect-only -qq --conformance-report docs/reference/conformance.md >$(VENV)/collected.txt \
		|| { cat $(VENV)/collected.txt; exit 1; }

# Rewrites docs/reference/configuration.md from the comments of the settings.
reference: $(DEV) ## rewrite docs/reference/configuration.md
	@$(BIN)/python -m tests.docs.configuration_page >$(VENV)/configuration.md
	@mv $(VENV)/configuration.md docs/reference/configuration.md

# A broken link, a missing page or a docstring that cannot be read fails it. Needs no network once the tools are installed.
docs: $(DOCS) ## build the documentation site in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html; for search: $(BIN)/python -m http.server --directory build/site --bind 127.0.0.1" >&2

# make bench SCENARIO=name
bench: $(RUNTIME) ## measure one SCENARIO, or all
	@$(BIN)/relay bench $(SCENARIO)

# What is in the image, as CycloneDX: of each package the version, the hashes, the license where it says so.
sbom: $(DEV) ## list what is in the image, as CycloneDX
	@mkdir -p dist
	@PYTHONWARNINGS=ignore $(BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --mc-type application \
		--output-reproducible --output-file dist/sbom.json
	@echo "dist/sbom.json" >&2

# Whether a vulnerability is known in what is installed anywhere. Fails, too, where the database cannot be reached.
audit-dependencies: $(DEV) ## look for known vulnerabilities
	@for lock in requirements requirements-build requirements-lab requirements-spark requirements-dev requirements-docs; do \
		echo "$$lock.lock" >&2; \
		$(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement $$lock.lock --progress-spinner off || { \
			echo "$$lock.lock: not known to be clean. What was found, or why nothing could be looked up, is said above." >&2; \
			exit 1; \
		}; \
	done

# Refreshes all lock files to the newest releases that pyproject.toml allows, for every platform and Python >= 3.11.
COMPILE := --quiet --upgrade --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock"
LOCK := $(BIN)/uv pip compile $(COMPILE) --no-emit-package sitestack --no-emit-package relay-lab
lock: | $(BIN)/python ## refresh the lock files
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)
	$(LOCK) pyproject.toml --extra node --output-file requirements.lock
	$(BIN)/uv pip compile --group build $(COMPILE) --constraint requirements.lock --output-file requirements-build.lock
	$(LOCK) lab/pyproject.toml --extra compose --constraint requirements.lock --output-file requirements-lab.lock
	$(LOCK) spark/pyproject.toml --constraint requirements.lock --output-file requirements-spark.lock
	$(LOCK) pyproject.toml lab/pyproject.toml spark/pyproject.toml --extra node --extra client --extra compose --group dev --constraint requirements.lock \
		--output-file requirements-dev.lock
	$(BIN)/uv pip compile --group docs $(COMPILE) --constraint requirements-dev.lock --output-file requirements-docs.lock

# The tests of the library and of a node with the lowest version of each dependency that pyproject.toml allows.
floors: $(DEV)
	$(BIN)/python -m pip install --quiet uv==$(UV_VERSION)
	$(BIN)/uv pip compile --quiet --resolution lowest-direct pyproject.toml --extra node --output-file $(VENV)/floors.txt
	tools/make-venv $(VENV)/floors
	$(VENV)/floors/bin/python -m pip install --quiet --constraint $(VENV)/floors.txt --editable '.[node]' --editable lab \
		anyio httpx hypothesis jsonschema openapi-spec-validator pytest pytest-trio pytest-xdist
	$(VENV)/floors/bin/pytest -n 2 -m "not long" tests/sitestack tests/relay

clean: ## remove what was built
	rm -rf $(VENV) .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@PYTHON="$(PYTHON)" tools/make-venv $(VENV)

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL_SELF := $(INSTALL) --no-deps --no-build-isolation --editable . --editable lab
PROJECTS := pyproject.toml lab/pyproject.toml spark/pyproject.toml

$(RUNTIME): requirements-lab.lock requirements-build.lock $(PROJECTS) | $(BIN)/python
	@echo "Installing relay and its lab into $(VENV) ..." >&2
	@$(INSTALL) --require-hashes --requirement requirements-lab.lock --requirement requirements-build.lock
	@$(INSTALL_SELF)
	@touch $@

$(DEV): requirements-dev.lock $(PROJECTS) | $(BIN)/python
	@echo "Installing relay, its lab, its part for Spark and the tests' tools into $(VENV) ..." >&2
	@$(INSTALL) --require-hashes --requirement requirements-dev.lock
	@$(INSTALL_SELF) --editable spark
	@touch $@

$(DOCS): requirements-docs.lock | $(BIN)/python
	@echo "Installing the tools of the documentation into $(VENV) ..." >&2
	@$(INSTALL) --require-hashes --requirement requirements-docs.lock
	@touch $@
