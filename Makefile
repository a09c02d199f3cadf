# Two commands on a fresh machine: `make demo` and `make test`. Each makes .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Quiet TensorFlow's start-up chatter, and leave nothing else to the environment.
export TF_CPP_MIN_LOG_LEVEL ?= 2
export KERAS_BACKEND := tensorflow
export MPLBACKEND ?= Agg

.PHONY: demo test test-slow lint bench clean

demo: $(INSTALLED)
	$(BIN)/python keras_examples/discrete_vae.py --output output

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 -m slow

lint: $(INSTALLED)
	$(BIN)/python -m ruff check .

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks --output output

$(INSTALLED): setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[examples,test,serving]"
	touch $@

clean:
	rm -rf output build *.egg-info
