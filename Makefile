# Targets install what they need. Requires Python 3.11 (with the venv module) and make.
#
# PYTHON=python3.13   interpreter used to create `.venv`
# PROCESSES=2         number of test processes
# SEEDS=2000          number of seeds for `make sim`
# SCALE=1             duration factor of `make soak`; CI uses 0.03
# PROFILE=explore     Hypothesis profile of `make soak-tests`: new examples, or PROFILE=same for fixed ones
# ARGS="-k guard"     pytest arguments for `make test`

PYTHON ?= python3
PROCESSES ?= 2
SEEDS ?= 2000
SCALE ?= 1
PROFILE ?= explore

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
TOOLS := $(VENV)/.set-up-for-tests
RAY := .venv-ray/.set-up
SOURCES := src tests tools examples $(wildcard benchmarks)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# $(call install,ENVIRONMENT,ARGUMENTS). pip's output is shown only if it fails, with its exit code. Warnings about
# locations are never shown: pip.conf causes one per package. pip compiles files sequentially, `compileall` on all cores;
# package files that are not valid in this Python version are ignored.
install = { $(1)/bin/python -m pip install --quiet --no-compile $(2) 2> $(1)/pip.log \
	|| { code=$$?; grep -v '^WARNING: Location ' $(1)/pip.log >&2; exit $$code; }; } \
	&& { $(1)/bin/python -m compileall -qq -j 0 $(1)/lib > $(1)/compile.log 2>&1 || true; }

# $(call count,LOCK): number of packages that a lock file installs on this platform.
count = $$(grep '^[A-Za-z0-9].*==' $(1) | grep -vc "sys_platform == '")

.DEFAULT_GOAL := help
.PHONY: help setup tools up test check types fast-tests format client reference golden sim sim-faults soak soak-tests properties bench peers lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## create .venv with the runtime dependencies of requirements.lock

tools: $(TOOLS) ## install the development dependencies of requirements-dev.lock, including PostgreSQL and Node

