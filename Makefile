# Every target sets itself up: on a machine with Python 3.11 (and its venv module) and make, start with any of them.
#
# PYTHON=python3.13   the interpreter that `.venv` is made with, if it does not exist yet
# PROCESSES=2         how many processes the tests are spread over
# SEEDS=2000          how many seeds `make sim` runs
# SCALE=1             how long `make soak` takes, as a factor: 0.03 is what CI does
# PROFILE=explore     examples of properties in `make soak-tests`: new ones, or with PROFILE=same always the same
# ARGS="-k guard"     arguments of pytest for `make test`

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

# $(call install,ENVIRONMENT,ARGUMENTS). What pip says is shown if it fails, with its exit code; its warnings alone are
# not. Those about locations never are: they are about pip.conf, one for each package. pip compiles one file after another,
# `compileall` on all cores; a file of a package that is no Python of this version is no reason to stop.
install = { $(1)/bin/python -m pip install --quiet --no-compile $(2) 2> $(1)/pip.log \
	|| { code=$$?; grep -v '^WARNING: Location ' $(1)/pip.log >&2; exit $$code; }; } \
	&& { $(1)/bin/python -m compileall -qq -j 0 $(1)/lib > $(1)/compile.log 2>&1 || true; }

# $(call count,LOCK): how many packages of a lock file are installed here.
count = $$(grep '^[A-Za-z0-9].*==' $(1) | grep -vc "sys_platform == '")

.DEFAULT_GOAL := help
.PHONY: help setup tools up test check types fast-tests format client reference golden sim sim-faults soak soak-tests properties bench peers lock clean

help: ## say what each target does
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv with what Mainspring runs with, exactly as requirements.lock names it

tools: $(TOOLS) ## add what tests and checks need, PostgreSQL and Node among it, as requirements-dev.lock names it

# The stamps are written last, so an installation that was broken off is done again. What is up to date says nothing.
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

# Ray has an environment of its own: its dependencies are many, and none of ours.
$(RAY): tests/backends/ray-requirements.lock
	@test -x .venv-ray/bin/python || { \
		echo "Creating .venv-ray with $$($(PYTHON) --version) (about 5 seconds)"; $(PYTHON) -m venv .venv-ray; }
	@echo "Installing Ray: $(call count,$<) packages (ray-requirements.lock, about 30 seconds)"
	@$(call install,.venv-ray,--require-hashes -r $<)
	@touch $(RAY)

up: setup ## run the pipelines of examples/ until Ctrl-C
	$(BIN)/mainspring up examples

test: tools ## run every test but the soak, in random order, in two groups
	@$(BIN)/python -m tools.run_tests -n $(PROCESSES) $(ARGS)

check: tools ## format, lint, types, house rules, fast tests: about a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --keep-going --jobs 2 --output-sync=target types fast-tests

types: tools ## check the types of everything
	$(BIN)/mypy $(SOURCES)

fast-tests: tools ## house rules, and the tests of pure code without the long ones
	$(BIN)/python -m pytest -q -n $(PROCESSES) -m "not soak and not long" tests/test_tidy.py tests/core tests/golden tests/shard

format: tools ## put the source into its form and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

client: tools ## make the blocking client from the one that waits
	$(BIN)/python -m tools.sync_client

reference: tools ## make the pages of the reference that say what the code says
	$(BIN)/python -m tools.reference

golden: tools ## write the golden files anew: what users, workers and stores see of the program
	$(BIN)/python -m tests.golden

sim: tools ## run the simulator over SEEDS seeds
	PYTHONHASHSEED=0 $(BIN)/python -m tests.sim --seeds $(SEEDS)

sim-faults: tools ## switch off one guard at a time and show that the simulator notices
	PYTHONHASHSEED=0 $(BIN)/python -m tests.sim --planted

soak: soak-tests properties ## what takes longer than a test may, and properties with new examples; SCALE=0.05 for a twentieth

soak-tests: tools $(RAY) ## the long tests of the soak; PROFILE=same for the same examples each time, as in CI
	SOAK_SCALE=$(SCALE) $(BIN)/python -m pytest -n $(PROCESSES) -m soak --timeout=7200 --hypothesis-profile=$(PROFILE) tests

properties: tools ## every property with new and more examples
	SOAK_SCALE=$(SCALE) $(BIN)/python -m pytest -n $(PROCESSES) -m "property and not soak" --timeout=7200 \
		--hypothesis-profile=explore tests

bench: tools ## measure the engine, placement, fairness, graphs, schedules, lists, folders, everything together, and what a kill -9 costs
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

peers: tools ## the same work on other systems and on ours: half an hour, on a quiet machine
	$(BIN)/python -m benchmarks.peers --out compared

# No header and no index lines: a file is the same whoever writes it, wherever. With extras: pip takes a dependency on
# `coverage[toml]` for one without a pin if only `coverage` is named, and refuses to install anything once there is a newer one.
COMPILE := $(BIN)/uv pip compile --quiet --no-config --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-header --no-strip-extras --no-emit-index-url --no-emit-find-links

lock: tools ## choose versions again within the ranges and write the lock files
	$(COMPILE) --group dev pyproject.toml -o requirements-dev.lock
	$(COMPILE) --constraint requirements-dev.lock --group build pyproject.toml -o requirements.lock
	$(COMPILE) tests/backends/ray-requirements.in -o tests/backends/ray-requirements.lock

clean: ## remove what the other targets made
	rm -rf $(VENV) .venv-ray .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage build dist
