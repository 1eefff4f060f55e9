# The commands of this project. `make demo` and `make test` each do all their own set-up.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Where it is set, every process compiles all that it imports again: a second for each worker.
export PYTHONDONTWRITEBYTECODE :=
SOURCES := app native rebalance schemas state tests bench docs hatch_build.py
IN_PYTHON := tests/properties/test_join.py tests/properties/test_merge.py tests/properties/test_parts.py \
	tests/unit/test_avro_codec.py tests/unit/test_registry_codec.py tests/unit/test_unmatched_value.py

.PHONY: setup check test simulate chaos demo bench pictures up down lock format clean
.DEFAULT_GOAL := setup

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml deploy/setup.sh hatch_build.py $(wildcard native/*.[ch])
	@bash deploy/setup.sh $(VENV)
	@touch $@

check: setup
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

# In two processes, each with a broker of its own: a test mostly waits for one. A file is run by one
# of them, for its tests share what is dear to make. PROCESSES=0 is one process. What the compiled
# loops have a part in is run once more without them.
test: setup
	$(BIN)/pytest -n $(or $(PROCESSES),2) --dist loadfile $(ARGS)
	$(if $(ARGS),,SPANJOIN_COMPILED_LOOPS=off $(BIN)/pytest -n $(or $(PROCESSES),2) $(IN_PYTHON))

# Many schedules of failures against a simulated Kafka: SEEDS=20000. One of them with its trace: SEED=17.
simulate: setup
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),2000))

# Minutes of failures at random, and a crash and a pause at every step; CHAOS_MINUTES=20.
chaos: setup
	$(BIN)/pytest -m long -s $(ARGS)

demo: setup
	$(BIN)/spanjoin demo

# Kafka Streams is built through Maven. ARGS=handoff measures moves of lanes instead, ARGS=latency
# how soon results are there, ARGS=restore a large state, ARGS=curves how the cost of a record grows,
# ARGS=lanes many lanes.
bench: setup
	$(BIN)/python -X faulthandler -m bench $(ARGS)

# What the dashboard shows of a job, for README: needs Prometheus, and installs matplotlib.
pictures: setup
	test -x .tools/pictures/bin/python || python3 -m venv .tools/pictures
	.tools/pictures/bin/pip install --quiet --disable-pip-version-check "matplotlib==3.11.2"
	$(BIN)/python -m docs.dashboard .tools/pictures/panels.json
	.tools/pictures/bin/python docs/draw.py .tools/pictures/panels.json docs/dashboard.png

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
	rm -rf $(VENV) native/*.so .tools .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