# The stamps are written last, so an interrupted installation is repeated. An up-to-date target prints nothing.
$(STAMP): requirements.lock pyproject.toml
	@test -x $(BIN)/python || { \
		echo "Creating $(VENV) with $$($(PYTHON) --version) (about 5 seconds)"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Mainspring needs Python 3.11 or later: make setup PYTHON=python3.11")'
	@echo "Installing $(call count,requirements.lock) packages (requirements.lock, about 15 seconds)"
	@$(call install,$(VENV),--require-hashes -r requirements.lock)
	@echo "Installing Mainspring itself (about 3 seconds)"
	@$(call install,$(VENV),--no-deps --no-build-isolation --editable .)
	@touch $(STAMP)

$(TOOLS): requirements-dev.lock $(STAMP)
	@$(BIN)/python -m tools.system_packages
	@echo "Installing test tools: $(call count,requirements-dev.lock) packages with PostgreSQL and Node" \
		"(requirements-dev.lock, about 20 seconds)"
	@$(call install,$(VENV),--require-hashes -r requirements-dev.lock)
	@touch $(TOOLS)

# Ray has a separate environment: it has many dependencies, and we use none of them.
$(RAY): tests/worker/remote/ray-requirements.lock
	@test -x .venv-ray/bin/python || { \
		echo "Creating .venv-ray with $$($(PYTHON) --version) (about 5 seconds)"; $(PYTHON) -m venv .venv-ray; }
	@echo "Installing Ray: $(call count,$<) packages (ray-requirements.lock, about 30 seconds)"
	@$(call install,.venv-ray,--require-hashes -r $<)
	@touch $(RAY)

up: setup ## run the pipelines in examples/ until Ctrl-C
	$(BIN)/mainspring up examples

test: tools ## run all tests except the soak, in random order, in two groups
	@$(BIN)/python -m tools.run_tests -n $(PROCESSES) $(ARGS)

check: tools ## check format, lint, types and house rules, and run the fast tests (about a minute)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target types fast-tests

types: tools ## type-check all sources
	$(BIN)/mypy $(SOURCES)

fast-tests: tools ## run house rules and the fast tests of pure code
	$(BIN)/python -m pytest -q -n $(PROCESSES) -m "not soak and not long" tests/test_tidy.py tests/core tests/golden tests/shard

format: tools ## format the source and apply ruff's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

client: tools ## generate the blocking client from the asyncio client
	$(BIN)/python -m tools.sync_client

reference: tools ## generate the reference pages from the code
	$(BIN)/python -m tools.reference

golden: tools ## rewrite the golden files
	$(BIN)/python -m tests.golden

sim: tools ## run the simulator over SEEDS seeds
	PYTHONHASHSEED=0 $(BIN)/python -m tests.sim --seeds $(SEEDS)

sim-faults: tools ## disable one guard at a time and check that the simulator detects it
	PYTHONHASHSEED=0 $(BIN)/python -m tests.sim --planted

soak: soak-tests properties ## run the long tests, and properties with new examples; SCALE=0.05 for a twentieth

soak-tests: tools $(RAY) ## run the long tests; PROFILE=same for fixed examples, as in CI
	SOAK_SCALE=$(SCALE) $(BIN)/python -m pytest -n $(PROCESSES) -m soak --timeout=7200 --hypothesis-profile=$(PROFILE) tests

properties: tools ## run all property tests with new and more examples
	SOAK_SCALE=$(SCALE) $(BIN)/python -m pytest -n $(PROCESSES) -m "property and not soak" --timeout=7200 \
		--hypothesis-profile=explore tests

bench: tools ## run all benchmarks: engine, placement, fairness, graphs, schedules, lists, folders, end to end, recovery
	$(BIN)/python -m benchmarks.engine --store postgres -o json
	$(BIN)/python -m benchmarks.engine --store sqlite -o json
	$(BIN)/python -m benchmarks.placement -o json
	$(BIN)/python -m benchmarks.fairness --store postgres -o json
	$(BIN)/python -m benchmarks.fleet --store sqlite -o json
	$(BIN)/python -m benchmarks.diagnosis -o json
	$(BIN)/python -m benchmarks.graph -o json
	$(BIN)/python -m benchmarks.end_to_end --store postgres -o json
	$(BIN)/python -m benchmarks.schedules --store postgres -o json
	$(BIN)/python -m benchmarks.schedules --store sqlite -o json
	$(BIN)/python -m benchmarks.fan_out --store postgres -o json
	$(BIN)/python -m benchmarks.lists --store postgres -o json
	$(BIN)/python -m benchmarks.lists --store sqlite -o json
	$(BIN)/python -m benchmarks.claims --store postgres -o json
	$(BIN)/python -m benchmarks.claims --store sqlite -o json
	$(BIN)/python -m benchmarks.folder -o json
	$(BIN)/python -m benchmarks.recovery -o json
	$(BIN)/python -m benchmarks.sizes -o json

peers: tools ## compare with other systems (half an hour, on an idle machine)
	$(BIN)/python -m benchmarks.peers --out compared

# No header and no index lines: the files are the same on every machine. With extras: if only `coverage` is listed, pip
# treats a dependency on `coverage[toml]` as unpinned, and refuses to install anything once there is a newer version.
COMPILE := $(BIN)/uv pip compile --quiet --no-config --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-header --no-strip-extras --no-emit-index-url --no-emit-find-links

lock: tools ## upgrade dependencies within their ranges and write the lock files
	$(COMPILE) --group dev pyproject.toml -o requirements-dev.lock
	$(COMPILE) --constraint requirements-dev.lock --group build pyproject.toml -o requirements.lock
	$(COMPILE) tests/worker/remote/ray-requirements.in -o tests/worker/remote/ray-requirements.lock

clean: ## remove generated files and environments
	rm -rf $(VENV) .venv-ray .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage build dist
