# Every target sets itself up: on a machine with Python 3.11 (and its venv module) and make, start with any of them.
#
# PYTHON=python3.13   the interpreter that `.venv` is made with, if it does not exist yet
# PROCESSES=2         how many processes the tests are spread over
# SEEDS=2000          how many seeds `make sim` runs
# SCALE=1             how long `make soak` takes, as a factor: 0.1 is what CI does

PYTHON ?= python3
PROCESSES ?= 2
SEEDS ?= 2000
SCALE ?= 1

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
SOURCES := src tests tools examples $(wildcard benchmarks)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup up test check format client reference sim sim-faults soak bench lock clean

help: ## say what each target does
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv with exactly what requirements.lock names (done by every other target)

# The stamp is written last, so an installation that was broken off is done again.
$(STAMP): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Mainspring needs Python 3.11 or later: make setup PYTHON=python3.11")'
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

up: setup ## run the pipelines of examples/ until Ctrl-C
	$(BIN)/mainspring up examples

test: setup ## run every test but the soak, in random order
	$(BIN)/python -m pytest -n $(PROCESSES) tests

check: setup ## format, lint, types, house rules, fast tests: about two minutes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(SOURCES)
	$(BIN)/python -m pytest -q -n $(PROCESSES) tests/test_tidy.py $(wildcard tests/core tests/shard tests/cli)

format: setup ## put the source into its form and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

client: setup ## make the blocking client from the one that waits
	$(BIN)/python -m tools.sync_client

reference: setup ## make the pages of the reference that say what the code says
	$(BIN)/python -m tools.reference

sim: setup ## run the simulator over SEEDS seeds
	PYTHONHASHSEED=0 $(BIN)/python -m tests.sim --seeds $(SEEDS)

sim-faults: setup ## switch off one guard at a time and show that the simulator notices
	PYTHONHASHSEED=0 $(BIN)/python -m tests.sim --planted

soak: setup ## what takes longer than a test may: many seeds, long tests; SCALE=0.1 for a tenth
	SOAK_SCALE=$(SCALE) $(BIN)/python -m pytest -n $(PROCESSES) -m soak --timeout=7200 tests

bench: setup ## measure the engine, graphs, schedules, lists, folders, everything together, and what a kill -9 costs
	$(BIN)/python -m benchmarks.engine --store postgres -o json
	$(BIN)/python -m benchmarks.engine --store sqlite -o json
	$(BIN)/python -m benchmarks.graph -o json
	$(BIN)/python -m benchmarks.end_to_end --store postgres -o json
	$(BIN)/python -m benchmarks.schedules --store postgres -o json
	$(BIN)/python -m benchmarks.schedules --store sqlite -o json
	$(BIN)/python -m benchmarks.fan_out --store postgres -o json
	$(BIN)/python -m benchmarks.lists --store postgres -o json
	$(BIN)/python -m benchmarks.lists --store sqlite -o json
	$(BIN)/python -m benchmarks.folder -o json
	$(BIN)/python -m benchmarks.recovery -o json

# No header and no index lines: the file is the same whoever writes it, wherever.
lock: setup ## choose versions again within pyproject's ranges and write requirements.lock
	$(BIN)/uv pip compile --quiet --no-config --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url --no-emit-find-links --group dev pyproject.toml -o requirements.lock

clean: ## remove what the other targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage build dist
