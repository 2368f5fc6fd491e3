# make sweep: sets everything up and runs the main sweep.   make test: sets everything up and runs every test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup build sweep test long benchmark fuzz peers lint lock clean

setup: build

$(STAMP): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kneepoint needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "Python's venv module is missing: apt-get install python3-venv python3-dev"; exit 1; }
	@$(PYTHON) -c 'import sysconfig, pathlib, sys; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' || { echo "Python.h is missing: apt-get install python3-dev"; exit 1; }
	@command -v gcc >/dev/null || { echo "gcc is missing: apt-get install gcc"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@

build: $(STAMP)
	@$(BIN)/python setup.py --quiet build_ext --inplace

sweep: setup
	$(BIN)/python -m harness sweep --var workers

test: setup
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest

# The tests that take minutes: sanitizers and simulations at full length, every stock lock and index, ten random kills.
long: setup
	$(BIN)/python -m pytest -m long

benchmark: setup
	$(BIN)/python -m pytest --benchmark

# Every parser under libFuzzer, each for so many seconds: coverage over time; corpora and what breaks in build/fuzz.
SECONDS ?= 900
fuzz: setup
	PYTHONPATH=. $(BIN)/python tests/fuzzing.py $(SECONDS) $(ONLY)

# Servers and load tools that some tests and benchmarks use when they are there; needs Debian and root.
peers:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light redis-server wrk apache2-utils curl linux-perf rt-tests nghttp2-client python3-locust clang

lint: setup
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .
	$(BIN)/python -m mypy

# Resolves requirements.in anew; needs uv.
lock:
	uv pip compile --generate-hashes --no-header --no-annotate --no-emit-index-url --quiet --upgrade requirements.in -o requirements.txt

clean:
	rm -rf build $(VENV) pyx/*.so pyx/kneepoint-*
