# Every target sets up what it needs: a bare machine with Python 3.11+ and a package index is enough.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Ray has an environment of its own: constraints-ray.txt says why.
RAY_VENV  ?= .venv-ray
RAY_STAMP := $(RAY_VENV)/.installed

# Threads that wait must not spin: tests and runs share the cores.
export OMP_WAIT_POLICY ?= PASSIVE

# --no-compile below: Python compiles a file when it is first imported, which few of the 17,000 installed ones are.
# Containers often set this variable; every process would then compile torch again, which takes seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-processes test-without-kernels test-cluster check lint lines bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-20s %s\n", $$1, $$2}'

setup: $(STAMP)  ## create .venv and install the suite (once; again when its requirements change)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Python 3.11 or newer is needed; $(PYTHON) is {v[0]}.{v[1]}. Try: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (two minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --editable '.[glove,joblib,slurm,word2vec,transformer,dev]'
	@touch $@

$(RAY_STAMP): pyproject.toml constraints-ray.txt
	@test -x $(RAY_VENV)/bin/python || $(PYTHON) -m venv $(RAY_VENV)
	@echo "Installing Ray into $(RAY_VENV) (two minutes the first time) ..."
	@$(RAY_VENV)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints-ray.txt --editable '.[glove,ray]' pytest
	@touch $@

demo: $(STAMP)  ## baseline, baseline + ELMo and the control on the shipped mini data, and their table
	@for seed in 1 2 3; do \
		$(BIN)/python -m tasks.run -m experiment=mini seed=$$seed && $(BIN)/python -m results.table --data mini || exit 1; done
	@$(BIN)/python -m results.report --data mini

test: $(STAMP)  ## run the whole default test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-processes: $(STAMP)  ## more commands and failures, each in processes of its own
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'processes and not slow'

test-without-kernels: $(STAMP)  ## the fast tests of what uses kernels, in a copy of the tree that has none
	$(BIN)/python -m tests.without_kernels

test-cluster: $(STAMP) $(RAY_STAMP)  ## sweeps on a real SLURM and a real Ray, on loopback; says what is not installed
	$(BIN)/python -m pytest -m cluster tests/cluster/test_slurm.py
	$(RAY_VENV)/bin/python -m pytest -m cluster tests/cluster/test_ray.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint  ## lint, formatting, types and the fast tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not integration and not processes and not slow and not gpu and not cluster'

lines:  ## count the lines of code by folder, without docstrings, comments and blank lines
	@$(PYTHON) -m tests.line_counts

# The table alone goes to stdout: BENCH_FORMAT=json make bench > FILE gives a JSON document, even where it installs first.
bench:  ## measure speeds, each next to an anchor, in two minutes; BENCH='--full', BENCH='--help' for more
	@$(MAKE) -s setup >&2
	@$(BIN)/python -m tests.benchmarks $(BENCH)

clean:  ## remove .venv and caches
	rm -rf $(VENV) $(RAY_VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
