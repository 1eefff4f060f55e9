# The commands of this project. `make demo` and `make test` each do all their own set-up.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Where it is set, every process compiles all that it imports again: a second for each worker.
export PYTHONDONTWRITEBYTECODE :=
SOURCES := app rebalance schemas state tests bench

.PHONY: setup check test simulate chaos demo bench up down lock format clean
.DEFAULT_GOAL := setup

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml deploy/setup.sh
	@bash deploy/setup.sh $(VENV)
	@touch $@

check: setup
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

# In two processes, each with a broker of its own: a test mostly waits for one. A file is run by one
# of them, for its tests share what is dear to make. PROCESSES=0 is one process.
test: setup
	$(BIN)/pytest -n $(or $(PROCESSES),2) --dist loadfile $(ARGS)

# Many schedules of failures against a simulated Kafka: SEEDS=20000. One of them with its trace: SEED=17.
simulate: setup
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),2000))

# Minutes of failures at random, and a crash and a pause at every step; CHAOS_MINUTES=20.
chaos: setup
	$(BIN)/pytest -m long -s $(ARGS)

demo: setup
	$(BIN)/spanjoin demo

# Kafka Streams is built through Maven. ARGS=handoff measures moves of lanes and latency instead,
# ARGS=restore a large state, ARGS=curves how the cost of a record grows, ARGS=lanes many lanes.
bench: setup
	$(BIN)/python -X faulthandler -m bench $(ARGS)

up:
	docker compose up --build --detach

down:
	docker compose down --volumes

lock:
	bash deploy/setup.sh --lock

format: setup
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

clean:
	rm -rf $(VENV) .tools .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
