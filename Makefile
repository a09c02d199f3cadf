# Two commands on a fresh machine: `make demo` and `make test`. Each makes .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# `VERSIONS=oldest` installs the oldest versions that setup.cfg admits; `make test-oldest` does so in
# an environment of its own.
CONSTRAINTS := $(if $(filter oldest,$(VERSIONS)),--constraint .ci/oldest.txt)
TOOLS_INSTALLED := $(VENV)/.installed-tools

# Quiet TensorFlow's start-up chatter, and leave nothing else to the environment.
export TF_CPP_MIN_LOG_LEVEL ?= 2
export KERAS_BACKEND := tensorflow
export MPLBACKEND ?= Agg
export NO_MKDOCS_2_WARNING := 1

.PHONY: demo test test-slow test-docs test-machines test-oldest lint bench bench-gpu docs notebooks dist clean

demo: $(INSTALLED)
	$(BIN)/python -m keras_examples.discrete_vae --output output

# Two workers with a thread each; the slow tests have TensorFlow's own number of threads.
test: export TF_NUM_INTRAOP_THREADS ?= 1
test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 -m "not slow"

# Thousands of compiled programs stay in a process: the properties have one of their own.
test-slow: $(TOOLS_INSTALLED)
	$(BIN)/python -m pytest -n 2 -m slow --ignore tests/properties
	$(BIN)/python -m pytest -n 2 -m slow tests/properties

test-docs: $(TOOLS_INSTALLED)
	$(BIN)/python -m pytest -n 2 tests/docs

test-machines: $(INSTALLED)
	$(BIN)/python tests/machines.py

test-oldest:
	$(MAKE) test VERSIONS=oldest VENV=.venv-oldest

lint: $(INSTALLED)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check --quiet .
	$(BIN)/python -m mypy

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks --output output

# Needs a GPU that TensorFlow sees: `pip install --editable ".[gpu]"` in .venv brings the libraries.
bench-gpu: $(INSTALLED)
	$(BIN)/python -m benchmarks --device GPU --output output

docs: $(TOOLS_INSTALLED) build/explorer/figures.js
	$(BIN)/python -m mkdocs build --strict --quiet
	@echo "look at it: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

# The explorer's numbers come from the package: new ones when it changes.
build/explorer/figures.js: docs/tools/explorer.py benchmarks/estimator_table.py \
		$(wildcard tfconcrete/*/*.py) | $(TOOLS_INSTALLED)
	$(BIN)/python docs/tools/explorer.py $@

notebooks: $(TOOLS_INSTALLED)
	$(BIN)/python docs/tools/notebooks.py build/notebooks

dist: $(TOOLS_INSTALLED)
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*

$(TOOLS_INSTALLED): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable ".[dist,docs,notebooks]" $(CONSTRAINTS)
	touch $@

$(INSTALLED): setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(if $(CONSTRAINTS),$(BIN)/python -m pip install --quiet --upgrade pip)
	$(BIN)/python -m pip install --quiet --editable ".[examples,test,serving,onnx,litert]" $(CONSTRAINTS)
	touch $@

clean:
	rm -rf output build dist *.egg-info
